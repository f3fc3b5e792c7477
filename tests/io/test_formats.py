"""Tables, files and graphs of other libraries become graphs, and the conversion back gives the same."""

import os
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from scipy import sparse
from torch_geometric.data import Data

from apgcn.data.graph import Graph
from apgcn.data.npz import read_npz, write_npz
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput
from apgcn.io.csv import detect_delimiter, read_csv, write_csv
from apgcn.io.feature_encoding import FeatureEncoding, fit_encoding
from apgcn.io.graph_builder import build_graph, extend_graph
from apgcn.io.graphml import read_graphml, write_graphml
from apgcn.io.networkx import from_networkx, to_networkx
from apgcn.io.parquet import read_parquet, write_parquet
from apgcn.io.pyg import from_pyg, to_pyg
from apgcn.io.registry import read_graph, read_table
from apgcn.io.schema import TableSchema
from apgcn.io.scipy import from_scipy, read_scipy, write_scipy
from apgcn.io.tables import Table

EDGES = Table("edges", ("source", "target", "weight"), [["a", "b", "c"], ["b", "c", "d"], ["1", "0.5", "2"]])
NODES = Table(
    "nodes",
    ("id", "kind", "size", "text"),
    [["a", "b", "c", "d"], ["x", "y", "", "x"], ["1", "2", "", "7"], ["red fox", "Red dog!", "", "fox fox"]],
)
SCHEMA = TableSchema(label="kind", bag_of_words=("text",), ignore=())


def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


def assert_same_graph(graph, other):
    assert (graph.adjacency != other.adjacency).nnz == 0
    np.testing.assert_array_equal(dense(graph.features), dense(other.features))
    np.testing.assert_array_equal(graph.labels, other.labels)
    assert graph.class_names == other.class_names


@pytest.fixture
def small_graph():
    nodes = Table("nodes", NODES.columns, [["a", "b", "c", "d"], ["x", "y", "y", "x"], *NODES.cells[2:]])
    return build_graph(EDGES, nodes, SCHEMA, name="graph").graph


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a\tb\n1\t2,5\n", "\t"),
        ("a;b\n1,5;2,5\n", ";"),
        ("a|b\n1|2\n", "|"),
        ('a,b\n"1;2;3;4",2\n', ","),
        ("only\none\n", ","),
        ("", ","),
    ],
)
def test_delimiter_is_detected(text, delimiter):
    assert detect_delimiter(text) == delimiter


def test_csv_cells_are_read_unchanged_with_their_line_numbers(tmp_path):
    rows = [["007", "a,b"], ["x y", 'a "quote"'], ["ü", "two\nlines"], ["1e3", "=1+1"]]
    write_csv(tmp_path / "table.csv", ["id", "text"], rows)
    table = read_csv(tmp_path / "table.csv")
    assert [list(row) for row in zip(*table.cells, strict=True)] == rows
    assert list(table.line_numbers) == [2, 3, 4, 6]
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfid\r\n1\r\n\r\n2\r\n")
    assert read_csv(tmp_path / "bom.csv").columns == ("id",)
    assert list(read_csv(tmp_path / "bom.csv").line_numbers) == [2, 4]


def test_edges_weights_bag_of_words_and_labels_of_two_tables(small_graph):
    expected = np.zeros((4, 4))
    for first, second, weight in ((0, 1, 1), (1, 2, 0.5), (2, 3, 2)):
        expected[first, second] = expected[second, first] = weight
    np.testing.assert_array_equal(small_graph.adjacency.toarray(), expected)
    assert small_graph.class_names == ("x", "y")
    assert small_graph.labels.tolist() == [0, 1, 1, 0]
    assert small_graph.node_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(dense(small_graph.features)[:, 1:], [[1, 1], [0, 1], [0, 0], [2, 0]])  # fox, red


def test_directed_edges_keep_their_direction():
    graph = build_graph(EDGES, NODES, TableSchema(bag_of_words=("text",), directed=True), name="graph").graph
    assert graph.adjacency.toarray()[0, 1] == 1
    assert graph.adjacency.toarray()[1, 0] == 0
    assert graph.labels.tolist() == [-1] * 4


