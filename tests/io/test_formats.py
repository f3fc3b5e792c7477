"""Tables and graphs of other libraries become our graphs, and come back the same."""

from dataclasses import replace

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
from apgcn.errors import ApgcnError, InvalidInput
from apgcn.io.build_graph import TableSchema, build_graph, extend
from apgcn.io.csv import delimiter_of, read_csv, write_csv
from apgcn.io.feature_encoding import FeatureEncoding, find_encoding
from apgcn.io.graphml import read_graphml, write_graphml
from apgcn.io.networkx import from_networkx, to_networkx
from apgcn.io.parquet import read_parquet, write_parquet
from apgcn.io.pyg import from_pyg, to_pyg
from apgcn.io.registry import read_table
from apgcn.io.scipy import from_scipy, read_scipy, write_scipy
from apgcn.io.tables import Table

EDGES = Table("edges", ("source", "target", "weight"), [["a", "b", "c"], ["b", "c", "d"], ["1", "0.5", "2"]])
NODES = Table(
    "nodes",
    ("id", "kind", "size", "text"),
    [["a", "b", "c", "d"], ["x", "y", "", "x"], ["1", "2", "", "7"], ["red fox", "Red dog!", "", "fox fox"]],
)
READING = TableSchema(label="kind", words=("text",), ignore=())


def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


def same(graph, other):
    assert (graph.adjacency != other.adjacency).nnz == 0
    np.testing.assert_array_equal(dense(graph.features), dense(other.features))
    np.testing.assert_array_equal(graph.labels, other.labels)
    assert graph.class_names == other.class_names


@pytest.fixture
def own():
    nodes = Table("nodes", NODES.columns, [["a", "b", "c", "d"], ["x", "y", "y", "x"], *NODES.cells[2:]])
    return build_graph(EDGES, nodes, READING, name="own").graph


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
def test_what_stands_between_cells_is_found(text, delimiter):
    assert delimiter_of(text) == delimiter


def test_cells_are_kept_as_they_are(tmp_path):
    rows = [["007", "a,b"], ["x y", 'say "so"'], ["ü", "two\nlines"], ["1e3", "=1+1"]]
    write_csv(tmp_path / "table.csv", ["id", "text"], rows)
    table = read_csv(tmp_path / "table.csv")
    assert [list(row) for row in zip(*table.cells, strict=True)] == rows
    assert list(table.lines) == [2, 3, 4, 6]
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfid\r\n1\r\n\r\n2\r\n")
    assert read_csv(tmp_path / "bom.csv").columns == ("id",)
    assert list(read_csv(tmp_path / "bom.csv").lines) == [2, 4]


def test_edges_weights_words_and_labels(own):
    expected = np.zeros((4, 4))
    for first, second, weight in ((0, 1, 1), (1, 2, 0.5), (2, 3, 2)):
        expected[first, second] = expected[second, first] = weight
    np.testing.assert_array_equal(own.adjacency.toarray(), expected)
    assert own.class_names == ("x", "y")
    assert own.labels.tolist() == [0, 1, 1, 0]
    assert own.node_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(dense(own.features)[:, 1:], [[1, 1], [0, 1], [0, 0], [2, 0]])  # fox, red


def test_direction_stays_where_it_is_wanted():
    graph = build_graph(EDGES, NODES, TableSchema(words=("text",), directed=True), name="own").graph
    assert graph.adjacency.toarray()[0, 1] == 1
    assert graph.adjacency.toarray()[1, 0] == 0
    assert graph.labels.tolist() == [-1] * 4


def test_counts_that_are_mostly_zero_are_scaled_as_in_the_benchmark():
    nodes = Table(
        "nodes", ("id", "w1", "w2", "w3"), [["a", "b", "c"], ["1", "0", "0"], ["1", "0", "0"], ["0", "0", "2"]]
    )
    encoding, _ = find_encoding(nodes, ["w1", "w2", "w3"])
    features, _ = encoding.encode(nodes)
    np.testing.assert_allclose(dense(features), [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 1]])


