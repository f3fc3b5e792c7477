"""Features of the edges in every reader, with a model and without: the same for the same graph, refused where wrong."""

import json

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from apgcn import Graph
from apgcn.data import structural_features, write_npz
from apgcn.errors import InvalidInput, UnknownName
from apgcn.io.graph_builder import build_graph, extend_graph
from apgcn.io.graphml import read_graphml
from apgcn.io.networkx import from_networkx
from apgcn.io.registry import read_graph
from apgcn.io.schema import TableSchema
from apgcn.io.scipy import from_scipy
from apgcn.io.structure_encoding import StructureEncoding, add_structure, parse_structure
from apgcn.io.tables import Table

KINDS = ("degree", "random_walk", "spectral")
CLUB = nx.karate_club_graph()
ADJACENCY = sparse.csr_matrix(nx.to_scipy_sparse_array(CLUB, dtype=float))  # weighted
LABEL = TableSchema(label="club")
EDGE_ROWS = [(str(first), str(second)) for first, second in CLUB.edges]


def tables(edge_rows=EDGE_ROWS, nodes=range(34), **columns) -> tuple[Table, Table]:
    """The club as an edge table and a node table, which has these columns besides the label."""
    edges = Table("edges", ("source", "target"), list(map(list, zip(*edge_rows, strict=True))))
    cells = [[str(node) for node in nodes], [CLUB.nodes[node]["club"] for node in nodes]]
    return edges, Table("nodes", ("id", "club", *columns), [*cells, *columns.values()])


def test_a_graph_without_features_gets_all_kinds_from_every_reader(tmp_path):
    labels = [int(club == "Officer") for _, club in CLUB.nodes(data="club")]
    without = Graph(ADJACENCY, np.zeros((34, 0)), labels=labels)
    write_npz(tmp_path / "club.npz", without)
    nx.write_graphml(CLUB, tmp_path / "club.graphml")
    expected = structural_features(ADJACENCY, KINDS)
    for loaded in (
        from_networkx(CLUB, LABEL),
        read_graphml(tmp_path / "club.graphml", LABEL),
        read_graph(tmp_path / "club.npz"),
        from_scipy(ADJACENCY),
    ):
        np.testing.assert_allclose(loaded.graph.features, expected, atol=1e-6)
        assert loaded.structure.kinds == KINDS
        assert ": 28 features computed from the edges: degree, random_walk, spectral; there" in loaded.notes[-1]
    unweighted = build_graph(*tables(), LABEL, name="graph").graph.features
    np.testing.assert_allclose(unweighted, structural_features(ADJACENCY.sign(), KINDS), atol=1e-6)


def test_a_pyg_graph_without_x_gets_features_of_its_edges():
    data_module = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    from apgcn.io.pyg import from_pyg

    coo = ADJACENCY.tocoo()
    edge_index = torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64))
    weights = torch.as_tensor(coo.data)
    for size in ({"num_nodes": 34}, {"y": torch.zeros(34, dtype=torch.int64)}):
        data = data_module.Data(edge_index=edge_index, edge_weight=weights, **size)
        np.testing.assert_allclose(from_pyg(data).graph.features, structural_features(ADJACENCY, KINDS), atol=1e-6)
    with pytest.raises(InvalidInput, match="a Data must have x, y or num_nodes"):
        from_pyg(data_module.Data(edge_index=edge_index))
    with pytest.raises(InvalidInput, match="num_nodes must be >= 1, got -34"):
        from_pyg(data_module.Data(edge_index=edge_index, num_nodes=-34))


def test_columns_keep_their_place_and_are_alone_by_default():
    sizes = [str(node % 5 + 1) for node in CLUB]
    alone = build_graph(*tables(size=sizes), LABEL, name="graph")
    both = build_graph(*tables(size=sizes), LABEL, name="graph", structure=["degree"])
    assert alone.structure is None
    assert alone.graph.num_features == 1
    np.testing.assert_array_equal(both.graph.features[:, :1], alone.graph.features)
    np.testing.assert_array_equal(both.graph.features[:, 1:], structural_features(both.graph.adjacency, ["degree"]))
    assert "nodes" not in both.notes[-1]
    assert both.notes[-1] == "graph: 4 features computed from the edges: degree."


def test_sparse_features_stay_sparse():
    graph = Graph(ADJACENCY, sparse.identity(34, format="csr"))
    features = add_structure(graph, ["random_walk"])[0].features
    assert sparse.issparse(features)
    np.testing.assert_allclose(features[:, 34:].toarray(), structural_features(ADJACENCY, ["random_walk"]), atol=1e-6)


