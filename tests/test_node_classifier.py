"""`apgcn.fit` on DataFrames, files and graphs of other libraries, against the command on the same tables."""

from dataclasses import replace

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from helpers.graphs import random_graph

import apgcn
from apgcn.cli import run
from apgcn.data.homophily import edge_homophily
from apgcn.errors import BrokenFile, FitWarning, InvalidInput, UnknownName
from apgcn.inference.predictions import Predictions
from apgcn.inference.selection import describe_training
from apgcn.io.pandas import from_pandas
from apgcn.io.pyg import to_pyg
from apgcn.io.schema import TableSchema
from apgcn.io.sources import load_source

SMALL = {"hidden_channels": 8, "max_epochs": 60, "patience": 60}


def two_teams(size=40, *, seed=0):
    """DataFrames of a graph of two teams whose members mostly know each other; every second team is known."""
    random = np.random.default_rng(seed)
    team = np.repeat(["red", "blue"], size)
    pairs = [
        (a, size * (a // size) + b if random.random() < 0.9 else int(random.integers(2 * size)))
        for a in range(2 * size)
        for b in random.integers(size, size=4)
    ]
    nodes = pd.DataFrame(
        {
            "id": [f"n{number}" for number in range(2 * size)],
            "height": random.normal(size=2 * size) + (team == "red"),
            "captain": random.random(2 * size) < 0.1,
            "team": np.where(np.arange(2 * size) % 2, team, None),
        }
    )
    edges = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in pairs if a != b], columns=["source", "target"])
    return edges, nodes, team


@pytest.fixture(scope="module")
def tables():
    return two_teams()


@pytest.fixture(scope="module")
def model(tables):
    edges, nodes, _ = tables
    return apgcn.fit(edges, nodes, label="team", hyperparameters=SMALL)


def test_predictions_are_a_frame_with_a_row_per_node(model, tables):
    predictions = model.predict()
    assert predictions.columns.tolist() == ["id", "prediction", "probability", "steps", "label"]
    assert predictions["id"].tolist() == tables[1]["id"].tolist()
    assert (predictions["prediction"] == tables[2]).mean() > 0.85
    assert predictions["label"].fillna("").tolist() == tables[1]["team"].fillna("").tolist()


def test_leaderboard_has_the_model_beside_its_baselines(model):
    leaderboard = model.leaderboard
    assert set(leaderboard["model"]) == {"apgcn", "mlp", "lp", "majority class"}
    assert leaderboard["accuracy"].is_monotonic_decreasing
    assert leaderboard[leaderboard["chosen"]]["model"].tolist() == ["apgcn"]
    assert ((leaderboard["low"] <= leaderboard["accuracy"]) & (leaderboard["accuracy"] <= leaderboard["high"])).all()
    assert 0.7 < model.homophily < 1
    assert any("features alone" in sentence for sentence in model.advice)


