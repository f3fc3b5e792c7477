"""Eigenvectors of the normalised Laplacian, against dense decompositions and closed forms."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from apgcn.data import spectrum
from apgcn.data.spectrum import MAX_EIGENVECTORS, leading_eigenvectors, normalized_adjacency


def adjacency_of(graph: nx.Graph) -> sparse.csr_matrix:
    return sparse.csr_matrix(nx.to_scipy_sparse_array(graph, weight=None, dtype=float))


def laplacian_residual(adjacency: sparse.csr_matrix) -> float:
    """The largest entry of L v - lambda v over the eigenvectors."""
    values, vectors = leading_eigenvectors(adjacency)
    return float(np.abs(vectors - normalized_adjacency(adjacency) @ vectors - vectors * values).max())


TWO_GRIDS = nx.disjoint_union_all(
    [nx.grid_2d_graph(20, 30), nx.grid_2d_graph(7, 11), nx.path_graph(2), nx.empty_graph(5)]
)


@pytest.mark.parametrize("dense_nodes", [0, 10**6])
@pytest.mark.parametrize(
    "graph", [nx.barabasi_albert_graph(300, 2, seed=0), TWO_GRIDS], ids=["connected", "components"]
)
def test_eigenvalues_are_the_smallest_but_those_of_components(monkeypatch, graph, dense_nodes):
    monkeypatch.setattr(spectrum, "DENSE_NODES", dense_nodes)
    adjacency = adjacency_of(graph)
    with_edges = graph.subgraph([node for node, degree in graph.degree if degree])
    eigenvalues = nx.normalized_laplacian_spectrum(with_edges)
    components = nx.number_connected_components(with_edges)
    values, vectors = leading_eigenvectors(adjacency)
    np.testing.assert_allclose(values, np.sort(eigenvalues)[components : components + MAX_EIGENVECTORS], atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(MAX_EIGENVECTORS), atol=1e-6)
    assert laplacian_residual(adjacency) < 1e-5
    assert not vectors[[node for node, (_, degree) in enumerate(graph.degree) if not degree]].any()


def test_the_first_eigenvector_of_a_path_is_the_cosine():
    nodes = 50
    values, vectors = leading_eigenvectors(adjacency_of(nx.path_graph(nodes)))
    cosine = np.cos(np.pi * np.arange(nodes) / (nodes - 1))  # of the random walk; times the root of the degree
    expected = cosine * np.sqrt([1, *[2] * (nodes - 2), 1])
    assert values[0] == pytest.approx(1 - np.cos(np.pi / (nodes - 1)))
    np.testing.assert_allclose(np.abs(vectors[:, 0]), np.abs(expected) / np.linalg.norm(expected), atol=1e-9)


@pytest.mark.parametrize(
    ("graph", "count"),
    [
        (nx.empty_graph(1), 0),
        (nx.empty_graph(9), 0),
        (nx.path_graph(2), 0),
        (nx.path_graph(3), 1),
        (nx.complete_graph(4), 2),
        (nx.disjoint_union(nx.path_graph(2), nx.empty_graph(3)), 1),
        (nx.disjoint_union_all([nx.path_graph(2)] * 5), 5),
        (nx.path_graph(100), 16),
    ],
    ids=str,
)
def test_the_number_of_eigenvectors(graph, count):
    _, vectors = leading_eigenvectors(adjacency_of(graph))
    assert vectors.shape == (len(graph), count)
    assert np.isfinite(vectors).all()


def test_the_largest_entry_of_an_eigenvector_is_positive():
    _, vectors = leading_eigenvectors(adjacency_of(nx.barabasi_albert_graph(300, 2, seed=0)))
    assert (vectors.max(axis=0) >= (1 - 1e-6) * np.abs(vectors).max(axis=0)).all()


def test_without_convergence_block_power_iteration_finds_smooth_vectors(monkeypatch):
    """On a path of many nodes the eigenvalues are too close; what is found changes slowly along it."""
    monkeypatch.setattr(spectrum, "LANCZOS_RESTARTS", 1)
    adjacency = adjacency_of(nx.path_graph(1000))
    values, vectors = leading_eigenvectors(adjacency)
    assert vectors.shape == (1000, MAX_EIGENVECTORS)
    assert values.max() < 0.05
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(MAX_EIGENVECTORS), atol=1e-9)
    np.testing.assert_array_equal(leading_eigenvectors(adjacency)[1], vectors)
