"""From two tables to predictions: training, judging, saving, and what a damaged folder gets."""

import csv
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn import Graph, clean, load
from apgcn.cli import run
from apgcn.cli.input_files import Files
from apgcn.cli.predict import asked_graph
from apgcn.data.npz import write_npz
from apgcn.data.transforms import subgraph
from apgcn.errors import BrokenFile, InvalidInput, MissingFile
from apgcn.inference import bundle as saved_models
from apgcn.inference.bundle import SavedModel, load_model, save_model
from apgcn.inference.calibration import expected_calibration_error, reliability, temperature_for
from apgcn.inference.fit import fit
from apgcn.inference.halting_benchmark import compare
from apgcn.inference.onnx import Answering, write_onnx
from apgcn.inference.splits import stratified_split, without
from apgcn.inference.tuning import tune
from apgcn.io.csv import write_csv
from apgcn.io.graphml import write_graphml
from apgcn.io.registry import read_table
from apgcn.models.ap_appnp import APAPPNPConfig
from apgcn.models.ap_arma import APARMAConfig
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.gcn import GCNConfig
from apgcn.models.registry import config_class
from apgcn.training.config import TrainingConfig
from apgcn.training.search_space import searched

QUICK = ["--set", "max_epochs=200"]
OWN = ["train", "--edges", "EDGES", "--nodes", "NODES", "--label", "topic"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The embedded Cora as a user would have it: string ids, a label column that is mostly empty."""
    folder, cora = tmp_path_factory.mktemp("cora"), load("cora")
    coo = cora.adjacency.tocoo()
    names = cora.node_names
    links = [(names[first], names[second]) for first, second in zip(coo.row, coo.col, strict=True)]
    write_csv(folder / "edges.csv", ["source", "target"], links)
    known = np.random.default_rng(0).random(cora.num_nodes) < 0.2
    words = cora.features.toarray().astype(int)
    rows = [
        [names[node], cora.class_names[cora.labels[node]] if known[node] else "", *words[node]]
        for node in range(cora.num_nodes)
    ]
    write_csv(folder / "nodes.csv", ["id", "topic", *(f"w{number}" for number in range(words.shape[1]))], rows)
    return folder


@pytest.fixture(scope="module")
def model(tables):
    given = ["--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "topic"]
    out = tables / "models" / "topics"
    assert run(["train", *map(str, given), "--out", str(out), "--runs", "2", "--test-size", "0.2", *QUICK]) == 0
    return out


def test_three_commands_train_predict_and_explain(model, tables, tmp_path, capsys):
    assert run(["predict", str(model), "--out", str(tmp_path / "predictions.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == 2708
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cora = load("cora")
    assert [row["id"] for row in rows] == list(cora.node_names)
    assert {row["prediction"] for row in rows} <= set(cora.class_names)
    assert all(1 / 7 <= float(row["probability"]) <= 1 and 1 <= float(row["steps"]) <= 10 for row in rows)
    right = np.mean(
        [row["prediction"] == cora.class_names[label] for row, label in zip(rows, cora.labels, strict=True)]
    )
    assert right > 0.6
    assert run(["explain", str(model), "--html", str(tmp_path / "steps.html")]) == 0
    assert (tmp_path / "steps.html").stat().st_size > 100_000


def test_new_nodes_get_what_they_would_get_in_the_whole_graph(model, tables, tmp_path):
    """Forty papers are taken for new: added, or in tables of all papers."""
    nodes, edges = ((tables / name).read_text().splitlines() for name in ("nodes.csv", "edges.csv"))
    saved = load_model(model)
    new = {line.split(",")[0] for line in nodes[1:41]}
    (tmp_path / "old_nodes.csv").write_text("\n".join([nodes[0], *nodes[41:]]))
    (tmp_path / "new_nodes.csv").write_text("\n".join(nodes[:41]))
    is_new = [bool(set(line.split(",")) & new) for line in edges[1:]]
    for name, chosen in (("old", False), ("new", True)):
        lines = [line for line, one in zip(edges[1:], is_new, strict=True) if one == chosen]
        (tmp_path / f"{name}_edges.csv").write_text("\n".join([edges[0], *lines]))
    old = asked_graph(saved, Files(tmp_path / "old_edges.csv", tmp_path / "old_nodes.csv", None), add=False)
    split = stratified_split(old.labels)
    smaller = SavedModel(
        fit(old, split, saved.fitted.model, TrainingConfig(max_epochs=1)), old, saved.encoding, saved.schema
    )
    smaller.fitted.weights.update(saved.fitted.weights)
    save_model(tmp_path / "smaller", smaller)
    options = ["--edges", tmp_path / "new_edges.csv", "--nodes", tmp_path / "new_nodes.csv", "--add"]
    grown = asked_graph(load_model(tmp_path / "smaller"), Files(options[1], options[3], None), add=True)
    said, whole = saved.fitted.predict(grown), saved.fitted.predict(saved.graph)
    order = [grown.node_names.index(name) for name in saved.graph.node_names]
    np.testing.assert_allclose(said.probabilities[order], whole.probabilities, atol=1e-5)
    np.testing.assert_array_equal(said.steps[order], whole.steps)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["predict", "MODEL", "--out", "p.csv", "--edges", "EDGES"], "--edges and --nodes must be given together"),
        (["predict", "MODEL", "--out", "p.csv", "--nodes", "31336,nobody"], "unknown node 'nobody'"),
        (["predict", "MODEL", "--out", "p.csv", "--nodes", "NODES"], "--nodes must come with --edges when"),
        (["predict", "MODEL", "--out", "p.csv", "--nodes", " , "], "--nodes must name at least one node"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", "0.1,x"], "--penalties must be numbers with commas"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", " ,"], "--penalties must be numbers with commas"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", "0.1,-1"], "penalty must be >= 0, got -1"),
        ([*OWN, "--out", "m", "--set", "freeze_halted=maybe"], "freeze_halted must be true or false, got 'maybe'"),
        (["predict", "MODEL", "--out", "p.csv", "--add"], "--add must come with --edges"),
        (["predict", "MODEL", "--out", "p.xlsx"], "--out must name a table, .csv or .parquet, got p.xlsx"),
        (["predict", "MODEL", "--out", "MODEL/model.json"], "--out must not name what is read"),
        (["predict", "MODEL", "--edges", "EDGES", "--nodes", "NODES", "--out", "NODES"], "must not name what is read"),
        (["explain", "MODEL", "--html", "MODEL/graph.npz"], "--html must not name what is read"),
        (["export", "MODEL", "--onnx", "MODEL/weights.safetensors"], "--onnx must not name what is read"),
        (["train", "cora", "--test-size", "0.2"], "--test-size is for one's own graph"),
        ([*OWN, "--out", "m", "--test-size", "0.9"], "--test-size must leave nodes to train: at most 0.7, got 0.9"),
        (["predict", "nowhere", "--out", "p.csv"], "nowhere must be the folder of a model of one's own graph"),
        (["predict", "MODEL", "--out", "/no/such/place/p.csv"], "--out must name a file in a folder that exists"),
        (["predict", "MODEL", "--out", "."], "--out must name a file, but"),
        (["explain", "MODEL", "--html", "/no/such/place/p.html"], "must name a file in a folder that exists"),
        (["explain", "MODEL", "--html", "p.html", "--node", "nobody"], "unknown node 'nobody'"),
        (OWN, "--out must name the new folder"),
        (["train", "--edges", "EDGES", "--out", "m"], "--edges and --nodes must be given together"),
        (["train", "--edges", "EDGES", "--nodes", "NODES", "--out", "m"], "--label must name the column"),
        (["train", "cora", "--edges", "EDGES", "--nodes", "NODES", "--label", "topic", "--out", "m"], "has no name in"),
        (["train", "cora", "--label", "topic"], "give --edges and --nodes, too"),
        ([*OWN, "--out", "MODEL"], "has files in it"),
        ([*OWN, "--out", "m", "--test-size", "2"], "--test-size must be in [0, 1), got 2.0"),
        ([*OWN, "--out", "m", "--model", "btfp"], "no weights"),
        ([*OWN, "--out", "m", "--graph", "g.graphml"], "--graph must be given without --edges and --nodes"),
        ([*OWN, "--out", "m", "--tune", "-1"], "tune must be >= 0, got -1"),
        (["train", "--graph", "g.gml", "--label", "topic", "--out", "m"], "must be a graph, .graphml or .npz"),
        (["train", "--graph", "g.npz", "--out", "m"], "there is no such file"),
        (["train", "--graph", "g.npz", "--label", "topic", "--out", "m"], "holds arrays, not columns"),
        (["train", "cora", "--tune", "3"], "say: apgcn tune cora"),
        (["predict", "MODEL", "--out", "p.csv", "--graph", "g.npz"], "give tables or a .graphml"),
        (["predict", "MODEL", "--out", "p.csv", "--add", "--graph", "g.graphml"], "--add must come with --edges"),
        (["export", "MODEL", "--onnx", "/no/such/place/m.onnx"], "--onnx must name a file in a folder that exists"),
    ],
)  # fmt: skip
def test_a_mistyped_command_is_told_in_words(arguments, sentence, model, tables, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"MODEL": str(model), "EDGES": str(tables / "edges.csv"), "NODES": str(tables / "nodes.csv")}
    arguments = [names.get(one, one.replace("MODEL/", f"{model}/")) for one in arguments]
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert sentence in told.splitlines()[-1]
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_predict_refuses_other_features(model, tables, tmp_path, capsys):
    lines = (tables / "nodes.csv").read_text().splitlines()
    (tmp_path / "nodes.csv").write_text("\n".join(line.rsplit(",", 2)[0] for line in lines))
    options = ["--edges", str(tables / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    assert run(["predict", str(model), "--out", str(tmp_path / "p.csv"), *options]) == 2
    assert "lacks 'w1431', 'w1432'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def damaged(folder, name, change):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(change(content))


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "graph.npz"])
@pytest.mark.parametrize(
    "change",
    [lambda old: old[: len(old) // 2], lambda old: old[:99] + b"?" + old[100:], lambda old: b""],
    ids=["cut", "altered", "emptied"],
)
def test_a_damaged_model_is_refused(model, tmp_path, name, change):
    shutil.copytree(model, tmp_path / "model")
    damaged(tmp_path / "model", name, change)
    with pytest.raises(BrokenFile):
        load_model(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(MissingFile):
        load_model(tmp_path / "model")


def test_a_model_of_another_version_is_refused_in_words(model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    damaged(tmp_path / "model", "model.json", lambda old: old.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(BrokenFile, match=r"was saved by apgcn .* in a form that .* does not know; use that version"):
        load_model(tmp_path / "model")


def test_a_saved_model_says_what_it_said(tmp_path):
    cora = clean(load("cora"))
    labels = np.where(np.arange(cora.num_nodes) % 5 == 0, cora.labels, -1)
    fitted = fit(cora, stratified_split(labels), APGCNConfig(), TrainingConfig(max_epochs=20), initialisations=2)
    save_model(tmp_path / "model", SavedModel(fitted, cora))
    again = load_model(tmp_path / "model")
    said, told = fitted.predict(cora), again.fitted.predict(again.graph)
    np.testing.assert_array_equal(said.probabilities, told.probabilities)
    assert again.fitted.model == fitted.model
    assert [len(getattr(again.fitted.split, name)) for name in ("train", "stopping", "test")] == [
        len(getattr(fitted.split, name)) for name in ("train", "stopping", "test")
    ]
    with pytest.raises(InvalidInput, match="must have the 1433 features"):
        fitted.predict(type(cora)(cora.adjacency, features=np.zeros((cora.num_nodes, 3)), labels=cora.labels))


def test_what_the_graph_is_called_changes_nothing():
    cora = clean(load("cora"))
    said = [
        fit(graph, stratified_split(cora.labels), APGCNConfig(), TrainingConfig(max_epochs=3))
        .predict(graph)
        .probabilities
        for graph in (cora, replace(cora, name="another"))
    ]
    np.testing.assert_array_equal(*said)


def test_every_class_is_held_out_and_trained_on():
    labels = np.array([0] * 50 + [1] * 2 + [2] * 3 + [-1] * 20)
    split = stratified_split(labels, stopping=0.2, test=0.2)
    for name, counts in (("test", [10, 0, 1]), ("stopping", [10, 1, 1]), ("train", [30, 1, 1])):
        assert np.bincount(labels[getattr(split, name)], minlength=3).tolist() == counts, name
    assert (stratified_split(labels, seed=1).train != stratified_split(labels).train).any()
    with pytest.raises(InvalidInput, match="some class must have two labelled nodes"):
        stratified_split(np.array([0, 1, -1]))
    with pytest.raises(InvalidInput, match="less than 1 together"):
        stratified_split(labels, stopping=0.6, test=0.5)


def test_certainty_is_made_as_good_as_it_can_be():
    """Labels drawn from known probabilities: the temperature that was put in comes out."""
    random = np.random.default_rng(0)
    logits = random.standard_normal((1, 20_000, 3)) * 2
    chances = torch.as_tensor(logits[0]).softmax(-1).numpy()
    labels = (chances.cumsum(axis=1) > random.random((20_000, 1))).argmax(axis=1)
    assert temperature_for(logits * 3, labels) == pytest.approx(3, rel=0.05)
    assert expected_calibration_error(chances, labels) < 0.01
    sharp = torch.as_tensor(3 * logits[0]).softmax(-1).numpy()
    assert expected_calibration_error(sharp, labels) > 0.1
    assert sum(part.nodes for part in reliability(sharp, labels)) == 20_000


def test_a_training_that_cannot_be_saved_is_told_before_it_begins(tables, tmp_path, capsys):
    (tmp_path / "file").write_text("here")
    given = ["--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "topic"]
    assert run(["train", *map(str, given), "--out", str(tmp_path / "file" / "model")]) == 2
    assert "--out must be writable" in capsys.readouterr().err


def of_a_club(folder):
    """A small graph as GraphML and as an archive, in which neighbours tend to be of one kind."""
    random = np.random.default_rng(0)
    kinds = np.arange(60) % 2
    links = random.random((60, 60)) < np.where(kinds[:, None] == kinds, 0.2, 0.02)
    features = np.column_stack([kinds + random.normal(size=60), random.normal(size=60)])
    labels = np.where(random.random(60) < 0.5, kinds, -1)
    club = Graph(np.triu(links, 1) | np.triu(links, 1).T, features=features, labels=labels, class_names=("x", "y"))
    write_graphml(folder / "club.graphml", club)
    write_npz(folder / "club.npz", club)
    return club


@pytest.mark.parametrize("name", ["club.graphml", "club.npz"])
def test_a_graph_in_one_file(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    of_a_club(tmp_path)
    label = ["--label", "label"] if name.endswith("ml") else []
    assert run(["train", "--graph", name, *label, "--out", "m", *QUICK]) == 0
    assert run(["predict", "m", "--out", "own.csv"]) == 0
    assert run(["predict", "m", "--graph", name, "--out", "again.csv"]) == 0
    assert (tmp_path / "own.csv").read_text() == (tmp_path / "again.csv").read_text()
    assert (tmp_path / "own.csv").read_text().splitlines()[60].startswith("59,")
    other = {"club.npz": "club.graphml", "club.graphml": "club.npz"}[name]
    assert run(["predict", "m", "--graph", other, "--out", "other.csv"]) == 2
    assert "the model was trained on" in capsys.readouterr().err


def test_a_search_takes_the_best_and_does_not_see_test_labels(tmp_path):
    club = of_a_club(tmp_path)
    split = stratified_split(club.labels, test=0.3)
    other = club.labels.copy()
    other[split.test] = 1 - other[split.test]
    found = [
        tune(replace(club, labels=labels), split, "apgcn", {"max_epochs": 30, "l2": 0.001}, trials=3)
        for labels in (club.labels, other)
    ]
    assert found[0] == found[1]
    assert [one.accuracy for one in found[0]] == sorted((one.accuracy for one in found[0]), reverse=True)
    assert {one.settings["l2"] for one in found[0]} == {0.001}
    assert len({one.settings.get("penalty") for one in found[0]}) == 4
    with pytest.raises(InvalidInput, match="some setting must be left to search"):
        tune(club, split, "gcn", dict.fromkeys(searched("gcn"), 0.1), trials=1)
    few = np.where(np.arange(60) < 4, np.arange(60) % 2, -1)
    with pytest.raises(InvalidInput, match="some class must have three labelled nodes"):
        tune(replace(club, labels=few), stratified_split(few), "apgcn", {}, trials=1)


def test_what_a_search_found_is_trained_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    of_a_club(tmp_path)
    command = ["train", "--graph", "club.npz", "--out", "m", "--tune", "2", "--set", "max_epochs=20", "--json"]
    assert run(command) == 0
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert len(summary["tried"]) == 3
    best = summary["tried"][0]["settings"]
    assert {name: summary["settings"][name] for name in best} == best
    assert (
        vars(load_model(tmp_path / "m").fitted.model).items()
        >= {name: value for name, value in best.items() if name in ("penalty", "dropout", "max_steps")}.items()
    )
    assert "trial 2 of 2: " in told.err


def test_another_runtime_says_the_same(model, tmp_path, capsys):
    """Of all initialisations together, and of a graph of another size."""
    runtime = pytest.importorskip("onnxruntime")
    assert run(["export", str(model), "--onnx", str(tmp_path / "m.onnx")]) == 0
    assert "1,433 features in, 7 classes" in capsys.readouterr().out
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    saved = load_model(model)
    names = session.get_modelmeta().custom_metadata_map
    assert json.loads(names["classes"]) == list(saved.fitted.class_names)
    assert json.loads(names["features"])[:2] == ["w0", "w1"]
    for graph in (saved.graph, subgraph(saved.graph, np.arange(300))):
        links = graph.adjacency.tocoo()
        ends = np.stack([links.row, links.col]).astype(np.int64)
        given = {"x": graph.features.toarray(), "edge_index": ends, "edge_weight": links.data}
        probabilities, steps = session.run(None, given)
        said = saved.fitted.predict(graph)
        np.testing.assert_allclose(probabilities, said.probabilities, atol=2e-5)
        np.testing.assert_array_equal(steps, said.steps)


def test_only_ap_gcn_is_exported_frozen_or_not(tmp_path):
    club = of_a_club(tmp_path)
    frozen = APGCNConfig(penalty=0.05, freeze_halted=True)
    fitted = fit(club, stratified_split(club.labels), frozen, TrainingConfig(max_epochs=150))
    said, links = fitted.predict(club), club.adjacency.tocoo()
    given = (torch.as_tensor(club.features.copy()), torch.as_tensor(np.stack([links.row, links.col])).long())
    probabilities, steps = Answering(fitted)(*given, torch.as_tensor(links.data.copy()))
    np.testing.assert_allclose(probabilities.detach(), said.probabilities, atol=1e-5)
    assert steps.tolist() == said.steps.tolist()
    fitted = fit(club, stratified_split(club.labels), config_class("gcn")(), TrainingConfig(max_epochs=2))
    with pytest.raises(InvalidInput, match="must be AP-GCN to be exported, but it is GCN"):
        write_onnx(tmp_path / "m.onnx", fitted)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("checksums",), 0.5, "is no model that apgcn"),
        (("checksums",), {"../../etc/passwd": "x"}, "is no model that apgcn"),
        (("temperature",), -1, "temperature must be a number above 0"),
        (("classes",), ["a"], "the classes of the model must be those of its graph"),
        (("split", "test"), [10**6], "the split's test nodes must be nodes of the graph"),
        (("settings", "hidden_channels"), 3, "is no model that apgcn"),
        (("settings", "strange"), 3, "settings strange are not known"),
        (("reading", "label"), 7, "label must be the name of a column"),
        (("encoding", "columns", 0, "scale"), 0, "a scale that is not 0"),
        (("encoding", "columns", 0, "kind"), "odd", "a column must have a name, a kind"),
    ],
)
def test_a_folder_made_to_deceive_is_refused_in_words(model, tmp_path, place, value, sentence):
    """Its checksums are right."""
    shutil.copytree(model, tmp_path / "m")
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    del content["checksum"]
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    content["checksum"] = saved_models._checksum_of(content)
    (tmp_path / "m" / "model.json").write_text(json.dumps(content))
    with pytest.raises(BrokenFile, match=sentence):
        load_model(tmp_path / "m")


def test_every_way_to_predict(model, tables, tmp_path, capsys):
    """Of the model's graph, of the same graph in tables, of it with more edges; as CSV and as Parquet."""
    files = ["--edges", str(tables / "edges.csv"), "--nodes", str(tables / "nodes.csv")]
    (tmp_path / "more.csv").write_text("source,target\n31336,1061127\n")
    ways = {
        "own.csv": [],
        "same.csv": files,
        "all.csv": ["--probabilities"],
        "more.csv": ["--edges", str(tmp_path / "more.csv"), "--add"],
        "own.parquet": [],
    }
    (tmp_path / "out").mkdir()
    for name, options in ways.items():
        assert run(["predict", str(model), *options, "--out", str(tmp_path / "out" / name)]) == 0, name
    tables_of = {name: read_table(tmp_path / "out" / name) for name in ways}
    columns = tables_of["own.csv"].columns
    assert columns == ("id", "prediction", "probability", "steps", "label")
    assert (tmp_path / "out" / "own.csv").read_text() == (tmp_path / "out" / "same.csv").read_text()
    assert tables_of["own.parquet"].texts(0) == tables_of["own.csv"].texts(0)
    known = [text for text in tables_of["own.csv"].texts(4) if text]
    assert len(known) == (load_model(model).graph.labels >= 0).sum()
    chances = tables_of["all.csv"]
    sums = sum(chances.all_numbers(5 + number) for number in range(7))
    np.testing.assert_allclose(sums, 1, atol=1e-4)
    assert tables_of["more.csv"].texts(2) != tables_of["own.csv"].texts(2)
    assert "have no edge" not in capsys.readouterr().err


def test_a_save_that_fails_leaves_nothing(model, tmp_path, monkeypatch):
    saved = load_model(model)
    monkeypatch.setattr(saved_models, "write_npz", lambda path, graph: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_model(tmp_path / "inner" / "m", saved)
    assert not list(tmp_path.iterdir())


def test_few_nodes_that_are_all_right_do_not_make_it_certain():
    logits = np.log(np.array([[[0.9, 0.1]] * 4]))
    temperature = temperature_for(logits, np.zeros(4, int))
    assert 0.5 < temperature < 1
    assert temperature_for(np.repeat(logits, 500, axis=1), np.zeros(2000, int)) < 0.3


def test_a_trial_that_diverged_does_not_win(tmp_path):
    club = of_a_club(tmp_path)
    tried = tune(club, stratified_split(club.labels), "apgcn", {"learning_rate": 1e30, "max_epochs": 5}, trials=1)
    assert [one.accuracy for one in tried] == [0, 0]


def test_what_is_not_finite_is_no_prediction(tmp_path):
    club = of_a_club(tmp_path)
    fitted = fit(club, stratified_split(club.labels), APGCNConfig(), TrainingConfig(max_epochs=3))
    with pytest.raises(InvalidInput, match="is not finite; are the features of the size"):
        fitted.predict(replace(club, features=np.full((60, 2), 3e38)))


def test_classes_that_are_too_small_are_named():
    labels = np.array([0] * 10 + [1] * 2 + [2] * 5)
    graph = Graph(np.eye(17), np.eye(17), labels, class_names=("large", "small", "medium"))
    split = stratified_split(labels, test=0.2)
    assert without(graph, split, asked=("stopping", "test")) == ["too few labelled nodes, so none judges: 'small'."]
    with pytest.raises(InvalidInput, match="labels must hold two classes or more"):
        stratified_split(np.zeros(5, int))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        APGCNConfig(penalty=0.05),
        APGCNConfig(penalty=0.05, freeze_halted=True),
        APAPPNPConfig(penalty=0.05, teleport=0.3),
        APAPPNPConfig(penalty=0.05, freeze_halted=True),
    ],
)
def test_only_what_is_needed_says_what_all_of_it_says(settings, dense, tmp_path):
    """Of all nodes and of some, for the mean of two initialisations."""
    club = of_a_club(tmp_path)
    if not dense:
        club = replace(club, features=sparse.csr_matrix(club.features))
    fitted = fit(club, stratified_split(club.labels), settings, TrainingConfig(max_epochs=150), initialisations=2)
    whole = fitted._whole(club, "cpu")
    assert len(np.unique(whole.steps)) > 2
    some = np.array([5, 0, 59])
    for said, expected in ((fitted.predict(club), whole), (fitted.predict(club, some), whole.at(some))):
        np.testing.assert_allclose(said.probabilities, expected.probabilities, atol=2e-5)
        np.testing.assert_array_equal(said.steps, expected.steps)
        np.testing.assert_allclose(said.remainder, expected.remainder, atol=2e-5)
        assert 0 < said.work.messages < said.fixed.messages
    compared = compare(fitted.asker(club), rounds=1)
    assert compared.work == fitted.predict(club).work
    assert 0 < compared.seconds
    assert re.search(r"; listening took [\d.]+ ms, all steps of all nodes [\d.]+ ms", str(compared))
    for nodes, sentence in (
        ([1, 1], "some are named twice"),
        ([-1], "numbers from 0 to 59, got -1"),
        ([0, 60], "numbers from 0 to 59, got 60"),
        (club.labels == 0, "must be a list of whole numbers, got bool"),
        ([[1]], "must be a list of whole numbers, got int64 of shape"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            fitted.predict(club, nodes)
    assert fitted.predict(club, []).probabilities.shape == (0, len(club.class_names))


def test_some_nodes_are_asked_for_by_name(model, tmp_path, capsys):
    assert run(["predict", str(model), "--nodes", "31336, 1061127", "--out", str(tmp_path / "p.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["nodes"] == 2
    assert told["work"]["messages"] < told["work_of_all_steps"]["messages"]
    assert told["propagation_seconds"] is None
    assert told["seconds"] > 0
    assert run(["predict", str(model), "--out", str(tmp_path / "all.csv")]) == 0
    assert re.search(r"computed .* ms, all steps of all nodes .* ms", capsys.readouterr().out)
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert (tmp_path / "p.csv").read_text().splitlines() == rows[:3]


def test_what_cannot_be_asked_is_said(tmp_path):
    club = of_a_club(tmp_path)
    for settings in (APARMAConfig(), GCNConfig(), APGCNConfig(max_steps=256)):
        fitted = fit(club, stratified_split(club.labels), settings, TrainingConfig(max_epochs=2))
        with pytest.raises(InvalidInput, match=f"not of {settings.title} as it is here; use predict"):
            fitted.asker(club)
        assert fitted.predict(club, [3]).probabilities.shape == (1, len(club.class_names))


def test_an_id_with_a_comma_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    club = of_a_club(tmp_path)
    names = [f"node {number}, the other" for number in range(club.num_nodes)]
    write_npz(tmp_path / "named.npz", replace(club, node_names=names))
    assert run(["train", "--graph", "named.npz", "--out", "m", *QUICK]) == 0
    assert run(["predict", "m", "--nodes", '"node 3, the other", "node 1, the other"', "--out", "p.csv"]) == 0
    assert [line.split('"')[1] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]] == [names[3], names[1]]


def test_runs_of_a_benchmark_are_no_model_to_ask(tmp_path, capsys):
    assert run(["train", "cora", "--out", str(tmp_path / "m"), "--set", "max_epochs=1"]) == 0
    assert run(["predict", str(tmp_path / "m"), "--out", str(tmp_path / "p.csv")]) == 2
    assert "but it has runs of a benchmark" in capsys.readouterr().err


def test_a_model_that_freezes_is_saved_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_a_club(tmp_path)
    assert run(["train", "--graph", "club.npz", "--out", "m", "--set", "freeze_halted=true", *QUICK]) == 0
    assert load_model(tmp_path / "m").fitted.model.freeze_halted is True
