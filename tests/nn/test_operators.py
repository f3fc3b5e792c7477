import numpy as np
import pytest
import torch
from helpers.graphs import random_graph
from scipy import sparse

from apgcn import Graph
from apgcn.errors import InvalidInput
from apgcn.nn.operators import (
    ARMA,
    OPERATORS,
    Chebyshev,
    NormalizedAdjacency,
    PageRank,
    matrices_with_dropout,
    step_matrices,
)
from apgcn.nn.propagation import FixedPropagation, propagate
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.rng import RandomStream


def dense(matrix) -> torch.Tensor:
    """The matrices of all runs, dense."""
    identity = torch.eye(matrix.structure.shape[1])[None].expand(len(torch.atleast_2d(matrix.values)), -1, -1)
    return matrix @ identity.contiguous()


@pytest.fixture
def graph() -> DeviceGraph:
    return DeviceGraph.from_graph(random_graph(12, edges=20))


@pytest.fixture
def edges(graph):
    """(sources, targets) for PyTorch Geometric, without self-loops."""
    structure = graph.adjacency.structure
    between = structure.row != structure.col
    return torch.stack([structure.col[between], structure.row[between]])


def test_normalisation_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import to_dense_adj

    index, weight = gcn_norm(edges, num_nodes=12)
    expected = to_dense_adj(index, edge_attr=weight, max_num_nodes=12)[0].T
    torch.testing.assert_close(dense(graph.adjacency.normalized)[0], expected)


def test_a_directed_edge_propagates_to_its_target_only():
    directed = Adjacency(sparse.csr_matrix([[0.0, 1.0], [0.0, 0.0]]), device="cpu", dtype=torch.float32)
    # node 1 receives from itself and from node 0: row sums 1 and 2
    torch.testing.assert_close(dense(directed.normalized)[0], torch.tensor([[1.0, 0.0], [0.5**0.5, 0.5]]))


def test_edge_weights_are_normalised():
    weighted = Adjacency(sparse.csr_matrix([[0.0, 3.0], [3.0, 0.0]]), device="cpu", dtype=torch.float32)
    torch.testing.assert_close(dense(weighted.normalized)[0], torch.tensor([[0.25, 0.75], [0.75, 0.25]]))


def test_fixed_pagerank_steps_agree_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import APPNP

    z0 = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0))
    ours = FixedPropagation(PageRank(teleport=0.1), steps=7)(z0, graph.adjacency)
    theirs = APPNP(K=7, alpha=0.1)
    torch.testing.assert_close(ours.output, torch.stack([theirs(run, edges) for run in z0]))
    assert (ours.steps == 7).all()


def test_many_pagerank_steps_converge_to_the_closed_form(graph):
    """teleport (I - (1 - teleport) A)^-1 z^0."""
    z0 = torch.randn(1, 12, 3, generator=torch.Generator().manual_seed(0))
    ours = FixedPropagation(PageRank(teleport=0.2), steps=200)(z0, graph.adjacency)
    matrix = torch.eye(12) - 0.8 * dense(graph.adjacency.normalized)[0]
    torch.testing.assert_close(ours.output[0], 0.2 * torch.linalg.solve(matrix, z0[0]))


def test_edge_dropout_draws_a_new_mask_at_every_step_from_the_unchanged_graph(graph):
    """Each directed edge is kept in about half of the steps; cumulative dropout would soon leave none."""
    steps, rng = 400, RandomStream([1, 2])
    edges = dense(graph.adjacency.normalized)[0] > 0
    kept = torch.stack([dense(matrix) > 0 for matrix in step_matrices(graph.adjacency, 0.5, steps=steps, rng=rng)])
    assert not (kept & ~edges).any()
    fraction = kept.float().mean(0)[:, edges & ~torch.eye(12, dtype=torch.bool)]  # (runs, edges)
    assert ((fraction - 0.5).abs() < 5 * 0.5 / steps**0.5).all()
    assert (kept.diagonal(dim1=-2, dim2=-1)).all()  # self-loops are never dropped
    assert not torch.equal(kept[:, 0], kept[:, 1])  # each run has its own random stream


