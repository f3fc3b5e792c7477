"""Lazy propagation equals full propagation, and computes only states that nodes depend on before they halt."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.inference.lazy_propagation import LazyGraph, LazyModel, PropagationCost, _LazyPropagation, lazy_propagate
from apgcn.nn.operators import NormalizedAdjacency, PageRank
from apgcn.nn.propagation import AdaptivePropagation
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.kernels.autograd import HaltingParameters
from apgcn.ops.rng import RandomStream
from apgcn.ops.threads import kernel_threads

pytest.importorskip("numba")
from apgcn.ops.kernels.cpu import parallel

NODES, CHANNELS, STEPS = 60, 3, 8


def random_edges(seed):
    """Directed and weighted edges, a hub, and nodes without in-neighbours."""
    random = np.random.default_rng(seed)
    matrix = sparse.random(NODES, NODES, density=0.04, random_state=random, format="lil", dtype=np.float32)
    matrix[:, 2] = random.random((NODES, 1)) * (random.random((NODES, 1)) < 0.5)
    matrix[:, 5] = 0
    return matrix.tocsr()


class Example:
    """A propagation layer over a random graph, its output for all nodes, and the same layer as a `LazyModel`."""

    def __init__(self, seed, *, freeze, teleport=0.0):
        edges = random_edges(seed)
        operator = PageRank(teleport) if teleport else NormalizedAdjacency()
        self.graph = LazyGraph.from_adjacency(edges)
        layer = AdaptivePropagation(
            operator, channels=CHANNELS, rng=RandomStream([seed]), max_steps=STEPS, freeze_halted=freeze
        )
        layer.halting_unit.weight.data.abs_().add_(0.7)
        layer.halting_unit.bias.data.fill_(-1.5)
        z0 = 3 * torch.randn(1, NODES, CHANNELS, generator=torch.manual_seed(seed))
        with torch.no_grad(), reference_kernels():
            self.full = layer(z0, Adjacency(edges, device="cpu", dtype=torch.float32))
        self.steps = self.full.steps[0].numpy()
        self.z0_nodes = []

        def compute_z0(nodes):
            self.z0_nodes.extend(nodes.tolist())
            return z0[0, nodes].numpy()

        self.model = LazyModel(
            compute_z0,
            layer.halting_unit.weight.detach()[0, :, 0].numpy(),
            float(layer.halting_unit.bias.detach().flatten()[0]),
            HaltingParameters(STEPS, layer.epsilon, freeze),
            adjacency_weight=1 - teleport,
            z0_weight=teleport,
        )


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("teleport", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_lazy_output_of_some_or_all_nodes_is_that_of_full_propagation(seed, freeze, teleport):
    example = Example(seed, freeze=freeze, teleport=teleport)
    assert len(np.unique(example.steps)) > 3, "a test in which all nodes halt together shows little"
    random = np.random.default_rng(seed)
    for nodes in (np.arange(NODES), np.array([3]), random.permutation(NODES)[:7], random.permutation(NODES)):
        lazy = lazy_propagate(example.graph, example.model, nodes)
        np.testing.assert_array_equal(lazy.steps, example.steps[nodes])
        np.testing.assert_allclose(lazy.output, example.full.output[0, nodes], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(lazy.remainder, example.full.remainder[0, nodes], rtol=1e-4, atol=1e-5)


def last_needed_step(graph, steps, requested, *, freeze):
    """The last step whose state is needed of each node, -1 where none is: derived from K alone, without any state.

    A requested node needs its own states up to K. A node that needs z_i^k needs z_j^(k-1) of all in-neighbours j, or
    z_j^K where j has halted by then and is frozen.
    """
    last = np.full(graph.num_nodes, -1)
    last[requested] = steps[requested]
    for _ in range(STEPS):
        for node in range(graph.num_nodes):
            if last[node] > 0:
                sources = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].astype(int)
                last[sources] = np.maximum(
                    last[sources], np.minimum(last[node] - 1, steps[sources] if freeze else STEPS)
                )
    return last


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_only_needed_states_are_computed(seed, freeze):
    example = Example(seed, freeze=freeze)
    for nodes in (np.arange(NODES), np.array([7, 11, 40])):
        example.z0_nodes.clear()
        cost = lazy_propagate(example.graph, example.model, nodes, full_step_ratio=0, step_overhead=0).cost
        last = last_needed_step(example.graph, example.steps, nodes, freeze=freeze)
        assert cost.node_steps == np.maximum(last, 0).sum()
        assert cost.messages == (np.maximum(last, 0) * example.graph.in_degrees).sum()
        assert sorted(example.z0_nodes) == np.flatnonzero(last >= 0).tolist()
        assert cost.z0_nodes == (last >= 0).sum()


def constant_model(*, weight=1.0, bias=-9.0, steps=STEPS):
    """z^0 = 1 at every node."""
    return LazyModel(
        lambda nodes: np.ones((len(nodes), CHANNELS)),
        np.full(CHANNELS, weight, np.float32),
        bias,
        HaltingParameters(steps, 0.01),
    )


def test_isolated_nodes_are_not_computed_without_need():
    """Sixty nodes with edges and many without: one of the sixty is requested."""
    core = random_edges(1)
    graph = LazyGraph.from_adjacency(sparse.block_diag([core, sparse.csr_matrix((5000, 5000))], format="csr"))
    assert lazy_propagate(graph, constant_model(), np.array([3])).cost.z0_nodes <= NODES


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("full_step_ratio", [0.0, 3.0, np.inf])
def test_unneeded_states_change_no_output(full_step_ratio, freeze):
    example = Example(2, freeze=freeze)
    for nodes in (np.arange(NODES), np.array([7, 11, 40])):
        outputs = (
            lazy_propagate(example.graph, example.model, nodes, **options)
            for options in ({"full_step_ratio": full_step_ratio, "step_overhead": 0}, {})
        )
        changed, default = outputs
        np.testing.assert_array_equal(changed.output, default.output)
        np.testing.assert_array_equal(changed.steps, default.steps)


def test_full_step_ratio_trades_unneeded_states_for_searching():
    """All nodes but one: with infinity every needed step is computed for all nodes, with 0 only where it is needed."""
    example = Example(2, freeze=False)
    nodes = np.arange(NODES - 1)
    full, default, exact = (
        lazy_propagate(example.graph, example.model, nodes, **options).cost
        for options in ({"full_step_ratio": np.inf}, {}, {"full_step_ratio": 0.0, "step_overhead": 0})
    )
    assert exact.messages < default.messages < full.messages
    assert full.messages <= example.graph.num_edges * example.steps.max()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("teleport", [0.0, 0.2])
def test_a_node_has_the_same_bits_whichever_nodes_are_requested_and_with_any_number_of_threads(
    freeze, teleport, monkeypatch
):
    """Steps of all nodes until few are active and back, steps of single nodes from the first on, one node alone."""
    monkeypatch.setattr(parallel, "THREAD_NANOSECONDS", 1)
    example = Example(1, freeze=freeze, teleport=teleport)
    nodes = np.arange(NODES)

    def lazy(nodes, *, threads=1, **options):
        with kernel_threads(threads):
            output = lazy_propagate(example.graph, example.model, nodes, **options)
        return np.column_stack([output.output, output.steps, output.remainder])

    expected = lazy(nodes)
    for threads in (1, 2, 3, 7):
        for options in (
            {},
            {"step_overhead": 0},
            {"step_overhead": 10},
            {"step_overhead": 30},
            {"full_step_ratio": 0, "step_overhead": 0},
        ):
            np.testing.assert_array_equal(lazy(nodes, threads=threads, **options), expected)
        for some in (np.array([3]), np.array([40, 7, 11]), nodes[::-1]):
            np.testing.assert_array_equal(lazy(some, threads=threads), expected[some])


def cliques(sizes_by_step):
    """A graph of cliques without edges between them, a model, and K: the nodes of each clique halt at one step.

    All nodes of a clique have one state, which propagation leaves as it is, so that h is the same at every step.
    """
    steps = np.repeat(list(sizes_by_step), list(sizes_by_step.values()))
    h = 0.995 / steps  # the sum of K of them exceeds 1 - epsilon
    z0 = np.zeros((len(steps), CHANNELS), np.float32)
    z0[:, 0] = np.log(h / (1 - h))
    edges = sparse.block_diag([np.ones((size, size)) - np.eye(size) for size in sizes_by_step.values()], format="csr")
    halting = HaltingParameters(STEPS, 0.01)
    return (
        LazyGraph.from_adjacency(edges),
        LazyModel(lambda nodes: z0[nodes], np.array([1, 0, 0], np.float32), 0.0, halting),
        steps,
    )


def test_active_nodes_take_a_step_alone_where_that_saves_messages():
    """The cost lies between that of single nodes from the first step on, and that of all nodes in all steps."""
    graph, model, steps = cliques({1: 20, 2: 30, 3: 10})
    exact, mixed, full = (
        lazy_propagate(graph, model, np.arange(60), full_step_ratio=ratio, step_overhead=overhead)
        for ratio, overhead in ((0, 0), (1, 250), (1.5, 1e9))
    )
    np.testing.assert_array_equal(full.steps, steps)
    assert [output.cost.node_steps for output in (exact, mixed, full)] == [60 + 40 + 10, 60 + 60 + 10, 3 * 60]


def test_all_nodes_take_steps_again_when_the_active_ones_stop_halting(monkeypatch):
    """Most nodes halt at step 2, the others at the last: a step of these alone, then steps of all."""
    graph, model, steps = cliques({2: 50, STEPS: 10})
    calls = []
    call_kernel = _LazyPropagation._call_kernel

    def record(self, nodes, steps, *arguments, **options):
        calls.append((len(nodes), steps[0]))
        return call_kernel(self, nodes, steps, *arguments, **options)

    monkeypatch.setattr(_LazyPropagation, "_call_kernel", record)
    output = lazy_propagate(graph, model, np.arange(60), step_overhead=100)
    np.testing.assert_array_equal(output.steps, steps)
    assert calls == [(60, 1), (10, 3), (50, 3), (60, 4)]
    exact = lazy_propagate(graph, model, np.arange(60), full_step_ratio=0, step_overhead=0)
    np.testing.assert_array_equal(output.output, exact.output)
    np.testing.assert_array_equal(output.remainder, exact.remainder)


@pytest.mark.parametrize("seed", range(4))
def test_frozen_nodes_cost_nothing_after_their_last_step(seed):
    example = Example(seed, freeze=True)
    cost = lazy_propagate(example.graph, example.model, np.arange(NODES)).cost
    assert cost.node_steps == example.steps.sum()
    assert cost.messages == (example.steps * example.graph.in_degrees).sum()


def test_memory_does_not_grow_with_the_steps():
    """No node halts: all nodes take all steps, and the states of earlier steps are released."""
    graph, num_buffers = LazyGraph.from_adjacency(random_edges(3)), []
    for steps in (10, 40):
        for nodes in (np.arange(NODES), np.array([7])):
            lazy_propagate(graph, constant_model(weight=0.0, bias=-50.0, steps=steps), nodes)
        num_buffers.append(len(graph._buffers))
    assert num_buffers[1] == num_buffers[0] < 10


def test_threads_may_share_a_graph():
    example = Example(2, freeze=False)

    def output(_=None):
        return lazy_propagate(example.graph, example.model, np.arange(NODES)).output

    expected = output()
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(output, range(200)))
    for found in outputs:
        np.testing.assert_array_equal(found, expected)


def test_cost_of_all_steps():
    graph = LazyGraph.from_adjacency(random_edges(0))
    cost = PropagationCost.all_steps(nodes=graph.num_nodes, edges=graph.num_edges, steps=10, channels=4)
    assert cost.node_steps == 10 * NODES
    assert cost.messages == 10 * graph.num_edges
    assert cost.multiply_adds == 4 * (cost.messages + 2 * cost.node_steps)
    assert (cost + cost).messages == 2 * cost.messages


def test_small_percentages_are_not_printed_as_zero():
    small, full = PropagationCost(1, 0, 499, 1), PropagationCost(10_000, 0, 1000, 10)
    assert small.relative_to(full) == (
        "computed 1 of 10,000 node-steps (under 0.1 %), 0 of 0 messages (0.0 %), 499 of 1,000 multiply-adds (49.9 %)"
    )


def test_features_of_other_components_are_never_read():
    """Two halves without an edge between them: z^0 is computed in one only."""
    half = random_edges(1)
    z0_nodes = []

    def compute_z0(nodes):
        z0_nodes.extend(nodes.tolist())
        return np.ones((len(nodes), CHANNELS), np.float32)

    graph = LazyGraph.from_adjacency(sparse.block_diag([half, half], format="csr"))
    lazy_propagate(graph, constant_model()._replace(z0=compute_z0), np.array([3]))
    assert max(z0_nodes) < NODES
