"""Structural features, against networkx, dense matrix powers and closed forms."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from apgcn.data import structure
from apgcn.data.structure import (
    STRUCTURE_KINDS,
    compute_structure,
    count_triangles,
    random_walk_features,
    structural_features,
)
from apgcn.errors import InvalidInput, UnknownName

KINDS = tuple(STRUCTURE_KINDS)
GRAPHS = {
    "karate club": nx.karate_club_graph(),
    "hubs": nx.barabasi_albert_graph(400, 5, seed=1),
    "communities": nx.planted_partition_graph(6, 30, 0.4, 0.02, seed=2),
    "three components and isolated nodes": nx.disjoint_union_all(
        [nx.complete_graph(5), nx.path_graph(4), nx.star_graph(6), nx.empty_graph(3)]
    ),
    "no edges": nx.empty_graph(4),
    "one node": nx.empty_graph(1),
    "one edge": nx.path_graph(2),
    "triangle": nx.complete_graph(3),
}


def adjacency_of(graph: nx.Graph) -> sparse.csr_matrix:
    return sparse.csr_matrix(nx.to_scipy_sparse_array(graph, weight=None, dtype=float))


@pytest.mark.parametrize("name", GRAPHS)
def test_degree_features_are_those_of_networkx(name):
    graph = GRAPHS[name]
    names, values = compute_structure(adjacency_of(graph), ["degree"])
    by_name = dict(zip(names, values.T, strict=True))
    neighbour_degrees = nx.average_neighbor_degree(graph)
    np.testing.assert_allclose(np.expm1(by_name["log degree"]), [degree for _, degree in graph.degree])
    np.testing.assert_allclose(
        np.expm1(by_name["log mean degree of neighbours"]), [neighbour_degrees[node] for node in graph]
    )
    np.testing.assert_allclose(by_name["clustering coefficient"], list(nx.clustering(graph).values()))
    assert by_name["isolated"].sum() == nx.number_of_isolates(graph)


@pytest.mark.parametrize("max_paths", [1, 7, 10**6])
def test_triangles_do_not_depend_on_how_the_paths_are_divided(monkeypatch, max_paths):
    monkeypatch.setattr(structure, "MAX_PATHS", max_paths)
    graph = GRAPHS["hubs"]
    assert count_triangles(adjacency_of(graph)).tolist() == list(nx.triangles(graph).values())


@pytest.mark.parametrize(("name", "average"), [("minesweeper", 0.44), ("tolokers", 0.53)])
def test_the_average_clustering_coefficient_is_the_published_one(benchmark_graph, name, average):
    """Platonov et al., README of their repository."""
    _, values = compute_structure(benchmark_graph(name).adjacency, ["degree"])
    assert values[:, 2].mean() == pytest.approx(average, abs=0.005)


@pytest.mark.parametrize("name", GRAPHS)
def test_return_probabilities_are_the_diagonals_of_powers_of_the_random_walk(name):
    adjacency = adjacency_of(GRAPHS[name])
    _, values = random_walk_features(adjacency)
    degree = np.maximum(adjacency.sum(axis=1).A1, 1)
    walk = adjacency.toarray() / degree[:, None]
    expected = [np.diag(np.linalg.matrix_power(walk, steps)) for steps in range(2, 17, 2)]
    np.testing.assert_allclose(values, np.transpose(expected), atol=1e-12)


def test_weights_count_in_random_walks():
    """A walk from the middle of a path goes right three times as often as left."""
    path = sparse.csr_matrix([[0, 1, 0], [1, 0, 3], [0, 3, 0]])
    _, values = compute_structure(path, ["random_walk"])
    np.testing.assert_allclose(values[:, 0], [0.25, 1.0, 0.75])


def test_the_sketch_estimates_return_probabilities_within_its_standard_error(monkeypatch):
    adjacency = adjacency_of(GRAPHS["hubs"])
    _, exact = random_walk_features(adjacency)
    monkeypatch.setattr(structure, "EXACT_OPERATIONS", 0)
    _, sketch = random_walk_features(adjacency)
    relative = sketch / exact - 1
    assert np.sqrt((relative**2).mean(axis=0)).max() < 1.2 * np.sqrt(2 / structure.SKETCH_VECTORS)
    np.testing.assert_array_equal(random_walk_features(adjacency)[1], sketch)


@pytest.mark.parametrize("name", GRAPHS)
def test_features_are_finite_standardised_and_reproducible(name):
    adjacency = adjacency_of(GRAPHS[name])
    features = structural_features(adjacency, KINDS)
    assert features.dtype == np.float32
    assert features.shape[0] == adjacency.shape[0]
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)
    stds = features.std(axis=0)
    assert all(std == pytest.approx(1, abs=1e-4) or std == pytest.approx(0, abs=1e-6) for std in stds)
    np.testing.assert_array_equal(structural_features(adjacency, KINDS), features)


def test_features_of_a_node_do_not_depend_on_the_order_of_the_nodes():
    adjacency = adjacency_of(GRAPHS["hubs"])
    order = np.random.default_rng(0).permutation(adjacency.shape[0])
    kinds = ["degree", "random_walk"]
    np.testing.assert_allclose(
        structural_features(adjacency[order][:, order], kinds), structural_features(adjacency, kinds)[order], atol=1e-4
    )


def test_direction_and_self_loops_change_nothing():
    adjacency = adjacency_of(GRAPHS["communities"])
    directed = sparse.csr_matrix(sparse.triu(adjacency) + sparse.identity(adjacency.shape[0]))
    for kind in KINDS:
        np.testing.assert_array_equal(
            structural_features(directed, [kind]), structural_features(adjacency, [kind]), err_msg=kind
        )


def test_an_unknown_kind_is_refused_and_so_is_none():
    with pytest.raises(UnknownName, match="unknown kind of structural features 'degrees'; did you mean 'degree'"):
        structural_features(sparse.csr_matrix((2, 2)), ["degrees"])
    with pytest.raises(InvalidInput, match="at least one kind of structural features: degree, random_walk, spectral"):
        structural_features(sparse.csr_matrix((2, 2)), [])
