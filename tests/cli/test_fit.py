"""`apgcn fit`, `predict`, `explain` and `export` on a user's graph, from tables to predictions."""

import csv
import json
import re
import resource
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn import load
from apgcn.cli import render, run
from apgcn.data.npz import write_npz
from apgcn.data.transforms import subgraph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.prediction_graph import graph_to_predict
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.csv import write_csv
from apgcn.io.graphml import write_graphml
from apgcn.io.registry import read_table
from apgcn.training.config import TrainingConfig

QUICK = ["--set", "max_epochs=200"]
FIT = ["fit", "--edges", "EDGES", "--nodes", "NODES", "--label", "topic"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The embedded Cora as a user would have it: string ids, a label column that is mostly empty."""
    folder, cora = tmp_path_factory.mktemp("cora"), load("cora")
    coo = cora.adjacency.tocoo()
    names = cora.node_names
    links = [(names[first], names[second]) for first, second in zip(coo.row, coo.col, strict=True)]
    write_csv(folder / "edges.csv", ["source", "target"], links)
    known = np.random.default_rng(0).random(cora.num_nodes) < 0.2
    counts = cora.features.toarray().astype(int)
    rows = [
        [names[node], cora.class_names[cora.labels[node]] if known[node] else "", *counts[node]]
        for node in range(cora.num_nodes)
    ]
    write_csv(folder / "nodes.csv", ["id", "topic", *(f"w{number}" for number in range(counts.shape[1]))], rows)
    return folder


@pytest.fixture(scope="module")
def model(tables):
    options = ["--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "topic"]
    out = tables / "models" / "topics"
    assert run(["fit", *map(str, options), "--out", str(out), "--ensemble", "2", "--test-size", "0.2", *QUICK]) == 0
    return out


def test_three_commands_fit_predict_and_explain(model, tables, tmp_path, capsys):
    assert run(["predict", str(model), "--out", str(tmp_path / "predictions.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == 2708
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cora = load("cora")
    assert [row["id"] for row in rows] == list(cora.node_names)
    assert {row["prediction"] for row in rows} <= set(cora.class_names)
    assert all(1 / 7 <= float(row["probability"]) <= 1 and 1 <= float(row["steps"]) <= 10 for row in rows)
    accuracy = np.mean(
        [row["prediction"] == cora.class_names[label] for row, label in zip(rows, cora.labels, strict=True)]
    )
    assert accuracy > 0.6
    assert run(["explain", str(model), "--html", str(tmp_path / "steps.html")]) == 0
    assert (tmp_path / "steps.html").stat().st_size > 100_000


def test_new_nodes_get_the_predictions_of_the_complete_graph(model, tables, tmp_path):
    """Forty papers are new: added to a model of the others, or in tables of all papers."""
    nodes, edges = ((tables / name).read_text().splitlines() for name in ("nodes.csv", "edges.csv"))
    bundle = load_model(model)
    new = {line.split(",")[0] for line in nodes[1:41]}
    (tmp_path / "old_nodes.csv").write_text("\n".join([nodes[0], *nodes[41:]]))
    (tmp_path / "new_nodes.csv").write_text("\n".join(nodes[:41]))
    is_new = [bool(set(line.split(",")) & new) for line in edges[1:]]
    for name, wanted in (("old", False), ("new", True)):
        lines = [line for line, new_edge in zip(edges[1:], is_new, strict=True) if new_edge == wanted]
        (tmp_path / f"{name}_edges.csv").write_text("\n".join([edges[0], *lines]))
    old, _ = graph_to_predict(bundle, tmp_path / "old_edges.csv", tmp_path / "old_nodes.csv")
    split = stratified_split(old.labels)
    smaller = ModelBundle(
        fit(old, split, bundle.model.config, TrainingConfig(max_epochs=1)), old, bundle.encoding, bundle.schema
    )
    smaller.model.weights.update(bundle.model.weights)
    save_model(tmp_path / "smaller", smaller)
    options = ["--edges", tmp_path / "new_edges.csv", "--nodes", tmp_path / "new_nodes.csv", "--add"]
    grown, _ = graph_to_predict(load_model(tmp_path / "smaller"), options[1], options[3], add=True)
    extended, complete = bundle.model.predict(grown), bundle.model.predict(bundle.graph)
    order = [grown.node_names.index(name) for name in bundle.graph.node_names]
    np.testing.assert_allclose(extended.probabilities[order], complete.probabilities, atol=1e-5)
    np.testing.assert_array_equal(extended.steps[order], complete.steps)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["predict", "MODEL", "--out", "p.csv", "--edges", "EDGES"], "--edges and --nodes must be given together"),
        (["predict", "MODEL", "--out", "p.csv", "--node-ids", "31336,nobody"], "unknown node 'nobody'"),
        (["predict", "MODEL", "--out", "p.csv", "--nodes", "NODES"], "--nodes must be given together with --edges"),
        (["predict", "MODEL", "--out", "p.csv", "--node-ids", " , "], "--node-ids must name at least one node"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", "0.1,x"], "--penalties must be numbers separated by"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", " ,"], "--penalties must be numbers separated by"),
        (["explain", "MODEL", "--html", "p.html", "--penalties", "0.1,-1"], "penalty must be >= 0, got -1"),
        ([*FIT, "--out", "m", "--set", "freeze_halted=maybe"], "freeze_halted must be true or false, got 'maybe'"),
        (["predict", "MODEL", "--out", "p.csv", "--add"], "--add must come with --edges"),
        (["predict", "MODEL", "--out", "p.xlsx"], "--out must name a table, .csv or .parquet, got p.xlsx"),
        (["predict", "MODEL", "--out", "MODEL/model.json"], "--out must not name an input"),
        (["predict", "MODEL", "--edges", "EDGES", "--nodes", "NODES", "--out", "NODES"], "must not name an input"),
        (["explain", "MODEL", "--html", "MODEL/graph.npz"], "--html must not name an input"),
        (["export", "MODEL", "--onnx", "MODEL/weights.safetensors"], "--onnx must not name an input"),
        (["train", "cora", "--test-size", "0.2"], "for your own graph use: apgcn fit --test-size"),
        ([*FIT, "--out", "m", "--test-size", "0.9"], "--test-size must leave nodes to train: at most 0.7, got 0.9"),
        ([*FIT, "--out", "m", "--model", "auto", "--test-size", "0.7"], "to choose a model by: at most 0.6, got 0.7"),
        ([*FIT, "--out", "m", "--model", "auto", "--set", "hidden_channels=0"], "hidden_channels must be >= 1, got 0"),
        ([*FIT, "--out", "m", "--model", "auto", "--penalty", "-1"], "penalty must be >= 0, got -1"),
        ([*FIT, "--out", "m", "--model", "auto", "--tune", "2"], "--tune searches the hyperparameters of a model with"),
        ([*FIT, "--out", "m", "--model", "auto", "--set", "odd=1"], "unknown hyperparameter of auto 'odd'; known:"),
        ([*FIT, "--out", "m", "--model", "lp", "--penalty", "1"], "unknown hyperparameter of lp 'penalty'; known:"),
        ([*FIT, "--out", "m", "--model", "lp", "--correct-and-smooth"], "correct_and_smooth needs a model with"),
        (["predict", "nowhere", "--out", "p.csv"], "nowhere must be the folder of a model that `apgcn fit` wrote"),
        (["predict", "MODEL", "--out", "/no/such/place/p.csv"], "--out must name a file in a folder that exists"),
        (["predict", "MODEL", "--out", "."], "--out must name a file, but"),
        (["explain", "MODEL", "--html", "/no/such/place/p.html"], "must name a file in a folder that exists"),
        (["explain", "MODEL", "--html", "p.html", "--node", "nobody"], "unknown node 'nobody'"),
        (FIT, "--out must name the new folder"),
        (["fit", "--out", "m"], "a graph must be given: --edges and --nodes, or --graph; for a benchmark graph use:"),
        (["fit", "--edges", "EDGES", "--out", "m"], "--edges and --nodes must be given together"),
        (["fit", "--edges", "EDGES", "--nodes", "NODES", "--out", "m"], "--label must name the column"),
        (["train", "cora", "--edges", "EDGES", "--nodes", "NODES", "--label", "topic", "--out", "m"], "use: apgcn fit"),
        (["train", "cora", "--label", "topic"], "for your own graph use: apgcn fit --label"),
        ([*FIT, "--out", "MODEL"], "has files in it"),
        ([*FIT, "--out", "m", "--test-size", "2"], "--test-size must be in [0, 1), got 2.0"),
        ([*FIT, "--out", "m", "--graph", "g.graphml"], "--graph must be given without --edges and --nodes"),
        ([*FIT, "--out", "m", "--tune", "-1"], "tune must be >= 0, got -1"),
        (["fit", "--graph", "g.gml", "--label", "topic", "--out", "m"], "must be a graph (.graphml"),
        (["fit", "--graph", "g.npz", "--out", "m"], "there is no such file"),
        (["fit", "--graph", "g.npz", "--label", "topic", "--out", "m"], "contains arrays, not columns"),
        (["train", "cora", "--tune", "3"], "train has no option --tune; use the command `apgcn tune DATASET`"),
        (["predict", "MODEL", "--out", "p.csv", "--graph", "g.npz"], "pass tables, a .graphml or a networkx graph"),
        (["predict", "MODEL", "--out", "p.csv", "--add", "--graph", "g.graphml"], "--add must come with --edges"),
        (["export", "MODEL", "--onnx", "/no/such/place/m.onnx"], "--onnx must name a file in a folder that exists"),
    ],
)  # fmt: skip
def test_a_mistake_costs_one_sentence_and_leaves_nothing_behind(
    arguments, sentence, model, tables, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    names = {"MODEL": str(model), "EDGES": str(tables / "edges.csv"), "NODES": str(tables / "nodes.csv")}
    arguments = [names.get(word, word.replace("MODEL/", f"{model}/")) for word in arguments]
    assert run(arguments) == 2
    message = capsys.readouterr().err
    assert sentence in message.splitlines()[-1]
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "--edges", "e.csv", "--nodes", "n.csv"], "train is for benchmark graphs and has no option --edges;"),
        (["train", "--graph", "g.npz"], "for your own graph use: apgcn fit --graph ..."),
        (["train", "cora", "--settings", "paper"], "train has no option --settings; use --preset."),
        (["reproduce", "table2", "--store", "s", "--settings", "paper"], "use --preset."),
        (["fit", "--graph", "g.npz", "--test-share", "0.2"], "fit has no option --test-share; use --test-size."),
        (["fit", "--graph", "g.npz", "--words", "title"], "fit has no option --words; use --bag-of-words."),
        (["fit", "--graph", "g.npz", "--runs", "3"], "fit has no option --runs; use --ensemble."),
        (["fit", "--graph", "g.npz", "--settings", "paper"], "use --set NAME=VALUE for each hyperparameter"),
        (["train", "--words", "title"], "for your own graph use: apgcn fit --bag-of-words ..."),
        (["bench", "--packs", "1"], "bench has no option --packs; use --batch-sizes."),
        (["bench", "--rounds", "1"], "bench has no option --rounds; use --repeats."),
        (["predict", "m", "--out", "p.csv", "--nodes", "a,b,c"], "for some nodes use --node-ids a,b,c."),
    ],
)
def test_an_option_of_version_0_1_names_its_replacement(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("apgcn: ")
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
    assert not list(tmp_path.iterdir())


def test_predict_refuses_other_features(model, tables, tmp_path, capsys):
    lines = (tables / "nodes.csv").read_text().splitlines()
    (tmp_path / "nodes.csv").write_text("\n".join(line.rsplit(",", 2)[0] for line in lines))
    options = ["--edges", str(tables / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    assert run(["predict", str(model), "--out", str(tmp_path / "p.csv"), *options]) == 2
    assert "lacks 'w1431', 'w1432'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_an_unwritable_folder_is_reported_before_training(tables, tmp_path, capsys):
    (tmp_path / "file").write_text("here")
    options = ["--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "topic"]
    assert run(["fit", *map(str, options), "--out", str(tmp_path / "file" / "model")]) == 2
    assert "--out must be writable" in capsys.readouterr().err


@contextmanager
def full_disk(size):
    """No file can become larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("size", "name"), [(500, "graph.npz"), (20_000, "weights.safetensors")])