def test_rows_of_sparse_counts_are_divided_by_their_sum():
    nodes = Table(
        "nodes", ("id", "w1", "w2", "w3"), [["a", "b", "c"], ["1", "0", "0"], ["1", "0", "0"], ["0", "0", "2"]]
    )
    encoding, _ = fit_encoding(nodes, ["w1", "w2", "w3"])
    features, _ = encoding.encode(nodes)
    np.testing.assert_allclose(dense(features), [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 1]])


def test_encoding_from_json_encodes_another_table():
    encoding, _ = fit_encoding(NODES, ["size", "text", "kind"], bag_of_words=["text"], one_hot=["kind"])
    decoded = FeatureEncoding.from_json(encoding.as_json())
    assert decoded == encoding
    other = Table("other", ("text", "kind", "size"), [["fox news"], ["z"], ["3"]])
    features, notes = decoded.encode(other)
    assert dense(features).shape == (1, 5)
    assert notes == ["other: 1 value not seen in training, treated as missing: 'kind'."]
    with pytest.raises(InvalidInput, match="must have the columns that the model was trained on, but lacks 'size'"):
        decoded.encode(Table("other", ("text", "kind"), [["fox"], ["x"]]))
    with pytest.raises(InvalidInput, match="other, row 1, column 'size' must be a number, got 'big'"):
        decoded.encode(Table("other", ("text", "kind", "size"), [["fox"], ["x"], ["big"]]))


def test_extended_graph_equals_the_graph_built_at_once():
    encoding, _ = fit_encoding(NODES, ["size", "text"], bag_of_words=["text"])
    node_rows = [list(row) for row in zip(*NODES.cells, strict=True)] + [["e", "y", "5", "red"], ["f", "", "", ""]]
    edge_rows = [list(row) for row in zip(*EDGES.cells, strict=True)] + [
        ["e", "a", "3"],
        ["f", "e", "1"],
        ["b", "a", "4"],
    ]

    def table(name, columns, rows):
        return Table(name, columns, [list(column) for column in zip(*rows, strict=True)])

    def as_tables(edges, nodes):
        return table("edges", EDGES.columns, edges), table("nodes", NODES.columns, nodes)

    names = ("x", "y")
    at_once = build_graph(
        *as_tables(edge_rows, node_rows), SCHEMA, name="graph", encoding=encoding, class_names=names
    ).graph
    start = build_graph(
        *as_tables(edge_rows[:3], node_rows[:4]), SCHEMA, name="graph", encoding=encoding, class_names=names
    ).graph
    extended = extend_graph(start, *as_tables(edge_rows[3:], node_rows[4:]), SCHEMA, encoding).graph
    assert_same_graph(extended, at_once)
    assert extended.node_names == at_once.node_names
    with pytest.raises(InvalidInput, match="'a' is in the model's graph already"):
        extend_graph(start, *as_tables(edge_rows[3:], node_rows[:1]), SCHEMA, encoding)


def test_parquet_and_csv_give_the_same_graph(tmp_path):
    sizes, weights = np.array([1, 2, np.nan, 7]), np.array([1, 0.5, 2])
    typed = {
        "nodes": Table("", NODES.columns, [*NODES.cells[:2], sizes, NODES.cells[3]]),
        "edges": Table("", EDGES.columns, [*EDGES.cells[:2], weights]),
    }
    for name, table in (("nodes", NODES), ("edges", EDGES)):
        write_parquet(tmp_path / f"{name}.parquet", typed[name])
        write_csv(tmp_path / f"{name}.csv", table.columns, zip(*table.cells, strict=True))
    graphs = []
    for kind in ("csv", "parquet"):
        tables = [read_table(tmp_path / f"{name}.{kind}") for name in ("edges", "nodes")]
        graphs.append(build_graph(*tables, TableSchema(bag_of_words=("text",)), name="graph").graph)
    assert_same_graph(*graphs)


