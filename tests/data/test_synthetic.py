import numpy as np
import pytest

from apgcn.data.homophily import edge_homophily
from apgcn.data.synthetic import two_block_graph
from apgcn.errors import InvalidInput


@pytest.mark.parametrize("homophily", [0.0, 0.15, 0.5, 1.0])
def test_a_two_block_graph_has_the_homophily_the_degree_and_the_class_means_of_its_arguments(homophily):
    graph = two_block_graph(homophily=homophily)
    assert graph.num_nodes == 2000
    assert np.bincount(graph.labels).tolist() == [1000, 1000]
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert graph.adjacency.diagonal().sum() == 0
    assert graph.num_directed_edges / graph.num_nodes == pytest.approx(10, rel=0.02)
    assert edge_homophily(graph) == pytest.approx(homophily, abs=0.02)
    signs = 2 * graph.labels[:, None] - 1
    np.testing.assert_allclose((signs * graph.features).mean(0), 0.35, atol=0.1)  # four standard errors
    np.testing.assert_allclose((signs * graph.features).std(0), 1, atol=0.1)


def test_the_seed_determines_a_two_block_graph():
    first, again, other = (two_block_graph(100, degree=4, seed=seed) for seed in (0, 0, 1))
    assert (first.adjacency != again.adjacency).nnz == 0
    np.testing.assert_array_equal(first.features, again.features)
    assert (first.adjacency != other.adjacency).nnz > 0


def test_a_two_block_graph_of_impossible_homophily_is_refused():
    with pytest.raises(InvalidInput, match=r"homophily must be from 0 to 1, got 1\.5"):
        two_block_graph(homophily=1.5)