def test_an_encoding_survives_json_and_another_table():
    encoding, _ = find_encoding(NODES, ["size", "text", "kind"], words=["text"], one_hot=["kind"])
    again = FeatureEncoding.from_json(encoding.as_json())
    assert again == encoding
    other = Table("other", ("text", "kind", "size"), [["fox news"], ["z"], ["3"]])
    features, notes = again.encode(other)
    assert dense(features).shape == (1, 5)
    assert notes == ["other: 1 value not met in training, taken as missing: 'kind'."]
    with pytest.raises(InvalidInput, match="must have the columns that the model was trained on, but lacks 'size'"):
        again.encode(Table("other", ("text", "kind"), [["fox"], ["x"]]))
    with pytest.raises(InvalidInput, match="other, row 1, column 'size' must be a number, got 'big'"):
        again.encode(Table("other", ("text", "kind", "size"), [["fox"], ["x"], ["big"]]))


def test_a_graph_extended_is_the_graph_built_at_once():
    encoding, _ = find_encoding(NODES, ["size", "text"], words=["text"])
    rows = [list(row) for row in zip(*NODES.cells, strict=True)] + [["e", "y", "5", "red"], ["f", "", "", ""]]
    links = [list(row) for row in zip(*EDGES.cells, strict=True)] + [["e", "a", "3"], ["f", "e", "1"], ["b", "a", "4"]]

    def table(name, columns, some):
        return Table(name, columns, [list(column) for column in zip(*some, strict=True)])

    def made(edges, nodes):
        return table("edges", EDGES.columns, edges), table("nodes", NODES.columns, nodes)

    names = ("x", "y")
    whole = build_graph(*made(links, rows), READING, name="own", encoding=encoding, class_names=names).graph
    start = build_graph(*made(links[:3], rows[:4]), READING, name="own", encoding=encoding, class_names=names).graph
    grown = extend(start, *made(links[3:], rows[4:]), READING, encoding).graph
    same(grown, whole)
    assert grown.node_names == whole.node_names
    with pytest.raises(InvalidInput, match="'a' is one of the model's graph already"):
        extend(start, *made(links[3:], rows[:1]), READING, encoding)


def test_parquet_says_what_csv_says(tmp_path):
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
        graphs.append(build_graph(*tables, TableSchema(words=("text",)), name="own").graph)
    same(*graphs)


def test_parquet_of_whole_numbers_gives_ids_as_they_are(tmp_path):
    write_parquet(tmp_path / "t.parquet", Table("", ("id", "big"), [np.array([10, 7]), np.array([True, False])]))
    table = read_parquet(tmp_path / "t.parquet")
    assert table.texts(0) == ["10", "7"]
    assert table.numbers(1).tolist() == [1, 0]
    (tmp_path / "no.parquet").write_bytes(b"PAR1 is all")
    with pytest.raises(InvalidInput, match="must be a Parquet file, but cannot be read as one"):
        read_parquet(tmp_path / "no.parquet")


def test_our_archive_keeps_everything(tmp_path, own):
    for graph in (own, Graph(own.adjacency, features=dense(own.features), labels=own.labels, class_names=("x", "y"))):
        write_npz(tmp_path / "graph.npz", graph)
        again = read_npz(tmp_path / "graph.npz")
        same(again, graph)
        assert again.node_names == graph.node_names
        assert isinstance(again.features, np.ndarray) == isinstance(graph.features, np.ndarray)


def test_networkx_and_graphml_there_and_back(tmp_path, own):
    x = np.array([[5.0, -1], [2, 3], [0.25, 9], [4, 4]])
    given = replace(own, features=x)
    write_graphml(tmp_path / "own.graphml", given)
    schema = TableSchema(label="label")
    for read in (from_networkx(to_networkx(given), schema), read_graphml(tmp_path / "own.graphml", schema)):
        graph = read.graph
        assert (graph.adjacency != given.adjacency).nnz == 0
        assert graph.node_names == given.node_names
        assert graph.labels.tolist() == given.labels.tolist()
        np.testing.assert_allclose(graph.features, (x - x.mean(axis=0)) / x.std(axis=0), atol=1e-6)