def test_a_full_disk_is_reported_with_the_file_and_before_training_where_possible(
    tmp_path, capfd, monkeypatch, size, name
):
    write_communities(tmp_path)
    if name == "graph.npz":
        monkeypatch.setattr("apgcn.inference.selection.fit_and_compare", lambda *_, **__: pytest.fail("it was trained"))
    options = ["--set", "hidden_channels=4096", "--set", "max_epochs=1", "--no-baselines"]
    with full_disk(size):
        assert run(["fit", "--graph", str(tmp_path / "communities.npz"), "--out", str(tmp_path / "m"), *options]) == 2
    printed = capfd.readouterr()
    *_, message = printed.err.splitlines()
    assert message.startswith("apgcn: [Errno 27]")
    assert f"'{tmp_path / 'm' / name}'; check the path, its permissions and the space left." in message
    assert printed.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["communities.graphml", "communities.npz"]


@pytest.mark.parametrize("options", [["--correct-and-smooth"], ["--model", "lp"], ["--model", "auto"]])
def test_the_model_is_saved_before_anything_that_it_does_not_need(tmp_path, monkeypatch, capsys, options):
    """All predictions or the printed table may need memory that is not there."""

    def no_memory(*_, **__):
        raise MemoryError

    def predict(self, graph, nodes=None, *, predict=TrainedModel.predict, **options):
        return no_memory() if nodes is None else predict(self, graph, nodes, **options)

    write_communities(tmp_path)
    monkeypatch.setattr(TrainedModel, "predict", predict)
    monkeypatch.setattr(render, "leaderboard", no_memory)
    graph, out = str(tmp_path / "communities.npz"), tmp_path / "m"
    quick = [] if "lp" in options else ["--set", "max_epochs=2"]
    assert run(["fit", "--graph", graph, "--out", str(out), *options, *quick]) == 2
    assert "not enough memory" in capsys.readouterr().err
    monkeypatch.undo()
    assert load_model(out).model.metrics["test"]["nodes"] == 6