def test_the_edges_left_by_dropout_are_normalised_again(graph):
    rng = RandomStream([3])
    for matrix in step_matrices(graph.adjacency, 0.5, steps=5, rng=rng):
        kept = (dense(matrix)[0] > 0).float()
        scale = kept.sum(1).rsqrt()
        torch.testing.assert_close(dense(matrix)[0], scale[:, None] * kept * scale)


def test_edge_dropout_is_drawn_for_each_direction(graph):
    (matrix,) = step_matrices(graph.adjacency, 0.5, steps=1, rng=RandomStream([3]))
    kept = dense(matrix)[0] > 0
    assert not torch.equal(kept, kept.T)


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("training", [False, True])
def test_every_operator_keeps_runs_apart(graph, make, training):
    z0 = torch.randn(3, 12, 2, generator=torch.Generator().manual_seed(0))
    all_runs, one_run = make(2, RandomStream([7, 8, 9])), make(2, RandomStream([8]))
    together = FixedPropagation(all_runs, steps=4)(z0, graph.adjacency, RandomStream([7, 8, 9]) if training else None)
    alone = FixedPropagation(one_run, steps=4)(z0[1:2], graph.adjacency, RandomStream([8]) if training else None)
    torch.testing.assert_close(together.output[1:2], alone.output)


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_every_operator_is_permutation_equivariant(make):
    operator = make(2, RandomStream([1]))
    graph = random_graph(12, edges=20)
    order = np.random.default_rng(0).permutation(12)
    permuted = Adjacency(graph.adjacency[order][:, order], device="cpu", dtype=torch.float32)
    z0 = torch.randn(1, 12, 2, generator=torch.Generator().manual_seed(0))
    output = FixedPropagation(operator, steps=4)(z0, DeviceGraph.from_graph(graph).adjacency).output
    permuted_output = FixedPropagation(operator, steps=4)(z0[:, order], permuted).output
    torch.testing.assert_close(output[:, order], permuted_output)


@pytest.mark.parametrize("remove_self_loops", [False, True])
def test_matrix_dropout_draws_a_new_mask_at_every_step_from_the_unchanged_matrix(graph, remove_self_loops):
    """As PyTorch Geometric's APPNP does not (its issue 10783): there, an edge dropped in one step stays dropped."""
    adjacency = graph.adjacency
    matrix = adjacency.normalized_without_self_loops if remove_self_loops else adjacency.normalized
    steps = 400
    dropped = matrices_with_dropout(matrix, 0.5, steps=steps, rng=RandomStream([1, 2]))
    values = torch.stack([step_matrix.values for step_matrix in dropped])  # (steps, runs, nnz)
    kept = values != 0
    torch.testing.assert_close(values[kept], (2 * matrix.values).expand_as(values)[kept])
    fraction = kept.float().mean(0)[:, matrix.values != 0]
    assert ((fraction - 0.5).abs() < 5 * 0.5 / steps**0.5).all()


def test_normalisation_without_self_loops_agrees_with_pytorch_geometric():
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import to_dense_adj

    graph = random_graph(12, edges=6)
    edges = torch.tensor(np.array(graph.adjacency.nonzero()), dtype=torch.int64)
    index, weight = gcn_norm(edges, num_nodes=12, add_self_loops=False)
    expected = to_dense_adj(index, edge_attr=weight, max_num_nodes=12)[0].T
    torch.testing.assert_close(
        dense(DeviceGraph.from_graph(graph).adjacency.normalized_without_self_loops)[0], expected
    )
    assert (expected.sum(1) == 0).any()  # it has an isolated node


def test_chebyshev_steps_are_the_chebyshev_polynomials(graph):
    """T_0 to T_4 as explicit polynomials of the Laplacian minus the identity."""
    z0 = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0))
    x = -dense(graph.adjacency.normalized_without_self_loops)[0]
    identity = torch.eye(12)
    polynomials = [
        identity,
        x,
        2 * x @ x - identity,
        4 * x @ x @ x - 3 * x,
        8 * x @ x @ x @ x - 8 * x @ x + identity,
    ]
    for z, polynomial in zip(propagate(Chebyshev(), z0, graph.adjacency, steps=4, rng=None), polynomials, strict=True):
        torch.testing.assert_close(z, polynomial @ z0)