def test_a_directed_graph_of_networkx_stays_directed():
    graph = networkx.DiGraph([("a", "b")])
    for node in graph:
        graph.nodes[node]["size"] = 1
    assert from_networkx(graph).graph.adjacency.toarray().tolist() == [[0, 1], [0, 0]]
    graph.nodes["a"]["size"] = [1, 2]
    with pytest.raises(InvalidInput, match="attribute 'size' must hold text or numbers, got list"):
        from_networkx(graph)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<graphml><graph>", "line 1 must be XML"),
        (b"<?xml version='1.0' encoding='Atf-8'?><graphml/>", "must be in an encoding that is known"),
        (b"<?xml version='1.0' encoding='utf-7'?><graphml/>", "must be"),
        (b"<?xml version='1.0' encoding='gb2312'?><graphml/>", "must be"),
        (b"<html></html>", "must hold one graph, but holds 0"),
        (b"<graphml><graph/><graph/></graphml>", "must hold one graph, but holds 2"),
        (b"<graphml><graph><node/></graph></graphml>", "must be a GraphML file, but cannot be read as one"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "must not define entities of its own"),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><graphml/>'.encode("utf-16"), "must not define entities"),
        (b'<graphml><graph><node id="a"/>\n<node id="a"/></graph></graphml>', "line 2 must have an id of its own"),
        (
            b'<graphml><graph><node id="a"/>\n<edge source="a" target="b"/></graph></graphml>',
            "line 2 must have a declared",
        ),
    ],
)
def test_a_broken_graphml_is_told_in_words(tmp_path, content, sentence):
    (tmp_path / "x.graphml").write_bytes(content)
    with pytest.raises(ApgcnError, match=sentence):
        read_graphml(tmp_path / "x.graphml")


def test_pytorch_geometric_there_and_back(own):
    data = to_pyg(own)
    again = from_pyg(data, name="own")
    same(again.graph, own)
    assert again.graph.node_names == own.node_names
    assert again.notes == []
    data.x = data.x.to_sparse()
    assert sparse.issparse(from_pyg(data).graph.features)
    weights = data.edge_weight
    del data.edge_weight, data.y
    assert from_pyg(data).graph.labels.tolist() == [-1] * 4
    assert set(from_pyg(data).graph.adjacency.data) == {1}
    data.edge_attr = weights[:, None]
    assert (from_pyg(data).graph.adjacency != own.adjacency).nnz == 0
    data.edge_attr = torch.ones(len(weights), 2)
    assert from_pyg(data).notes == ["not used: edge_attr, which is more than one number for each edge."]
    data.edge_index = torch.tensor([[0], [9]])
    with pytest.raises(InvalidInput, match="edge_index must hold nodes from 0 to 3"):
        from_pyg(data)


def test_scipy_there_and_back(tmp_path, own):
    write_scipy(tmp_path / "edges.npz", own)
    read = from_scipy(read_scipy(tmp_path / "edges.npz"), own.features, own.labels)
    same(replace(own, class_names=("0", "1")), read.graph)
    assert read.encoding is None
    assert read.notes == []