def test_another_graph_gets_the_features_and_the_standardisation_of_the_model():
    """A subgraph of the club; its values are those before standardisation, by the club's mean and deviation."""
    loaded = from_networkx(CLUB, LABEL, structure=["degree", "random_walk"])
    other = CLUB.subgraph(range(12)).copy()
    again = from_networkx(
        other, LABEL, encoding=loaded.encoding, class_names=loaded.graph.class_names, structure=loaded.structure
    )
    degree = np.log1p([degree for _, degree in CLUB.degree])
    expected = (np.log1p([degree for _, degree in other.degree]) - degree.mean()) / degree.std()
    np.testing.assert_allclose(again.graph.features[:, 0], expected, rtol=1e-5)
    assert again.structure == loaded.structure
    unchanged = loaded.structure.encode(loaded.graph.adjacency)
    np.testing.assert_array_equal(unchanged, loaded.graph.features)


@pytest.mark.parametrize("columns", [{}, {"size": [str(node) for node in CLUB]}], ids=["no columns", "a column"])
def test_adding_nodes_gives_the_graph_of_all_rows(columns):
    kinds = ["degree", "random_walk"]
    start_rows = [row for row in EDGE_ROWS if max(map(int, row)) < 30]
    first = {name: cells[:30] for name, cells in columns.items()}
    start = build_graph(*tables(start_rows, range(30), **first), LABEL, name="graph", structure=kinds)
    rest = {name: cells[30:] for name, cells in columns.items()}
    edges, nodes = tables([row for row in EDGE_ROWS if row not in start_rows], range(30, 34), **rest)
    extended = extend_graph(start.graph, edges, nodes, start.schema, start.encoding, start.structure).graph
    options = {"encoding": start.encoding, "class_names": start.graph.class_names, "structure": start.structure}
    at_once = build_graph(*tables(**columns), LABEL, name="graph", **options).graph
    np.testing.assert_allclose(extended.features, at_once.features, atol=1e-6)
    assert (extended.adjacency != at_once.adjacency).nnz == 0


def test_eigenvectors_of_another_graph_are_refused():
    loaded = from_networkx(CLUB, LABEL)
    with pytest.raises(InvalidInput, match="fit with --structure degree,random_walk"):
        from_networkx(CLUB, LABEL, encoding=loaded.encoding, structure=loaded.structure)
    edges = tables([("0", "33")])[0]
    with pytest.raises(InvalidInput, match="trained on eigenvectors of its graph"):
        extend_graph(loaded.graph, edges, None, TableSchema(), loaded.encoding, loaded.structure)


def test_without_structure_a_graph_stays_without_features():
    with pytest.raises(InvalidInput, match="must have at least one feature column"):
        from_networkx(CLUB, LABEL, structure="none")
    assert from_scipy(ADJACENCY, structure="none").graph.num_features == 0


def test_an_encoding_is_restored_from_its_json():
    encoding, features = StructureEncoding.fit(ADJACENCY, ["random_walk", "degree"])
    restored = StructureEncoding.from_json(json.loads(json.dumps(encoding.as_json())))
    assert restored == encoding
    np.testing.assert_array_equal(restored.encode(ADJACENCY), features)


@pytest.mark.parametrize(
    "changes",
    [{"kinds": []}, {"kinds": ["size"]}, {"scale": [0.0] * 4}, {"center": [1.0]}, {"center": [float("inf")] * 4}],
    ids=str,
)
def test_an_altered_encoding_is_refused(changes):
    encoding, _ = StructureEncoding.fit(ADJACENCY, ["degree"])
    with pytest.raises((InvalidInput, UnknownName)):
        StructureEncoding.from_json({**encoding.as_json(), **changes})


def test_the_option_is_auto_none_or_known_kinds():
    assert parse_structure("none") == "none"
    assert parse_structure(" random_walk,degree,random_walk") == ["random_walk", "degree"]
    with pytest.raises(UnknownName, match="unknown kind of structural features 'spectrla'; did you mean 'spectral'"):
        parse_structure("degree,spectrla")
    with pytest.raises(InvalidInput, match="at least one kind"):
        parse_structure(",")


def test_a_graph_of_one_node_has_finite_features():
    graph, encoding, _ = add_structure(Graph(np.zeros((1, 1)), np.zeros((1, 0))), "auto")
    assert graph.num_features == len(encoding.feature_names) == 12
    assert np.isfinite(graph.features).all()