def write_communities(folder):
    """Write a small graph as communities.graphml and communities.npz."""
    graph = two_communities()
    write_graphml(folder / "communities.graphml", graph)
    write_npz(folder / "communities.npz", graph)
    return graph


@pytest.mark.parametrize("name", ["communities.graphml", "communities.npz"])
def test_a_graph_in_one_file(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_communities(tmp_path)
    label = ["--label", "label"] if name.endswith("ml") else []
    assert run(["fit", "--graph", name, *label, "--out", "m", *QUICK]) == 0
    assert run(["predict", "m", "--out", "own.csv"]) == 0
    assert run(["predict", "m", "--graph", name, "--out", "again.csv"]) == 0
    assert (tmp_path / "own.csv").read_text() == (tmp_path / "again.csv").read_text()
    assert (tmp_path / "own.csv").read_text().splitlines()[60].startswith("59,")
    other = {"communities.npz": "communities.graphml", "communities.graphml": "communities.npz"}[name]
    assert run(["predict", "m", "--graph", other, "--out", "other.csv"]) == 2
    assert "the model was trained on" in capsys.readouterr().err


def test_best_trial_of_a_search_is_trained_and_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_communities(tmp_path)
    command = ["fit", "--graph", "communities.npz", "--out", "m", "--tune", "2", "--set", "max_epochs=20", "--json"]
    assert run(command) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert len(summary["trials"]) == 3
    best = summary["trials"][0]["hyperparameters"]
    assert {name: summary["hyperparameters"][name] for name in best} == best
    assert (
        vars(load_model(tmp_path / "m").model.config).items()
        >= {name: value for name, value in best.items() if name in ("penalty", "dropout", "max_steps")}.items()
    )
    assert "trial 2 of 2: " in printed.err


def test_exported_model_predicts_the_same_in_another_runtime(model, tmp_path, capsys):
    """The mean over the ensemble, and for a graph of another size."""
    runtime = pytest.importorskip("onnxruntime")
    assert run(["export", str(model), "--onnx", str(tmp_path / "m.onnx")]) == 0
    assert "1,433 features in, 7 classes" in capsys.readouterr().out
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    bundle = load_model(model)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == list(bundle.model.class_names)
    assert json.loads(metadata["features"])[:2] == ["w0", "w1"]
    for graph in (bundle.graph, subgraph(bundle.graph, np.arange(300))):
        edges = graph.adjacency.tocoo()
        edge_index = np.stack([edges.row, edges.col]).astype(np.int64)
        inputs = {"x": graph.features.toarray(), "edge_index": edge_index, "edge_weight": edges.data}
        probabilities, steps = session.run(None, inputs)
        predictions = bundle.model.predict(graph)
        np.testing.assert_allclose(probabilities, predictions.probabilities, atol=2e-5)
        np.testing.assert_array_equal(steps, predictions.steps)


def test_every_way_to_predict(model, tables, tmp_path, capsys):
    """For the model's graph, the same graph in tables, and with more edges; as CSV and as Parquet."""
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
    written = {name: read_table(tmp_path / "out" / name) for name in ways}
    columns = written["own.csv"].columns
    assert columns == ("id", "prediction", "probability", "steps", "label")
    assert (tmp_path / "out" / "own.csv").read_text() == (tmp_path / "out" / "same.csv").read_text()
    assert written["own.parquet"].as_text(0) == written["own.csv"].as_text(0)
    labels = [text for text in written["own.csv"].as_text(4) if text]
    assert len(labels) == (load_model(model).graph.labels >= 0).sum()
    probabilities = written["all.csv"]
    totals = sum(probabilities.require_numbers(5 + number) for number in range(7))
    np.testing.assert_allclose(totals, 1, atol=1e-4)
    assert written["more.csv"].as_text(2) != written["own.csv"].as_text(2)
    assert "have no edge" not in capsys.readouterr().err


def test_prediction_for_some_node_ids(model, tmp_path, capsys):
    assert run(["predict", str(model), "--node-ids", "31336, 1061127", "--out", str(tmp_path / "p.csv"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["nodes"] == 2
    assert summary["cost"]["messages"] < summary["full_cost"]["messages"]
    assert summary["seconds"] > 0
    assert run(["predict", str(model), "--out", str(tmp_path / "all.csv")]) == 0
    assert re.search(r"computed .*; the prediction took [\d.]+ ms", capsys.readouterr().out)
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert (tmp_path / "p.csv").read_text().splitlines() == rows[:3]


def test_node_id_with_a_comma_is_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = write_communities(tmp_path)
    names = [f"node {number}, the other" for number in range(graph.num_nodes)]
    write_npz(tmp_path / "named.npz", replace(graph, node_names=names))
    assert run(["fit", "--graph", "named.npz", "--out", "m", *QUICK]) == 0
    assert run(["predict", "m", "--node-ids", '"node 3, the other", "node 1, the other"', "--out", "p.csv"]) == 0
    assert [line.split('"')[1] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]] == [names[3], names[1]]


def test_benchmark_runs_are_no_model_bundle(tmp_path, capsys):
    assert run(["train", "cora", "--out", str(tmp_path / "m"), "--set", "max_epochs=1"]) == 0
    assert run(["predict", str(tmp_path / "m"), "--out", str(tmp_path / "p.csv")]) == 2
    assert "but it has results of benchmark runs" in capsys.readouterr().err


@pytest.fixture
def karate_club(tmp_path, monkeypatch):
    """Zachary's karate club without its weights, as GraphML and as tables; the club of two nodes of each is known."""
    monkeypatch.chdir(tmp_path)
    club = networkx.karate_club_graph()
    rows = [(node, name if node in (0, 1, 32, 33) else "") for node, name in club.nodes(data="club")]
    write_csv(tmp_path / "nodes.csv", ["id", "club"], rows)
    write_csv(tmp_path / "edges.csv", ["source", "target"], list(club.edges))
    bare = networkx.Graph()
    bare.add_nodes_from((node, {"club": name} if name else {}) for node, name in rows)
    bare.add_edges_from(club.edges)
    networkx.write_graphml(bare, tmp_path / "club.graphml")
    return club


def test_a_graph_without_features_is_trained_on_features_of_its_edges(karate_club, capsys):
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv"]
    assert run(["fit", *tables, "--label", "club", "--out", "model", "--no-baselines"]) == 0
    printed = capsys.readouterr()
    assert "28 features computed from the edges: degree, random_walk, spectral; there are no others." in printed.err
    assert "34 nodes, 78 edges, 28 features (degree, random_walk, spectral of the edges), 2 classes" in printed.out
    assert run(["predict", "model", "--out", "predictions.csv"]) == 0
    with open("predictions.csv", newline="") as file:
        predicted = {row["id"]: row["prediction"] for row in csv.DictReader(file)}
    correct = sum(predicted[str(node)] == name for node, name in karate_club.nodes(data="club"))
    assert correct >= 30, "of 34, from two labelled nodes of each class"
    for options in ([*tables], ["--edges", "edges.csv", "--add"]):
        assert run(["predict", "model", *options, "--out", "other.csv"]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "to predict on it, fit with --structure degree,random_walk." in error
    assert not Path("other.csv").exists()


def test_structural_features_without_eigenvectors_are_computed_for_another_graph(karate_club, capsys):
    options = ["--graph", "club.graphml", "--label", "club", "--structure", "degree,random_walk", *QUICK]
    assert run(["fit", *options, "--out", "model", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["features"], summary["structure"]) == (12, ["degree", "random_walk"])
    assert summary["advice"][1] == "Some features were computed from the edges: features alone have them, too."
    assert run(["predict", "model", "--out", "first.csv"]) == 0
    assert run(["predict", "model", "--graph", "club.graphml", "--out", "second.csv"]) == 0
    assert Path("first.csv").read_bytes() == Path("second.csv").read_bytes()
    write_csv(Path("new_nodes.csv"), ["id"], [["new"]])
    write_csv(Path("new_edges.csv"), ["source", "target"], [["new", "0"], ["new", "1"]])
    added = ["--nodes", "new_nodes.csv", "--edges", "new_edges.csv", "--add"]
    assert run(["predict", "model", *added, "--out", "third.csv"]) == 0
    assert Path("third.csv").read_text().count("\n") == 1 + 35


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--structure", "none"], "must have at least one feature column, but has 'id', 'club'"),
        (["--structure", "degrees"], "unknown kind of structural features 'degrees'; did you mean 'degree'?"),
        (["--structure", "degree", "--distributed"], "--distributed computes no features from the edges"),
    ],
)
def test_a_structure_that_cannot_be_computed_is_refused(karate_club, options, sentence, capsys):
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "club"]
    assert run(["fit", *tables, "--out", "model", *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not Path("model").exists()


def test_freeze_halted_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_communities(tmp_path)
    assert run(["fit", "--graph", "communities.npz", "--out", "m", "--set", "freeze_halted=true", *QUICK]) == 0
    assert load_model(tmp_path / "m").model.config.freeze_halted is True


def test_a_model_with_min_steps_0_is_saved_and_predicts_what_it_predicted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    graph = write_communities(tmp_path)
    halts_often = ["--set", "learning_rate=0.1", "--set", "halting_interval=1", "--penalty", "1"]
    options = ["--set", "min_steps=0", *halts_often, *QUICK]
    assert run(["fit", "--graph", "communities.npz", "--out", "m", *options]) == 0
    assert "K =  0 |" in capsys.readouterr().out
    model = load_model(tmp_path / "m").model
    assert model.config.min_steps == 0
    assert "propagation.initial_halting_unit.weight" in model.weights
    predictions = model.predict(graph)
    assert predictions.steps.min() == 0, "the test needs nodes that halt before any step"
    assert run(["predict", "m", "--out", "p.csv"]) == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        steps = [float(row["steps"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(steps, predictions.steps, atol=1e-5)
    some = model.predict(graph, np.array([5, 2]))
    np.testing.assert_array_equal(some.probabilities, predictions.probabilities[[5, 2]])
    with pytest.raises(InvalidInput, match="min_steps=1"):
        model.lazy_predictor(graph)


@pytest.mark.parametrize(
    ("command", "name"), [(["explain", "MODEL", "--html"], "n.csv"), (["export", "MODEL", "--onnx"], "victim.csv")]
)
def test_no_file_of_another_kind_is_replaced(command, name, model, tmp_path, capsys):
    victim = tmp_path / name
    victim.write_text("precious")
    assert run([*(str(model) if word == "MODEL" else word for word in command), str(victim)]) == 2
    assert "must name a file that ends in" in capsys.readouterr().err
    assert victim.read_text() == "precious"


def test_the_printed_leaderboard_has_rows_interval_homophily_and_advice(tables, tmp_path, capsys):
    """As the everyday user sees it: each model beside its interval, the homophily of random edges, and what to do."""
    files = ["--edges", str(tables / "edges.csv"), "--nodes", str(tables / "nodes.csv"), "--label", "topic"]
    assert run(["fit", *files, "--out", str(tmp_path / "m"), *QUICK]) == 0
    printed = capsys.readouterr().out
    for part in ("features alone (MLP)", "label propagation (LP)", "majority class (", "95 % interval", "mean K"):
        assert part in printed
    assert re.search(r"^> +AP-GCN +\d+\.\d % +\d+\.\d to \d+\.\d", printed, re.MULTILINE)
    assert re.search(
        r"edge homophily: 0\.\d\d of the edges join nodes of the same class; of random edges 0\.\d\d", printed
    )
    assert "over features alone" in printed