def test_an_arma_operator_with_identity_weights_is_pagerank_without_self_loops(graph):
    z0 = torch.randn(1, 12, 3, generator=torch.Generator().manual_seed(0))
    for channels in (2, 3, 15):  # nearly so initially
        initial = ARMA(channels=channels, rng=RandomStream([1]))
        torch.testing.assert_close(initial.w.softmax(1).diagonal(dim1=1, dim2=2), torch.full((1, channels), 0.99))
    operator = ARMA(channels=3, rng=RandomStream([1]), teleport=0.2)
    operator.w.data, operator.v.data = 100 * torch.eye(3)[None], 100 * torch.eye(3)[None]
    output = FixedPropagation(operator, steps=200)(z0, graph.adjacency).output[0]
    matrix = torch.eye(12) - 0.8 * dense(graph.adjacency.normalized_without_self_loops)[0]
    torch.testing.assert_close(output, 0.2 * torch.linalg.solve(matrix, z0[0]))


def test_an_arma_operator_mixes_channels_by_its_weights(graph):
    z0 = torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0))
    operator = ARMA(channels=3, rng=RandomStream([1, 2]), teleport=0.2)
    operator.w.data, operator.v.data = torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(1)).unbind()
    w, v = (weight.exp() / weight.exp().sum(1, keepdim=True) for weight in (operator.w, operator.v))
    m = dense(graph.adjacency.normalized_without_self_loops)[0]
    first_step = 0.8 * m @ z0 @ w + 0.2 * z0 @ v
    expected = 0.8 * m @ first_step @ w + 0.2 * z0 @ v
    torch.testing.assert_close(FixedPropagation(operator, steps=2)(z0, graph.adjacency).output, expected)


def test_an_arma_operator_stays_in_the_range_of_the_initial_prediction():
    """With any weights: on a graph where M averages, no step leaves the range of z^0."""
    z0 = torch.rand(1, 12, 3, generator=torch.Generator().manual_seed(0))
    ring = sparse.csr_matrix(np.roll(np.eye(12), 1, axis=0) + np.roll(np.eye(12), -1, axis=0))
    adjacency = DeviceGraph.from_graph(Graph(ring, features=np.ones((12, 1)), labels=np.arange(12) % 2)).adjacency
    operator = ARMA(channels=3, rng=RandomStream([1]))
    operator.w.data = 10 * torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1))
    output = FixedPropagation(operator, steps=1000)(z0, adjacency).output
    assert z0.min() - 1e-5 <= output.min()
    assert output.max() <= z0.max() + 1e-5


def test_invalid_rates_of_operators_are_rejected():
    with pytest.raises(InvalidInput, match=r"teleport must be in \[0, 1\), got -3"):
        PageRank(teleport=-3)
    with pytest.raises(InvalidInput, match=r"edge_dropout must be in \[0, 1\), got 1"):
        NormalizedAdjacency(edge_dropout=1)


def test_an_isolated_node_keeps_its_own_prediction():
    isolated = Adjacency(sparse.csr_matrix((1, 1), dtype=np.float32), device="cpu", dtype=torch.float32)
    z0 = torch.tensor([[[1.0, 2.0]]])
    for rng in (None, RandomStream([1])):
        output = FixedPropagation(NormalizedAdjacency(), steps=3)(z0, isolated, rng).output
        torch.testing.assert_close(output, z0)


def test_a_node_without_in_neighbours_still_propagates_to_its_out_neighbours():
    """Directed: 1 and 2 receive from 0, whose row sum without self-loops is 0, which must not make its weight 0."""
    edges = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    graph = DeviceGraph.from_graph(Graph(edges, features=np.eye(3), labels=np.array([0, 1, 0])))
    expected = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(graph.adjacency.normalized_without_self_loops.to_dense(), expected)


@pytest.mark.parametrize("channels", [0, -1, 1.5, True, None, "a"])
def test_invalid_channels_are_rejected(channels):
    with pytest.raises(InvalidInput, match="channels must be "):
        ARMA(channels=channels, rng=RandomStream([1]))