def test_integer_ids_of_parquet_are_read_unchanged(tmp_path):
    write_parquet(tmp_path / "t.parquet", Table("", ("id", "big"), [np.array([10, 7]), np.array([True, False])]))
    table = read_parquet(tmp_path / "t.parquet")
    assert table.as_text(0) == ["10", "7"]
    assert table.as_numbers(1).tolist() == [1, 0]
    (tmp_path / "no.parquet").write_bytes(b"PAR1 is all")
    with pytest.raises(InvalidInput, match="must be a Parquet file, but cannot be read as one"):
        read_parquet(tmp_path / "no.parquet")


def test_npz_round_trip_keeps_everything(tmp_path, small_graph):
    for graph in (
        small_graph,
        Graph(
            small_graph.adjacency,
            features=dense(small_graph.features),
            labels=small_graph.labels,
            class_names=("x", "y"),
        ),
    ):
        write_npz(tmp_path / "graph.npz", graph)
        reread = read_npz(tmp_path / "graph.npz")
        assert_same_graph(reread, graph)
        assert reread.node_names == graph.node_names
        assert isinstance(reread.features, np.ndarray) == isinstance(graph.features, np.ndarray)


def test_networkx_and_graphml_round_trip(tmp_path, small_graph):
    x = np.array([[5.0, -1], [2, 3], [0.25, 9], [4, 4]])
    expected = replace(small_graph, features=x)
    write_graphml(tmp_path / "graph.graphml", expected)
    schema = TableSchema(label="label")
    for loaded in (from_networkx(to_networkx(expected), schema), read_graphml(tmp_path / "graph.graphml", schema)):
        graph = loaded.graph
        assert (graph.adjacency != expected.adjacency).nnz == 0
        assert graph.node_names == expected.node_names
        assert graph.labels.tolist() == expected.labels.tolist()
        np.testing.assert_allclose(graph.features, (x - x.mean(axis=0)) / x.std(axis=0), atol=1e-6)


def test_networkx_digraph_stays_directed():
    graph = networkx.DiGraph([("a", "b")])
    for node in graph:
        graph.nodes[node]["size"] = 1
    assert from_networkx(graph).graph.adjacency.toarray().tolist() == [[0, 1], [0, 0]]
    graph.nodes["a"]["size"] = [1, 2]
    with pytest.raises(InvalidInput, match="attribute 'size' must be text or a number, got list"):
        from_networkx(graph)


def test_pyg_round_trip(small_graph):
    data = to_pyg(small_graph)
    loaded = from_pyg(data, name="graph")
    assert_same_graph(loaded.graph, small_graph)
    assert loaded.graph.node_names == small_graph.node_names
    assert loaded.notes == []
    data.x = data.x.to_sparse()
    assert sparse.issparse(from_pyg(data).graph.features)
    weights = data.edge_weight
    del data.edge_weight, data.y
    assert from_pyg(data).graph.labels.tolist() == [-1] * 4
    assert set(from_pyg(data).graph.adjacency.data) == {1}
    data.edge_attr = weights[:, None]
    assert (from_pyg(data).graph.adjacency != small_graph.adjacency).nnz == 0
    data.edge_attr = torch.ones(len(weights), 2)
    assert from_pyg(data).notes == ["edge_attr is not used: it has more than one number per edge."]
    data.edge_index = torch.tensor([[0], [9]])
    with pytest.raises(InvalidInput, match="edge_index must contain node indices from 0 to 3"):
        from_pyg(data)


def test_scipy_round_trip(tmp_path, small_graph):
    write_scipy(tmp_path / "edges.npz", small_graph)
    loaded = from_scipy(read_scipy(tmp_path / "edges.npz"), small_graph.features, small_graph.labels)
    assert_same_graph(replace(small_graph, class_names=("0", "1")), loaded.graph)
    assert loaded.encoding is None
    assert loaded.notes == []


