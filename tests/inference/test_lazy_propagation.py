"""Reduced inference gives what full inference gives, and computes what its listeners can still hear, no more."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.inference.lazy_propagation import LazyGraph, LazyModel, PropagationCost, ask
from apgcn.nn.operators import NormalizedAdjacency, PageRank
from apgcn.nn.propagation import AdaptivePropagation
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.kernels.adaptive_propagation import Halting
from apgcn.ops.rng import RandomStream

pytest.importorskip("numba")

NODES, CHANNELS, STEPS = 60, 3, 8


def random_edges(seed):
    """Directed, weighted, a hub, and nodes that hear nobody."""
    random = np.random.default_rng(seed)
    matrix = sparse.random(NODES, NODES, density=0.04, random_state=random, format="lil", dtype=np.float32)
    matrix[:, 2] = random.random((NODES, 1)) * (random.random((NODES, 1)) < 0.5)
    matrix[:, 5] = 0
    return matrix.tocsr()


class Example:
    """A layer over a random graph, what it says of all nodes, and the same ready to be asked."""

    def __init__(self, seed, *, freeze, teleport=0.0):
        edges = random_edges(seed)
        operator = PageRank(teleport) if teleport else NormalizedAdjacency()
        self.heard = LazyGraph.of(edges)
        layer = AdaptivePropagation(
            operator, channels=CHANNELS, rng=RandomStream([seed]), max_steps=STEPS, freeze_halted=freeze
        )
        layer.halting_unit.weight.data.abs_().add_(0.7)
        layer.halting_unit.bias.data.fill_(-1.5)
        z0 = 3 * torch.randn(1, NODES, CHANNELS, generator=torch.manual_seed(seed))
        with torch.no_grad(), reference_kernels():
            self.full = layer(z0, Adjacency(edges, device="cpu", dtype=torch.float32))
        self.steps = self.full.steps[0].numpy()
        self.begun = []

        def seeds_of(rows):
            self.begun.extend(rows.tolist())
            return z0[0, rows].numpy()

        unit = layer.halting_unit
        halting = Halting(STEPS, layer.epsilon, freeze)
        self.listeners = LazyModel(
            seeds_of,
            unit.weight.detach()[0, :, 0].numpy(),
            float(unit.bias.detach().flatten()[0]),
            halting,
            decay=1 - teleport,
            home=teleport,
        )


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("teleport", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_some_nodes_or_all_get_what_full_inference_gives(seed, freeze, teleport):
    example = Example(seed, freeze=freeze, teleport=teleport)
    assert len(np.unique(example.steps)) > 3, "a test in which all nodes stop together shows little"
    random = np.random.default_rng(seed)
    for nodes in (np.arange(NODES), np.array([3]), random.permutation(NODES)[:7], random.permutation(NODES)):
        found = ask(example.heard, example.listeners, nodes)
        np.testing.assert_array_equal(found.steps, example.steps[nodes])
        np.testing.assert_allclose(found.output, example.full.output[0, nodes], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.remainder, example.full.remainder[0, nodes], rtol=1e-4, atol=1e-5)


def needed(heard, steps, asked, *, freeze):
    """After how many steps each node's state is needed, -1 where nobody needs it: counted from K, with no state at all.

    A node that asks needs its own states up to K; whoever needs z_i^k needs z_j^(k-1) of all j that i hears, or z_j^K
    where j has halted by then and freezes.
    """
    need = np.full(heard.nodes, -1)
    need[asked] = steps[asked]
    for _ in range(STEPS):
        for row in range(heard.nodes):
            if need[row] > 0:
                said = heard.columns[heard.pointers[row] : heard.pointers[row + 1]].astype(int)
                need[said] = np.maximum(need[said], np.minimum(need[row] - 1, steps[said] if freeze else STEPS))
    return need


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_computed_is_what_listeners_can_still_hear(seed, freeze):
    example = Example(seed, freeze=freeze)
    for asked in (np.arange(NODES), np.array([7, 11, 40])):
        example.begun.clear()
        found = ask(example.heard, example.listeners, asked, generous=0)
        need = needed(example.heard, example.steps, asked, freeze=freeze)
        assert found.work.node_steps == np.maximum(need, 0).sum()
        assert found.work.messages == (np.maximum(need, 0) * example.heard.degrees).sum()
        assert sorted(example.begun) == np.flatnonzero(need >= 0).tolist()
        assert found.work.z0 == (need >= 0).sum()


def test_who_hears_nobody_is_not_computed_for_nothing():
    """Fifty nodes with edges and many without: one of the fifty asks."""
    core = random_edges(1)
    heard = LazyGraph.of(sparse.block_diag([core, sparse.csr_matrix((5000, 5000))], format="csr"))
    listeners = LazyModel(
        lambda rows: np.ones((len(rows), CHANNELS)), np.ones(CHANNELS, np.float32), -9.0, Halting(STEPS, 0.01)
    )
    assert ask(heard, listeners, np.array([3])).work.z0 <= NODES


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("generous", [0.0, 3.0, np.inf])
def test_to_compute_more_than_is_needed_changes_no_answer(generous, freeze):
    example = Example(2, freeze=freeze)
    for asked in (np.arange(NODES), np.array([7, 11, 40])):
        found, usual = (ask(example.heard, example.listeners, asked, **given) for given in ({"generous": generous}, {}))
        np.testing.assert_array_equal(found.output, usual.output)
        np.testing.assert_array_equal(found.steps, usual.steps)


def test_nobody_is_looked_for_where_that_costs_more_than_all():
    """All but one ask: with infinity everybody takes each step that somebody needs, with 0 only who is heard."""
    example = Example(2, freeze=False)
    asked = np.arange(NODES - 1)
    everybody, usual, exact = (
        ask(example.heard, example.listeners, asked, **given).work
        for given in ({"generous": np.inf}, {}, {"generous": 0.0})
    )
    assert exact.messages < usual.messages < everybody.messages
    assert everybody.messages <= example.heard.edges * example.steps.max()


@pytest.mark.parametrize("seed", range(4))
def test_frozen_nodes_cost_nothing_after_their_last_step(seed):
    example = Example(seed, freeze=True)
    found = ask(example.heard, example.listeners, np.arange(NODES))
    assert found.work.node_steps == example.steps.sum()
    assert found.work.messages == (example.steps * example.heard.degrees).sum()


def test_memory_does_not_grow_with_the_steps():
    """Nobody halts: everybody takes all steps, and those before the last are let go."""
    heard, sizes = LazyGraph.of(random_edges(3)), []
    unit = np.zeros(CHANNELS, np.float32)
    for steps in (10, 40):
        listeners = LazyModel(lambda rows: np.ones((len(rows), CHANNELS)), unit, -50.0, Halting(steps, 0.01))
        for asked in (np.arange(NODES), np.array([7])):
            ask(heard, listeners, asked)
        sizes.append(len(heard._rooms))
    assert sizes[1] == sizes[0] < 10


def test_several_threads_may_ask():
    example = Example(2, freeze=False)
    expected = ask(example.heard, example.listeners, np.arange(NODES)).output
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: ask(example.heard, example.listeners, np.arange(NODES)).output, range(200)))
    for output in found:
        np.testing.assert_array_equal(output, expected)


def test_work_is_compared_with_that_of_all_steps():
    heard = LazyGraph.of(random_edges(0))
    fixed = PropagationCost.fixed(nodes=heard.nodes, edges=heard.edges, steps=10, channels=4)
    assert fixed.node_steps == 10 * NODES
    assert fixed.messages == 10 * heard.edges
    assert fixed.multiply_adds == 4 * (fixed.messages + 2 * fixed.node_steps)
    assert (fixed + fixed).messages == 2 * fixed.messages


def test_little_is_not_called_nothing():
    little, fixed = PropagationCost(1, 0, 499, 1), PropagationCost(10_000, 0, 1000, 10)
    assert little.beside(fixed) == (
        "computed 1 of 10,000 node-steps (under 0.1 %), 0 of 0 messages (0.0 %), 499 of 1,000 multiply-adds (49.9 %)"
    )


def test_nobody_else_is_touched():
    """Two halves without an edge between them: features of the other half are never asked for."""
    half = random_edges(1)
    both = sparse.block_diag([half, half], format="csr")
    begun = []

    def seeds_of(rows):
        begun.extend(rows.tolist())
        return np.ones((len(rows), CHANNELS), np.float32)

    listeners = LazyModel(seeds_of, np.ones(CHANNELS, np.float32), -9.0, Halting(STEPS, 0.01))
    ask(LazyGraph.of(both), listeners, np.array([3]))
    assert max(begun) < NODES