def test_what_a_matrix_loses_is_said():
    one_way = sparse.csr_matrix([[5, 2, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    read = from_scipy(one_way, np.eye(4))
    assert read.graph.adjacency.toarray().tolist() == [[0, 2, 0, 0], [2, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert read.notes == [
        "graph: left out 1 edge from a node to itself.",
        "graph: took 2 edges that had two weights, or one direction, in both directions, with the larger weight.",
        "without edges: 1 of 4 nodes, judged by their own features alone.",
    ]
    kept = from_scipy(one_way, np.eye(4), directed=True).graph.adjacency.toarray()
    assert kept.tolist() == [[0, 2, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_file_that_is_no_matrix_is_told_in_words(tmp_path):
    (tmp_path / "text.npz").write_text("no")
    lowest = np.iinfo(np.int64).min
    parts = {"indptr": np.array([0, 0, lowest]), "indices": np.empty(0, np.int64), "data": np.empty(0)}
    np.savez(tmp_path / "pointers.npz", format=np.array("csr"), shape=np.array([2, 2]), **parts)
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    for name, sentence in (
        ("text.npz", "must be a sparse matrix of scipy"),
        ("other.npz", "must be a sparse matrix of scipy"),
        ("pointers.npz", "index pointers must rise from 0"),
        ("none.npz", "there is no such file"),
        (".", "it is a folder"),
    ):
        with pytest.raises(ApgcnError, match=sentence):
            read_scipy(tmp_path / name)
    with pytest.raises(InvalidInput, match="must be a sparse matrix of scipy, got ndarray"):
        from_scipy(np.eye(2), np.eye(2))


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("x", torch.tensor(1.0), r"x must be numbers of shape \(nodes, features\)"),
        ("edge_index", torch.zeros(3, 2, dtype=torch.int64), r"edge_index must be whole numbers of shape \(2, edges\)"),
        ("edge_index", torch.zeros(2, 2), "edge_index must be whole numbers"),
        ("edge_index", torch.tensor([[0], [9]]), "edge_index must hold nodes from 0 to 3"),
        ("edge_weight", torch.ones(2, 1), "edge_weight must have shape"),
        ("y", torch.ones(3, dtype=torch.int64), "4 nodes but 3 labels"),
    ],
)
def test_a_broken_data_is_told_in_words(own, part, value, sentence):
    data = to_pyg(own)
    data[part] = value
    with pytest.raises(InvalidInput, match=sentence):
        from_pyg(data)


def test_a_data_may_be_sparse_or_half_as_exact(own):
    data = to_pyg(own)
    data.x = data.x.to_sparse()
    same(own, from_pyg(data).graph)
    data.x = torch.ones(4, 2, dtype=torch.bfloat16)
    assert from_pyg(data).graph.features.tolist() == [[1, 1]] * 4


def test_columns_are_named_by_text():
    with pytest.raises(InvalidInput, match="words must be a list of columns, got 'text'"):
        TableSchema(words="text")
    with pytest.raises(InvalidInput, match="id must be the name of a column, got 3"):
        TableSchema(id=3)


def test_an_edge_given_twice_counts_once_in_every_library():
    ends = ([0, 0, 1, 0], [1, 1, 1, 2])
    edges = sparse.coo_matrix(([1.0, 3.0, 1.0, 0.0], ends), shape=(3, 3))
    data = Data(x=torch.eye(3), edge_index=torch.tensor(ends), edge_weight=torch.tensor([1.0, 3.0, 1.0, 0.0]))
    for read in (from_scipy(edges, np.eye(3), directed=True), from_pyg(data)):
        assert read.graph.adjacency.toarray().tolist() == [[0, 3, 0], [0, 0, 0], [0, 0, 0]]
        assert read.notes == [
            "graph: left out 1 edge from a node to itself.",
            "graph: left out 1 edge of weight 0.",
            "graph: merged 1 edge with one given before; the largest weight counts.",
            "without edges: 1 of 3 nodes, judged by their own features alone.",
        ]


def test_names_come_back_from_our_archive_as_they_were(tmp_path):
    graph = Graph(np.ones((2, 2)), np.eye(2), [0, 1], class_names=(" a", "b "), node_names=("x ", "\ty"))
    write_npz(tmp_path / "g.npz", graph)
    again = read_npz(tmp_path / "g.npz")
    assert (again.class_names, again.node_names) == (graph.class_names, graph.node_names)


def test_columns_that_are_not_used_are_named():
    edges = Table("edges", ("Source", "Target", "Type", "Weight"), [["a"], ["b"], ["directed"], ["5"]])
    read = build_graph(edges, NODES, replace(READING, label=None), name="own")
    assert read.graph.adjacency.max() == 5  # as Gephi spells it
    assert "edges: not used: 'Type'; --weight names a column of weights." in read.notes
    again = Table("nodes", (*NODES.columns, "new"), [*NODES.cells, ["1"] * 4])
    told = build_graph(edges, again, read.schema, name="own", encoding=read.encoding, class_names=()).notes
    assert "nodes: not used, because the model does not know them: 'new'." in told


def test_another_table_is_read_as_the_first_was():
    """Whatever was found out: the column of ids by its place, that of weights by its name, and that there is none."""
    nodes = Table("nodes", ("key", "size"), [["a", "b"], ["1", "2"]])
    edges = Table("edges", ("from", "to"), [["a"], ["b"]])
    read = build_graph(edges, nodes, TableSchema(), name="own")
    assert (read.schema.id, read.schema.source, read.schema.weight) == ("key", "from", "")
    transposed = Table("nodes", ("size", "key"), nodes.cells[::-1])
    weighted = Table("edges", ("from", "to", "weight"), [["a"], ["b"], ["9"]])
    again = build_graph(weighted, transposed, read.schema, name="own", encoding=read.encoding)
    same(again.graph, read.graph)
    assert again.graph.node_names == ("a", "b")
    first = build_graph(weighted, nodes, TableSchema(), name="own")
    with pytest.raises(InvalidInput, match="edges has no column 'weight' for --weight"):
        build_graph(edges, nodes, first.schema, name="own")


def test_a_column_of_one_value_stays_near_it():
    nodes = Table("nodes", ("id", "size"), [[str(one) for one in range(12)], ["0.1"] * 12])
    encoding, _ = find_encoding(nodes, ["size"])
    features, _ = encoding.encode(Table("nodes", ("id", "size"), [["a"], ["0.11"]]))
    np.testing.assert_allclose(dense(features), [[0.01]], atol=1e-6)


def test_what_is_missing_is_said_as_it_is_taken():
    nodes = Table(
        "nodes",
        ("id", "size", "count", "colour", "empty"),
        [list("abcd"), ["1", "2", "", "3"], ["0", "0", "8", ""], ["red", "", "red", "blue"], [""] * 4],
    )
    encoding, notes = find_encoding(nodes, ["size", "count", "colour", "empty"], one_hot=["colour"])
    assert notes == ["nodes: no features, because empty: 'empty'."]
    features, notes = encoding.encode(nodes)
    assert notes == [
        "nodes: 1 value missing, taken as the mean: 'size'.",
        "nodes: 2 values missing, taken as 0: 'count', 'colour'.",
    ]
    assert dense(features)[3].tolist() == pytest.approx([(3 - 2) / np.std([1, 2, 3]), 0, 1, 0])


def test_a_directed_graphml_says_so_to_the_model(tmp_path):
    graph = networkx.DiGraph([("a", "b"), ("b", "c")])
    for node in graph:
        graph.nodes[node]["size"] = 1.0
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    read = read_graphml(tmp_path / "g.graphml")
    assert read.schema.directed
    assert read.graph.num_directed_edges == 2
    read = from_networkx(graph.to_undirected(), TableSchema(directed=True))
    assert read.graph.num_directed_edges == 4
    assert "graph: its edges have no direction, so both ends hear each other." in read.notes
    with pytest.raises(InvalidInput, match="leave out --id, --source and --target"):
        from_networkx(graph, TableSchema(id="size"))


def test_edges_may_be_added_without_nodes(own):
    encoding, _ = find_encoding(NODES, ["size", "text"], words=["text"])
    more = Table("more", ("source", "target"), [["a"], ["d"]])
    read = extend(own, more, None, TableSchema(label="kind", id="id"), encoding)
    assert read.graph.num_nodes == 4
    assert read.graph.num_directed_edges == own.num_directed_edges + 2
    assert read.notes == []


def test_large_numbers_of_parquet_stay_apart(tmp_path):
    large = np.array([2**63 + 1, 2**63 + 3], dtype=np.uint64)
    write_parquet(tmp_path / "n.parquet", Table("n", ("id", "day"), [large, ["2020-01-01", ""]]))
    table = read_parquet(tmp_path / "n.parquet")
    assert table.texts(0) == ["9223372036854775809", "9223372036854775811"]


def test_a_date_that_python_does_not_know_is_told_in_words(tmp_path):
    days = pyarrow.array([-(10**12)]).cast(pyarrow.timestamp("s"))
    parquet.write_table(pyarrow.table({"id": ["a"], "day": days}), tmp_path / "n.parquet")
    with pytest.raises(InvalidInput, match="column 'day' must hold text or numbers, but holds others"):
        read_parquet(tmp_path / "n.parquet")