def test_notes_report_changes_of_an_adjacency():
    asymmetric = sparse.csr_matrix([[5, 2, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    loaded = from_scipy(asymmetric, np.eye(4))
    assert loaded.graph.adjacency.toarray().tolist() == [[0, 2, 0, 0], [2, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert loaded.notes == [
        "graph: removed 1 self-loop.",
        "graph: made 2 edges with one direction, or with two weights, undirected; the larger weight is used.",
        "isolated nodes: 1 of 4, which receive no messages.",
    ]
    directed = from_scipy(asymmetric, np.eye(4), directed=True).graph.adjacency.toarray()
    assert directed.tolist() == [[0, 2, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_file_without_a_scipy_matrix_is_rejected(tmp_path):
    (tmp_path / "text.npz").write_text("no")
    lowest = np.iinfo(np.int64).min
    members = {"indptr": np.array([0, 0, lowest]), "indices": np.empty(0, np.int64), "data": np.empty(0)}
    np.savez(tmp_path / "pointers.npz", format=np.array("csr"), shape=np.array([2, 2]), **members)
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    for name, message in (
        ("text.npz", "must be a scipy sparse matrix"),
        ("other.npz", "must be a scipy sparse matrix"),
        ("pointers.npz", "index pointers must rise from 0"),
        ("none.npz", "there is no such file"),
        (".", "it is a folder"),
    ):
        with pytest.raises(ApgcnError, match=message):
            read_scipy(tmp_path / name)
    with pytest.raises(InvalidInput, match="must be a scipy sparse matrix, got ndarray"):
        from_scipy(np.eye(2), np.eye(2))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("x", torch.tensor(1.0), r"x must be numbers of shape \(nodes, features\)"),
        ("edge_index", torch.zeros(3, 2, dtype=torch.int64), r"edge_index must be integers of shape \(2, edges\)"),
        ("edge_index", torch.zeros(2, 2), "edge_index must be integers"),
        ("edge_index", torch.tensor([[0], [9]]), "edge_index must contain node indices from 0 to 3"),
        ("edge_weight", torch.ones(2, 1), "edge_weight must have shape"),
        ("y", torch.ones(3, dtype=torch.int64), "4 nodes but 3 labels"),
    ],
)
def test_invalid_pyg_data_is_rejected(small_graph, attribute, value, message):
    data = to_pyg(small_graph)
    data[attribute] = value
    with pytest.raises(InvalidInput, match=message):
        from_pyg(data)


def test_pyg_features_may_be_sparse_or_bfloat16(small_graph):
    data = to_pyg(small_graph)
    data.x = data.x.to_sparse()
    assert_same_graph(small_graph, from_pyg(data).graph)
    data.x = torch.ones(4, 2, dtype=torch.bfloat16)
    assert from_pyg(data).graph.features.tolist() == [[1, 1]] * 4


def test_schema_rejects_column_names_that_are_no_strings():
    with pytest.raises(InvalidInput, match="bag_of_words must be a list of column names, got 'text'"):
        TableSchema(bag_of_words="text")
    with pytest.raises(InvalidInput, match="id must be the name of a column, got 3"):
        TableSchema(id=3)


def test_duplicate_edge_counts_once_in_every_library():
    ends = ([0, 0, 1, 0], [1, 1, 1, 2])
    edges = sparse.coo_matrix(([1.0, 3.0, 1.0, 0.0], ends), shape=(3, 3))
    data = Data(x=torch.eye(3), edge_index=torch.tensor(ends), edge_weight=torch.tensor([1.0, 3.0, 1.0, 0.0]))
    for loaded in (from_scipy(edges, np.eye(3), directed=True), from_pyg(data)):
        assert loaded.graph.adjacency.toarray().tolist() == [[0, 3, 0], [0, 0, 0], [0, 0, 0]]
        assert loaded.notes == [
            "graph: removed 1 self-loop.",
            "graph: removed 1 edge of weight 0.",
            "graph: merged 1 duplicate edge; the largest weight is used.",
            "isolated nodes: 1 of 3, which receive no messages.",
        ]


def test_npz_keeps_white_space_in_names(tmp_path):
    graph = Graph(np.ones((2, 2)), np.eye(2), [0, 1], class_names=(" a", "b "), node_names=("x ", "\ty"))
    write_npz(tmp_path / "g.npz", graph)
    reread = read_npz(tmp_path / "g.npz")
    assert (reread.class_names, reread.node_names) == (graph.class_names, graph.node_names)


def test_one_long_name_does_not_multiply_memory(tmp_path):
    """An array of strings would pad 2,000 names to 20,000 characters of 4 bytes: 160 MB."""
    names = ("x" * 20_000, "", "ü\0", *map(str, range(1_997)))
    graph = Graph(sparse.csr_matrix((2_000, 2_000)), np.ones((2_000, 1)), node_names=names)
    tracemalloc.start()
    write_npz(tmp_path / "g.npz", graph)
    reread = read_npz(tmp_path / "g.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reread.node_names == names
    assert peak < 4e6


def test_archive_with_arrays_of_strings_is_read_as_before(tmp_path, small_graph):
    """As apgcn 0.2 wrote them."""
    write_npz(tmp_path / "g.npz", replace(small_graph, node_names=None))
    with np.load(tmp_path / "g.npz") as archive:
        members = {name: array for name, array in archive.items() if "_names_" not in name}
    names = [f"n{number}" for number in range(small_graph.num_nodes)]
    classes = small_graph.class_names
    np.savez(tmp_path / "old.npz", **members, class_names=np.array(classes), node_names=np.array(names))
    reread = read_npz(tmp_path / "old.npz")
    assert (reread.class_names, reread.node_names) == (classes, tuple(names))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"node_names_offsets": np.array([0, 9, 2])}, "offsets of names must rise"),
        ({"node_names_offsets": np.array([1, 1, 2])}, "must be integers from 0"),
        ({"node_names_bytes": np.zeros(5, np.uint8)}, "node_names_bytes must have 2 bytes"),
        ({"node_names_bytes": np.full(2, 255, np.uint8)}, "can't decode byte"),
    ],
)
def test_damaged_names_are_refused(tmp_path, change, sentence):
    write_npz(tmp_path / "g.npz", Graph(np.ones((2, 2)), np.eye(2), [0, 1], node_names=("a", "b")))
    with np.load(tmp_path / "g.npz") as archive:
        members = dict(archive)
    np.savez(tmp_path / "g.npz", **{**members, **change})
    with pytest.raises(BrokenFile, match=sentence):
        read_npz(tmp_path / "g.npz")


def test_archive_whose_classes_have_one_name_is_refused(tmp_path):
    write_npz(tmp_path / "g.npz", Graph(np.ones((2, 2)), np.eye(2), [0, 1], class_names=("a", "b")))
    with np.load(tmp_path / "g.npz") as archive:
        members = dict(archive)
    np.savez(tmp_path / "g.npz", **{**members, "class_names_bytes": np.full(2, 97, np.uint8)})
    with pytest.raises(BrokenFile, match="must have a unique name for each class"):
        read_npz(tmp_path / "g.npz")


def test_names_that_are_stored_as_bytes_are_read(tmp_path):
    write_npz(tmp_path / "g.npz", Graph(np.ones((2, 2)), np.eye(2), [0, 1]))
    with np.load(tmp_path / "g.npz") as archive:
        members = {name: array for name, array in archive.items() if "_names_" not in name}
    np.savez(
        tmp_path / "g.npz", **members, class_names=np.array([b"x", b"yy"]), node_names=np.array([b"a", "ü".encode()])
    )
    reread = read_npz(tmp_path / "g.npz")
    assert (reread.class_names, reread.node_names) == (("x", "yy"), ("a", "ü"))


def test_edge_that_an_archive_stores_twice_has_its_largest_weight_as_in_tables(tmp_path):
    arrays = {"data": [1.0, 3.0, 2.0], "indices": [1, 1, 0], "indptr": [0, 2, 3], "shape": [2, 2]}
    members = {f"adj_{name}": np.array(values) for name, values in arrays.items()}
    np.savez(tmp_path / "g.npz", **members, attr_dense=np.eye(2), labels=np.array([0, 1]))
    loaded = read_graph(tmp_path / "g.npz", TableSchema(directed=True))
    assert loaded.graph.adjacency.toarray().tolist() == [[0, 3], [2, 0]]
    assert any("merged 1 duplicate edge; the largest weight is used" in note for note in loaded.notes)


@pytest.mark.parametrize("text", ["1_000", "١٢", "１２"])
def test_text_that_only_python_reads_as_a_number_is_none(text):
    """Underscores, and digits of other scripts; white space around a number is fine."""
    table = Table("t", ("x",), [["1", "\u00a02 ", text]])
    assert table.as_numbers(0) is None
    with pytest.raises(InvalidInput, match=f"row 3, column 'x' must be a number, got '{text}'"):
        table.require_numbers(0)


def test_graphml_without_a_namespace_is_read(tmp_path):
    text = (
        '<?xml version="1.0"?><!-- <graphml> --><graphml><key id="d" for="node" attr.name="f" attr.type="double"/>'
        '<graph edgedefault="undirected"><node id="a"><data key="d">1</data></node><node id="b"/>'
        '<edge source="a" target="b"/></graph></graphml>'
    )
    (tmp_path / "g.graphml").write_text(text)
    graph = read_graphml(tmp_path / "g.graphml").graph
    assert (graph.node_names, graph.num_directed_edges) == (("a", "b"), 2)


def test_graphml_node_without_an_id_is_refused_with_its_line(tmp_path):
    (tmp_path / "g.graphml").write_text('<graphml><graph edgedefault="undirected">\n<node/></graph></graphml>')
    with pytest.raises(InvalidInput, match="line 2 must have a node with an id"):
        read_graphml(tmp_path / "g.graphml")


@pytest.mark.parametrize(("name", "read"), [("pipe.csv", read_table), ("pipe.graphml", read_graph)])
def test_named_pipe_is_refused_and_not_waited_for(tmp_path, name, read):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidInput, match="must be a file, but it is a named pipe"):
        read(tmp_path / name)


def test_pipe_of_the_shell_is_read():
    """As of `--edges <(zcat edges.csv.gz)`."""
    reader, writer = os.pipe()
    os.write(writer, b"a,b\n1,2\n")
    os.close(writer)
    assert read_table(Path(f"/dev/fd/{reader}")).columns == ("a", "b")
    os.close(reader)


def test_columns_are_found_in_constant_time(tmp_path):
    """Ten times the columns take about ten times as long; looking each up in a list took a hundred times."""

    def seconds(columns):
        header = ",".join(["id", *(f"a long name of a column {number}" for number in range(columns))])
        (tmp_path / "t.csv").write_text(f"{header}\n" + "a" + ",1" * columns + "\n")
        started = time.process_time()
        table = read_table(tmp_path / "t.csv")
        for name in table.columns:
            table.column_index(name, option="--id")
        return time.process_time() - started

    assert min(seconds(20_000) for _ in range(3)) < 40 * min(seconds(2_000) for _ in range(3))


def test_notes_name_unused_columns():
    edges = Table("edges", ("Source", "Target", "Type", "Weight"), [["a"], ["b"], ["directed"], ["5"]])
    loaded = build_graph(edges, NODES, replace(SCHEMA, label=None), name="graph")
    assert loaded.graph.adjacency.max() == 5  # as Gephi spells it
    assert "edges: unused columns: 'Type'; pass --weight to use one as edge weights." in loaded.notes
    more_columns = Table("nodes", (*NODES.columns, "new"), [*NODES.cells, ["1"] * 4])
    notes = build_graph(
        edges, more_columns, loaded.schema, name="graph", encoding=loaded.encoding, class_names=()
    ).notes
    assert "nodes: unused columns, because the model was not trained on them: 'new'." in notes


def test_resolved_schema_reads_another_table_in_the_same_way():
    """The id column found by position, the weight column found by name, and that there is no weight column."""
    nodes = Table("nodes", ("key", "size"), [["a", "b"], ["1", "2"]])
    edges = Table("edges", ("from", "to"), [["a"], ["b"]])
    loaded = build_graph(edges, nodes, TableSchema(), name="graph")
    assert (loaded.schema.id, loaded.schema.source, loaded.schema.weight) == ("key", "from", "")
    reordered = Table("nodes", ("size", "key"), nodes.cells[::-1])
    weighted = Table("edges", ("from", "to", "weight"), [["a"], ["b"], ["9"]])
    reread = build_graph(weighted, reordered, loaded.schema, name="graph", encoding=loaded.encoding)
    assert_same_graph(reread.graph, loaded.graph)
    assert reread.graph.node_names == ("a", "b")
    first = build_graph(weighted, nodes, TableSchema(), name="graph")
    with pytest.raises(InvalidInput, match="edges has no column 'weight' for --weight"):
        build_graph(edges, nodes, first.schema, name="graph")


def test_constant_column_is_centred_but_not_scaled():
    nodes = Table("nodes", ("id", "size"), [[str(node) for node in range(12)], ["0.1"] * 12])
    encoding, _ = fit_encoding(nodes, ["size"])
    features, _ = encoding.encode(Table("nodes", ("id", "size"), [["a"], ["0.11"]]))
    np.testing.assert_allclose(dense(features), [[0.01]], atol=1e-6)


def test_notes_report_how_missing_values_are_replaced():
    nodes = Table(
        "nodes",
        ("id", "size", "count", "colour", "empty"),
        [list("abcd"), ["1", "2", "", "3"], ["0", "0", "8", ""], ["red", "", "red", "blue"], [""] * 4],
    )
    encoding, notes = fit_encoding(nodes, ["size", "count", "colour", "empty"], one_hot=["colour"])
    assert notes == ["nodes: empty columns, not used as features: 'empty'."]
    features, notes = encoding.encode(nodes)
    assert notes == [
        "nodes: 1 missing value replaced by the mean: 'size'.",
        "nodes: 2 missing values replaced by 0: 'count' (1), 'colour' (1).",
    ]
    assert dense(features)[3].tolist() == pytest.approx([(3 - 2) / np.std([1, 2, 3]), 0, 1, 0])


def test_directed_graphml_sets_the_schema_to_directed(tmp_path):
    graph = networkx.DiGraph([("a", "b"), ("b", "c")])
    for node in graph:
        graph.nodes[node]["size"] = 1.0
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    loaded = read_graphml(tmp_path / "g.graphml")
    assert loaded.schema.directed
    assert loaded.graph.num_directed_edges == 2
    loaded = from_networkx(graph.to_undirected(), TableSchema(directed=True))
    assert loaded.graph.num_directed_edges == 4
    assert "graph: the graph is undirected, so both endpoints of an edge receive from each other." in loaded.notes
    with pytest.raises(InvalidInput, match="omit --id, --source and --target"):
        from_networkx(graph, TableSchema(id="size"))


def test_graph_can_be_extended_by_edges_alone(small_graph):
    encoding, _ = fit_encoding(NODES, ["size", "text"], bag_of_words=["text"])
    more = Table("more", ("source", "target"), [["a"], ["d"]])
    loaded = extend_graph(small_graph, more, None, TableSchema(label="kind", id="id"), encoding)
    assert loaded.graph.num_nodes == 4
    assert loaded.graph.num_directed_edges == small_graph.num_directed_edges + 2
    assert loaded.notes == []


def test_large_uint64_ids_of_parquet_stay_distinct(tmp_path):
    large = np.array([2**63 + 1, 2**63 + 3], dtype=np.uint64)
    write_parquet(tmp_path / "n.parquet", Table("n", ("id", "day"), [large, ["2020-01-01", ""]]))
    table = read_parquet(tmp_path / "n.parquet")
    assert table.as_text(0) == ["9223372036854775809", "9223372036854775811"]


def test_parquet_date_out_of_range_is_rejected(tmp_path):
    days = pyarrow.array([-(10**12)]).cast(pyarrow.timestamp("s"))
    parquet.write_table(pyarrow.table({"id": ["a"], "day": days}), tmp_path / "n.parquet")
    with pytest.raises(InvalidInput, match="column 'day' must contain text or numbers, but does not"):
        read_parquet(tmp_path / "n.parquet")
