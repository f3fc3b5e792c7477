"""The preprocessing of the benchmark and its steps."""

import numpy as np
import pytest
from scipy import sparse

from apgcn import Graph, clean
from apgcn.data import DATASETS
from apgcn.data.transforms import largest_connected_component, normalize_features, remove_self_loops, to_undirected


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "cora"])
def test_clean_gives_the_counts_of_table_1(benchmark_graph, name):
    graph, dataset = benchmark_graph(name), DATASETS[name]
    assert (graph.num_nodes, graph.num_directed_edges, graph.num_features, graph.num_classes) == (
        dataset.nodes,
        2 * dataset.edges,
        dataset.features,
        dataset.classes,
    )


def test_the_embedded_graph_has_the_counts_of_the_registry(cora):
    dataset = DATASETS["cora"]
    counts = (dataset.nodes, 2 * dataset.edges, dataset.features)
    assert (cora.num_nodes, cora.num_directed_edges, cora.num_features) == counts
    assert cora.num_classes == len(cora.class_names) == dataset.classes


def raw_graph() -> Graph:
    """Nodes 1, 3, 4, 5 form a path with directed and weighted edges; 0 and 2 form a pair; 3 has a self-loop."""
    edges = [(1, 3, 2.0), (3, 4, 1.0), (4, 3, 5.0), (5, 4, 1.0), (3, 3, 1.0), (0, 2, 1.0)]
    rows, columns, weights = zip(*edges, strict=True)
    return Graph(
        adjacency=sparse.csr_matrix((weights, (rows, columns)), shape=(6, 6)),
        features=[[1, 0], [1, 3], [2, 2], [0, 0], [-1, 1], [5, 0]],
        labels=[0, 1, 0, 1, 0, 1],
        node_names=list("abcdef"),
    )


def test_clean_of_a_small_graph_worked_by_hand():
    graph = clean(raw_graph())
    assert graph.node_names == ("b", "d", "e", "f")
    path = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency.toarray(), path)
    np.testing.assert_allclose(graph.features, [[0.25, 0.75], [0, 0], [-0.5, 0.5], [1, 0]])
    np.testing.assert_array_equal(graph.labels, [1, 1, 0, 1])


def test_clean_is_idempotent():
    once = clean(raw_graph())
    twice = clean(once)
    assert (once.adjacency != twice.adjacency).nnz == 0
    np.testing.assert_allclose(once.features, twice.features)


def test_sparse_and_dense_features_are_normalised_alike():
    graph = raw_graph()
    sparse_graph = Graph(graph.adjacency, features=sparse.csr_matrix(graph.features), labels=graph.labels)
    np.testing.assert_allclose(normalize_features(sparse_graph).features.toarray(), normalize_features(graph).features)


def test_each_transform_changes_nothing_else():
    graph = raw_graph()
    assert to_undirected(graph).adjacency[3, 4] == to_undirected(graph).adjacency[4, 3] == 5
    assert remove_self_loops(graph).num_directed_edges == graph.num_directed_edges - 1
    assert largest_connected_component(graph).adjacency[1, 1] == 1  # the self-loop of node 3 is kept