def test_the_command_on_the_same_tables_gives_the_same_predictions(model, tables, tmp_path, monkeypatch):
    """And its folder is loaded as a classifier."""
    monkeypatch.chdir(tmp_path)
    edges, nodes, _ = tables
    edges.to_csv("edges.csv", index=False)
    nodes.to_csv("nodes.csv", index=False)
    options = [f"--set={name}={value}" for name, value in SMALL.items()]
    arguments = ["fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "team", "--out", "m", *options]
    assert run(arguments) == 0
    of_command = apgcn.load_model("m")
    pd.testing.assert_frame_equal(of_command.predict(), model.predict())
    columns = ["model", "accuracy", "low", "high"]
    pd.testing.assert_frame_equal(of_command.leaderboard[columns], model.leaderboard[columns])
    from_files = apgcn.fit("edges.csv", "nodes.csv", label="team", hyperparameters=SMALL, baselines=False)
    pd.testing.assert_frame_equal(from_files.predict(), model.predict())


def test_a_saved_model_predicts_the_same(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = apgcn.load_model(tmp_path / "m")
    pd.testing.assert_frame_equal(loaded.predict(probabilities=True), model.predict(probabilities=True))
    pd.testing.assert_frame_equal(loaded.leaderboard, model.leaderboard)
    assert (loaded.advice, loaded.notes, repr(loaded)) == (model.advice, model.notes, repr(model))


def test_the_index_of_the_nodes_holds_the_ids_where_no_column_does(model, tables):
    edges, nodes, _ = tables
    by_index = apgcn.fit(edges, nodes.set_index("id"), label="team", hyperparameters=SMALL, baselines=False)
    pd.testing.assert_frame_equal(by_index.predict(), model.predict())


def test_the_order_of_the_rows_changes_no_prediction(model, tables):
    """Neither where the ids are in a column with an unusual name, whose rows a shuffled index numbers."""
    edges, nodes, _ = tables
    shuffled = nodes.rename(columns={"id": "member"}).sample(frac=1, random_state=1)
    loaded = from_pandas(edges, shuffled, TableSchema(label="team"))
    assert loaded.schema.id == "member"
    assert any("ignored the index column" in note for note in loaded.notes)
    assert edge_homophily(loaded.graph) == model.homophily
    again = model.predict(edges, nodes.sample(frac=1, random_state=1)).set_index("id")
    pd.testing.assert_frame_equal(again.loc[nodes["id"]], model.predict().set_index("id"), atol=1e-5)


def test_columns_of_categories_are_features_of_their_values(tables):
    edges, nodes, _ = tables
    codes = np.arange(len(nodes)) % 3
    by_type = nodes.assign(role=pd.Categorical(codes), rank=pd.Categorical(["a", "b"] * (len(nodes) // 2)))
    features = from_pandas(edges, by_type, TableSchema(label="team")).encoding.feature_names
    assert sum(name.startswith("role") for name in features) == 3
    assert sum(name.startswith("rank") for name in features) == 2


def test_ids_have_the_type_of_the_frame(tables):
    """So that predictions can be merged with it."""
    edges, nodes, _ = tables
    numbers = nodes.assign(id=range(len(nodes)))
    as_numbers = edges.map(lambda text: int(text[1:]))
    model = apgcn.fit(as_numbers, numbers, label="team", hyperparameters=SMALL, baselines=False)
    merged = model.predict().merge(numbers, on="id")
    assert len(merged) == len(nodes)
    assert model.predict(ids=[3, 70])["id"].tolist() == [3, 70]


def test_minus_one_marks_an_unknown_class_among_three_integers():
    """But -1 and 1 are two classes."""
    edges, nodes, _ = two_teams()
    codes = nodes["team"].map({"red": 1, "blue": 2}).fillna(-1).astype(int)
    for marked, names in ((codes, ("1", "2")), (codes.astype(float), ("1.0", "2.0"))):
        loaded = from_pandas(edges, nodes.assign(team=marked), TableSchema(label="team"))
        assert loaded.graph.class_names == names
        assert any("labels read as unknown: '-1" in note and "(40)" in note for note in loaded.notes)
    opinions = codes - 1  # 1, 0 and -2
    loaded = from_pandas(edges, nodes.assign(team=opinions), TableSchema(label="team"))
    assert loaded.graph.class_names == ("-2", "0", "1")
    with pytest.raises(InvalidInput, match="column 'team' must show what -1 means beside 0 and 1"):
        from_pandas(edges, nodes.assign(team=codes.replace(2, 0)), TableSchema(label="team"))
    signs = nodes["team"].map({"red": -1, "blue": 1})
    loaded = from_pandas(edges, nodes.assign(team=signs), TableSchema(label="team"))
    assert loaded.graph.class_names == ("-1", "1")  # not -1.0 and 1.0, as pandas stores integers with missing ones


def masked_data(**sets):
    """A `Data` of 60 nodes whose masks hold nodes from a first to a last one; by default thirds."""
    data = to_pyg(random_graph(60, edges=150, features=6))
    for name, (first, last) in {"train": (0, 20), "val": (20, 40), "test": (40, 60), **sets}.items():
        data[f"{name}_mask"] = (torch.arange(60) >= first) & (torch.arange(60) < last)
    return data


def test_nodes_without_a_label_are_left_out_of_masks_and_counted():
    """They would count as wrong predictions."""
    data = masked_data()
    unlabelled = data.clone()
    unlabelled.y = torch.where(torch.arange(60) >= 55, -1, data.y)
    model = apgcn.fit(unlabelled, model="lp")
    assert model.model.split.test.tolist() == [*range(40, 55)]
    assert "test_mask: 5 nodes without a label left out." in model.notes
    assert model.model.metrics["test"]["nodes"] == 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"test_mask": torch.ones(50, dtype=torch.bool)},
            r"test_mask must be booleans of shape \(60,\), one",
        ),
        ({"val_mask": torch.ones(60)}, "val_mask must be booleans"),
        ({"train_mask": [True] * 60}, "train_mask must be booleans of shape .*, got list"),
        ({"train_mask": torch.ones(60, 10, dtype=torch.bool)}, "of several splits select one first"),
        ({"test_mask": torch.arange(60) >= 39}, "val_mask and test_mask must share no node, but share 1"),
        ({"val_mask": torch.zeros(60, dtype=torch.bool)}, "val_mask must have 1 node with a label or more, got 0"),
        ({"x": [[1.0]] * 60}, "x of a Data must be a tensor, got list"),
        ({"edge_index": np.zeros((2, 3), int)}, "edge_index of a Data must be a tensor, got ndarray"),
    ],
)
def test_a_data_with_a_wrong_mask_or_array_is_refused(change, message):
    data = masked_data()
    for name, value in change.items():
        data[name] = value
    with pytest.raises(InvalidInput, match=message):
        apgcn.fit(data, model="lp")


def test_with_auto_half_of_the_validation_mask_chooses():
    with pytest.raises(InvalidInput, match="val_mask must have 2 nodes with a label or more, got 1"):
        apgcn.fit(masked_data(val=(20, 21)), model="auto")
    model = apgcn.fit(masked_data(), model="auto", hyperparameters=SMALL | {"max_epochs": 3, "patience": 3})
    assert (len(model.model.split.stopping), len(model.model.split.validation)) == (10, 10)


def test_a_model_of_arrays_predicts_no_columns(tables):
    """Their encoding would be fitted on the table that is predicted."""
    edges, nodes, _ = tables
    model = apgcn.fit(masked_data(), model="lp")
    for arguments in ({"edges": edges, "nodes": nodes}, {"edges": networkx.path_graph(3)}):
        with pytest.raises(InvalidInput, match="the model was trained on arrays, which have no columns"):
            model.predict(**arguments)
    with pytest.raises(InvalidInput, match=r"add=True needs tables"):
        model.predict(masked_data(), add=True)


def test_ids_that_are_no_usual_integers_stay_text():
    """007 is not 7, and 10^20 is no 64-bit integer."""
    edges, nodes, _ = two_teams()
    number = {name: 100 + row for row, name in enumerate(nodes["id"])}
    numbered = nodes.assign(id=nodes["id"].map(number))
    model = apgcn.fit(edges.map(number.get), numbered, label="team", model="lp", baselines=False)
    assert model.predict()["id"].dtype.kind == "i"
    for new_id in ("007", "100000000000000000000"):
        new = numbered[:1].assign(id=new_id, team=None)
        link = pd.DataFrame({"source": [new_id], "target": [100]})
        assert model.predict(link, new, add=True, new_only=True)["id"].tolist() == [new_id]
    frame = numbered.rename(columns={"id": 0}).assign(height=1.0)
    frame[0] = [f"{row:03}" for row in range(len(frame))]  # zero-padded, in a column whose name is a number
    padded = edges.map(lambda name: f"{number[name] - 100:03}")
    assert apgcn.fit(padded, frame, label="team", model="lp", baselines=False).predict()["id"][1] == "001"


def test_ids_that_pandas_stores_as_floats_are_integers():
    edges, nodes, _ = two_teams()
    number = {name: 5000 + row for row, name in enumerate(nodes["id"])}
    floats = nodes.assign(id=nodes["id"].map(number).astype(float))
    model = apgcn.fit(edges.map(number.get), floats, label="team", model="lp", baselines=False)
    assert "nodes, column 'id': ids are read without .0, such as '5000.0'." in model.notes
    assert model.predict(ids=[5001])["id"].tolist() == model.predict(ids=[5001.0])["id"].tolist() == ["5001"]


def test_row_numbers_are_the_ids_where_edges_name_nodes_by_them():
    edges, nodes, _ = two_teams()
    number = {name: row for row, name in enumerate(nodes["id"])}
    rows = edges.map(number.get)
    frame = nodes.drop(columns="id")
    loaded = load_source(rows, frame, TableSchema(label="team"), structure="none")
    expected = from_pandas(edges, nodes, TableSchema(label="team"))
    assert (loaded.graph.adjacency != expected.graph.adjacency).nnz == 0
    assert loaded.schema.id == "id"
    shifted = frame.set_axis(pd.RangeIndex(100, 100 + len(frame)))  # an index that does not count from 0 holds ids
    loaded = load_source(rows + 100, shifted, TableSchema(label="team"), structure="none")
    assert (loaded.graph.adjacency != expected.graph.adjacency).nnz == 0
    frame.insert(0, "age", np.random.default_rng(0).permutation(len(frame)))
    with pytest.raises(InvalidInput, match="both the index and 'age' have an id for each edge; pass id='age', or"):
        load_source(rows, frame, TableSchema(label="team"), structure="none")


def test_the_first_column_as_ids_and_weights_are_noted(tables):
    edges, nodes, _ = tables
    renamed = nodes.rename(columns={"id": "player"})
    notes = from_pandas(edges.assign(weight=2.0), renamed, TableSchema(label="team")).notes
    assert "nodes: the first column, 'player', holds the node ids; pass --id to use another." in notes
    assert "edges: column 'weight' holds the edge weights." in notes


def test_warnings_name_what_should_be_changed(tables):
    edges, nodes, _ = tables
    with pytest.warns(FitWarning, match="was ended by max_epochs=3 while it still improved"):
        model = apgcn.fit(edges, nodes, label="team", hyperparameters={"hidden_channels": 8, "max_epochs": 3})
    assert set(model.model.metrics["warnings"]) <= set(model.advice)


def test_verbose_prints_each_model(tables, capsys):
    edges, nodes, _ = tables
    apgcn.fit(edges, nodes, label="team", hyperparameters=SMALL, verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ...")[0] for line in lines] == [
        "apgcn.fit: label propagation (LP)", "apgcn.fit: features alone (MLP)", "apgcn.fit: AP-GCN"
    ]  # fmt: skip


@pytest.mark.parametrize("call", [lambda m: m.save(None), lambda m: m.explain(None), lambda m: apgcn.load_model(None)])
def test_a_path_that_is_none_is_one_message(model, call):
    with pytest.raises(InvalidInput, match=r"(folder|path) must"):
        call(model)


def test_messages_about_paths_name_the_argument(model, tmp_path):
    model.save(tmp_path / "m")
    with pytest.raises(InvalidInput, match=r"^folder must name a new or empty folder"):
        model.save(tmp_path / "m")
    with pytest.raises(InvalidInput, match=r"path must name a file that ends in \.html or \.htm, got 'n\.csv'"):
        model.explain(tmp_path / "n.csv")
    with pytest.raises(InvalidInput, match="path must name a file in a folder that exists"):
        model.explain(tmp_path / "nowhere" / "page.html")


def test_masks_of_a_data_are_the_split():
    graph = random_graph(60, edges=150, features=6)
    data = to_pyg(graph)
    for name, first, last in (("train", 0, 20), ("val", 20, 40), ("test", 40, 60)):
        data[f"{name}_mask"] = (torch.arange(60) >= first) & (torch.arange(60) < last)
    split = apgcn.fit(data, hyperparameters=SMALL, baselines=False).model.split
    assert (split.train.tolist(), split.test.tolist()) == ([*range(20)], [*range(40, 60)])
    assert sorted(split.stopping) == [*range(20, 40)]
    split = apgcn.fit(data, model="auto", hyperparameters=SMALL).model.split
    assert sorted([*split.stopping, *split.validation]) == [*range(20, 40)]


def test_new_nodes_and_edges_are_predicted_with_the_graph_of_the_training(model, tables):
    edges, nodes, _ = tables
    new_nodes = pd.DataFrame({"id": ["x", "y"], "height": [1.5, -1.0], "captain": [False, True]})
    new_edges = pd.DataFrame({"source": ["x", "x", "y"], "target": ["n1", "n2", "n60"]})
    added = model.predict(new_edges, new_nodes, add=True)
    only_new = model.predict(new_edges, new_nodes, add=True, new_only=True)
    assert only_new["id"].tolist() == ["x", "y"]
    pd.testing.assert_frame_equal(added.tail(2).reset_index(drop=True), only_new)
    together = model.predict(pd.concat([edges, new_edges]), pd.concat([nodes, new_nodes]))
    pd.testing.assert_frame_equal(together, added)


def test_some_nodes_are_predicted_as_among_all(model):
    every = model.predict().set_index("id")
    some = model.predict(ids=["n70", "n3"]).set_index("id")
    pd.testing.assert_frame_equal(some, every.loc[["n70", "n3"]])
    assert model.predict(ids=["n3"], probabilities=True).filter(like="probability of").sum(axis=1).tolist() == [
        pytest.approx(1, abs=1e-5)
    ]


def test_a_networkx_graph_a_data_and_a_graph_are_whole_graphs(tables):
    edges, nodes, _ = tables
    nx_graph = networkx.from_pandas_edgelist(edges)
    for row in nodes.drop(columns="captain").to_dict("records"):
        node_id = row.pop("id")
        nx_graph.add_node(node_id, **{name: value for name, value in row.items() if value is not None})
    of_networkx = apgcn.fit(nx_graph, label="team", hyperparameters=SMALL, baselines=False)
    assert sorted(of_networkx.predict()["id"]) == sorted(nodes["id"])

    graph = random_graph(60, edges=150, features=6)
    expected = apgcn.fit(graph, hyperparameters=SMALL, baselines=False).predict()
    data = to_pyg(graph)
    assert isinstance(data.x, torch.Tensor)
    of_data = apgcn.fit(data, hyperparameters=SMALL, baselines=False).predict()
    pd.testing.assert_frame_equal(of_data, expected)


def test_the_karate_club_has_features_of_its_edges():
    """Two labelled members of each club are enough for the 34, and new ones get features, too."""
    club = networkx.karate_club_graph()
    for node, attributes in club.nodes(data=True):
        true_classes = attributes.pop("club")
        attributes["side"] = true_classes if node in (0, 1, 2, 5, 33, 32, 31, 8) else None
    model = apgcn.fit(club, label="side", test_size=0.0)
    assert any("computed from the edges" in note for note in model.notes)
    true_classes = [data["club"] for _, data in networkx.karate_club_graph().nodes(data=True)]
    assert (model.predict()["prediction"] == true_classes).mean() > 0.8
    with pytest.raises(InvalidInput, match="fit with --structure degree,random_walk"):
        model.predict(networkx.karate_club_graph())
    general = apgcn.fit(club, label="side", test_size=0.0, structure=["degree", "random_walk"], baselines=False)
    pd.testing.assert_frame_equal(general.predict(club), general.predict())


def test_the_page_is_written(model, tmp_path):
    model.explain(tmp_path / "page.html")
    assert "Propagation steps" in (tmp_path / "page.html").read_text()


def test_a_time_limit_ends_the_training_and_is_named(tables):
    edges, nodes, _ = tables
    model = apgcn.fit(edges, nodes, label="team", time_limit=1e-6)
    assert model.model.metrics["epochs"] == [1]
    assert any("ended by the time limit" in sentence for sentence in model.advice)
    with pytest.raises(InvalidInput, match="time_limit must be > 0, got 0"):
        apgcn.fit(edges, nodes, label="team", time_limit=0)


def test_a_training_that_its_epoch_limit_ends_is_named(model):
    assert any("ended by max_epochs=60" in sentence for sentence in model.advice)


@pytest.mark.parametrize(("steps", "remedy"), [(10.0, "try a larger one, first 0.05"), (1.0, "try a smaller one")])
def test_a_penalty_without_effect_is_named_with_what_to_try(model, steps, remedy):
    probabilities = np.full((5, 2), 0.5)
    varying, constant = (
        Predictions(probabilities, k.astype(float), np.zeros(5)) for k in (np.arange(5), np.full(5, steps))
    )
    trained = replace(model.model, metrics={**model.model.metrics, "converged": True})
    assert describe_training(trained, varying) == []
    (warning,) = describe_training(trained, constant)
    assert warning.startswith(f"K is {steps:g} for every node: a penalty of 0.005")
    assert remedy in warning


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": [1, 2]}, "edges must be a pandas DataFrame, got list"),
        ({"nodes": None}, "edges must come with nodes, or be a whole graph"),
        ({"label": None}, "label must name the column or node attribute"),
        ({"label": "tem"}, "has no column 'tem' for --label; did you mean 'team'"),
        ({"model": "apgcm"}, "unknown model 'apgcm'"),
        ({"hyperparameters": {"penatly": 1}}, "unknown hyperparameter"),
        ({"test_size": 1.5}, "test_size must be"),
        ({"ensemble_size": 0}, "ensemble_size must be"),
        ({"seed": -1}, "seed must be"),
        ({"test_size": 0.75}, "test_size must leave nodes to train: at most 0.7"),
        ({"hyperparameters": ["penalty"]}, "hyperparameters must be a mapping"),
        ({"correct_and_smooth": "auto"}, "correct_and_smooth must be"),
        ({"structure": "degree,walk"}, "unknown "),
        ({"structure": None}, "structure must be auto, none or a list of degree, random_walk, spectral, got None"),
        ({"ignore": 5}, "ignore must be a list of column names, got 5"),
        ({"baselines": "no"}, "baselines must be True or False, got 'no'"),
        ({"directed": "no"}, "directed must be True or False, got 'no'"),
        (
            {"edges": networkx.path_graph(4), "nodes": None, "label": None},
            "label must name the column or node attribute",
        ),
        ({"model": "lp", "hyperparameters": {"patience": 3}}, "unknown hyperparameter of lp 'patience'"),
    ],
)
def test_a_mistake_is_one_message(tables, arguments, message):
    edges, nodes, _ = tables
    with pytest.raises((InvalidInput, UnknownName), match=message):
        apgcn.fit(**{"edges": edges, "nodes": nodes, "label": "team", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": ["n3", "nobody"]}, "unknown node 'nobody'"),
        ({"ids": ["n3", "n3"]}, "nodes must be distinct"),
        ({"ids": "n3"}, "ids must be a list of node ids, got 'n3'"),
        ({"ids": 12}, "ids must be a list of node ids, got 12"),
        ({"new_only": True}, "new_only must come with add=True"),
        ({"add": True}, "edges must be given"),
        ({"add": "no"}, "add must be True or False, got 'no'"),
        ({"edges": networkx.path_graph(3), "add": True}, "add=True needs tables of edges and nodes, got Graph"),
        ({"edges": random_graph(9, edges=9)}, "the model was trained on columns, which arrays do not have"),
    ],
)
def test_a_mistake_in_a_prediction_is_one_message(model, arguments, message):
    with pytest.raises((InvalidInput, UnknownName), match=message):
        model.predict(**arguments)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame([[1, 2]], columns=["id", "id"]),
            "must have a different name for each column, but id occur twice",
        ),
        (pd.DataFrame({"id": ["a"], "x": [[1, 2]]}), "column 'x' must hold one value per cell, got list"),
        (pd.DataFrame({"id": ["a"], "x": [1j]}), "must be text or real numbers, got complex128"),
        (pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])), "must have an index of one level"),
    ],
    ids=["names", "lists", "complex", "levels"],
)
def test_frames_that_are_no_tables_are_rejected(frame, message):
    from apgcn.io.pandas import table_from_frame

    with pytest.raises(InvalidInput, match=message):
        table_from_frame(frame, source="nodes")


