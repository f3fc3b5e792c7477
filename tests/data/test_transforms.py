import numpy as np
import pytest
from scipy import sparse

from apgcn import Graph, clean
from apgcn.data import CATALOGUE
from apgcn.data.transforms import largest_component, normalize_features, undirected, without_self_loops


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "cora"])
def test_cleaning_gives_the_counts_of_table_1(benchmark_graph, name):
    graph, line = benchmark_graph(name), CATALOGUE[name]
    assert (graph.num_nodes, graph.num_directed_edges, graph.num_features, graph.num_classes) == (
        line.nodes,
        2 * line.edges,
        line.features,
        line.classes,
    )


def test_the_embedded_graph_has_the_counts_of_the_catalogue(cora):
    line = CATALOGUE["cora"]
    assert (cora.num_nodes, cora.num_directed_edges, cora.num_features) == (line.nodes, 2 * line.edges, line.features)
    assert cora.num_classes == len(cora.class_names) == line.classes


def messy() -> Graph:
    """Nodes 1, 3, 4, 5 are connected, by a path with one-way and weighted edges; 0 and 2 form a pair; 3 has a loop."""
    edges = [(1, 3, 2.0), (3, 4, 1.0), (4, 3, 5.0), (5, 4, 1.0), (3, 3, 1.0), (0, 2, 1.0)]
    rows, columns, weights = zip(*edges, strict=True)
    return Graph(
        adjacency=sparse.csr_matrix((weights, (rows, columns)), shape=(6, 6)),
        features=[[1, 0], [1, 3], [2, 2], [0, 0], [-1, 1], [5, 0]],
        labels=[0, 1, 0, 1, 0, 1],
        node_names=list("abcdef"),
    )


def test_a_messy_graph_worked_by_hand():
    graph = clean(messy())
    assert graph.node_names == ("b", "d", "e", "f")
    path = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency.toarray(), path)
    np.testing.assert_allclose(graph.features, [[0.25, 0.75], [0, 0], [-0.5, 0.5], [1, 0]])
    np.testing.assert_array_equal(graph.labels, [1, 1, 0, 1])


def test_cleaning_twice_changes_nothing():
    once = clean(messy())
    twice = clean(once)
    assert (once.adjacency != twice.adjacency).nnz == 0
    np.testing.assert_allclose(once.features, twice.features)


def test_sparse_and_dense_features_are_normalised_alike():
    graph = messy()
    thin = Graph(graph.adjacency, features=sparse.csr_matrix(graph.features), labels=graph.labels)
    np.testing.assert_allclose(normalize_features(thin).features.toarray(), normalize_features(graph).features)


def test_single_steps_leave_the_rest_alone():
    graph = messy()
    assert undirected(graph).adjacency[3, 4] == undirected(graph).adjacency[4, 3] == 5
    assert without_self_loops(graph).num_directed_edges == graph.num_directed_edges - 1
    assert largest_component(graph).adjacency[1, 1] == 1  # node 3's loop is still there