def test_cells_of_every_type_of_column():
    from apgcn.io.pandas import table_from_frame

    frame = pd.DataFrame(
        {
            "id": pd.array([1, 2, 3], dtype="Int64"),
            "flag": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "count": pd.array([1, None, 3], dtype="Int64"),
            "kind": pd.Categorical(["a", None, "b"]),
            "when": pd.to_datetime(["2020-01-01", None, "2021-05-06"]),
        }
    )
    table = table_from_frame(frame, source="nodes")
    assert table.as_text(1)[:2] == ["True", "False"]
    assert table.as_text(3) == ["1", "", "3"]
    assert table.as_text(0) == ["1", "2", "3"]
    np.testing.assert_array_equal(table.as_numbers(1), [1, 0, 1])
    np.testing.assert_array_equal(table.as_numbers(2), [1, np.nan, 0])
    np.testing.assert_array_equal(table.as_numbers(3), [1, np.nan, 3])
    assert table.as_text(4) == ["a", "", "b"]
    assert table.as_text(5) == ["2020-01-01 00:00:00", "", "2021-05-06 00:00:00"]


@pytest.mark.parametrize("change", [{"advice": -1}, {"leaderboard": [{"title": "x"}]}, {"test": {}}])
def test_a_folder_whose_comparison_is_malformed_is_refused_when_it_is_loaded(model, tmp_path, change):
    """With valid checksums; the attributes raised errors of Python when they were read."""
    broken = replace(model.bundle, model=replace(model.model, metrics={**model.model.metrics, **change}))
    apgcn.NodeClassifier(broken).save(tmp_path / "m")
    with pytest.raises(BrokenFile, match=r"can(not be loaded| load)"):
        apgcn.load_model(tmp_path / "m")


def test_a_model_without_mistakes_is_loaded(model, tmp_path):
    """The upper bound of its interval rounds to less than 1."""
    (row, *others) = model.model.metrics["leaderboard"]
    rows = [{**row, "accuracy": 1.0, "interval": [0.5, 1 - 1e-16]}, *others]
    perfect = replace(model.bundle, model=replace(model.model, metrics={**model.model.metrics, "leaderboard": rows}))
    apgcn.NodeClassifier(perfect).save(tmp_path / "m")
    assert apgcn.load_model(tmp_path / "m").leaderboard["accuracy"][0] == 1.0
