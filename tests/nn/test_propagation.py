import math

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn.errors import InvalidInput
from apgcn.nn import halting
from apgcn.nn.operators import OPERATORS, NormalizedAdjacency, PageRank
from apgcn.nn.propagation import AdaptivePropagation, FixedPropagation, propagate
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.rng import RandomStream


@pytest.fixture
def adjacency() -> Adjacency:
    return DeviceGraph.of(random_graph(15, edges=25)).adjacency


def seeds_of(runs: int) -> torch.Tensor:
    return torch.randn(runs, 15, 3, generator=torch.Generator().manual_seed(0))


def adaptive(runs: int = 2, **config) -> AdaptivePropagation:
    rng = RandomStream(range(runs))
    return AdaptivePropagation(NormalizedAdjacency(), channels=3, rng=rng, **config)


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_adaptive_propagation_takes_any_operator_and_agrees_with_the_equations(adjacency, make):
    operator = make(3, RandomStream([1, 2]))
    part = AdaptivePropagation(operator, channels=3, rng=RandomStream([1, 2]), max_steps=6)
    part.halting_unit.bias.data.fill_(-0.7)
    found = part(seeds_of(2), adjacency, RandomStream([3, 4]))

    z = torch.stack([*propagate(operator, seeds_of(2), adjacency, steps=6, rng=RandomStream([3, 4]))])
    h = torch.sigmoid((z[1:] * part.halting_unit.weight[..., 0][:, None]).sum(-1) + part.halting_unit.bias[..., 0])
    steps = halting.halting_steps(h)
    remainder = halting.remainders(h, steps)
    output = halting.combine(z, halting.step_weights(h, steps, remainder), steps)
    assert len(steps.unique()) > 1
    torch.testing.assert_close(found.steps, steps)
    torch.testing.assert_close(found.remainder, remainder)
    torch.testing.assert_close(found.output, output)


def test_the_halting_unit_starts_at_one_part_in_T_plus_one():
    bias = adaptive(max_steps=10).halting_unit.bias
    torch.testing.assert_close(torch.sigmoid(bias), torch.full_like(bias, 1 / 11))
    assert adaptive().halting_unit.weight.abs().max() <= 1 / math.sqrt(3)


def test_a_node_that_halts_at_once_takes_the_first_step(adjacency):
    part = adaptive()
    part.halting_unit.bias.data.fill_(50.0)
    found = part(seeds_of(2), adjacency)
    one_step = FixedPropagation(NormalizedAdjacency(), steps=1)(seeds_of(2), adjacency)
    assert (found.steps == 1).all()
    torch.testing.assert_close(found.remainder, torch.ones(2, 15))
    torch.testing.assert_close(found.output, one_step.output)


def test_a_node_that_never_halts_averages_all_but_the_last_wait(adjacency):
    """With h = 0: p = 0 before T, so each update is the old value; at T the remainder is 1, so the last is z^T."""
    part = adaptive(max_steps=4)
    part.halting_unit.weight.data.zero_()
    part.halting_unit.bias.data.fill_(-200.0)
    z = [*propagate(NormalizedAdjacency(), seeds_of(2), adjacency, steps=4, rng=None)]
    found = part(seeds_of(2), adjacency)
    assert (found.steps == 4).all()
    torch.testing.assert_close(found.output, (z[0] + z[1] + z[2] + z[4]) / 4)


def test_cost_is_steps_plus_remainder_and_only_the_remainder_has_a_gradient(adjacency):
    part = adaptive()
    part.halting_unit.bias.data.fill_(-1.5)
    found = part(seeds_of(2), adjacency)
    torch.testing.assert_close(found.cost, found.steps + found.remainder)
    found.cost.sum().backward()
    gradient = part.halting_unit.bias.grad.flatten()
    assert (gradient < 0).all()  # halting more readily leaves less of the budget, and is cheaper


def test_renaming_nodes_renames_answers():
    graph = random_graph(15, edges=25)
    order = np.random.default_rng(1).permutation(15)
    renamed = Adjacency(graph.adjacency[order][:, order], device="cpu", dtype=torch.float32)
    part = adaptive()
    part.halting_unit.bias.data.fill_(-1.0)
    before = part(seeds_of(2), DeviceGraph.of(graph).adjacency)
    after = part(seeds_of(2)[:, order], renamed)
    torch.testing.assert_close(before.output[:, order], after.output)
    assert torch.equal(before.steps[:, order], after.steps)


def test_an_isolated_node_keeps_its_own_value():
    graph = random_graph(15, edges=4)
    alone = np.flatnonzero(np.diff(graph.adjacency.indptr) == 0)
    assert len(alone)
    found = adaptive()(seeds_of(2), DeviceGraph.of(graph).adjacency)
    torch.testing.assert_close(found.output[:, alone], seeds_of(2)[:, alone])


def test_the_scripts_two_dropouts_are_off_in_evaluation_and_keep_the_expectation(adjacency):
    plain, scripted = (adaptive(2, z0_dropout=rate, update_dropout=rate) for rate in (0.0, 0.5))
    torch.testing.assert_close(plain(seeds_of(2), adjacency).output, scripted(seeds_of(2), adjacency).output)

    # on updates alone, with listening itself undisturbed, the mean over many draws is the undisturbed output
    part = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0), channels=3, rng=RandomStream([0] * 4000), update_dropout=0.5
    )
    z0 = seeds_of(1).expand(4000, -1, -1).contiguous()
    drawn = part(z0, adjacency, RandomStream(range(4000))).output
    assert drawn.std(0).min() > 0
    error = (drawn.mean(0) - part(z0[:1], adjacency).output[0]).abs() / (drawn.std(0) / 4000**0.5)
    assert error.max() < 5


def test_update_dropout_silences_whole_updates(adjacency):
    """T = 1 has one update per node: with rate 1/2 an output is all zeros, or twice what it would be."""
    part = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0), channels=3, rng=RandomStream([0]), max_steps=1, update_dropout=0.5
    )
    plain, drawn = part(seeds_of(1), adjacency).output, part(seeds_of(1), adjacency, RandomStream([5])).output
    silenced = (drawn == 0).all(-1)
    assert 0 < silenced.sum() < 15
    torch.testing.assert_close(drawn[~silenced], 2 * plain[~silenced])


@pytest.mark.parametrize(
    "build", [lambda: adaptive(max_steps=0), lambda: FixedPropagation(NormalizedAdjacency(), steps=0)]
)
def test_there_must_be_a_step(build):
    with pytest.raises(InvalidInput, match="steps must be >= 1, got 0"):
        build()


def test_parts_say_what_they_are():
    assert "NormalizedAdjacency(edge_dropout=0.5), max_steps=10" in repr(adaptive())
    assert "PageRank" in repr(FixedPropagation(PageRank(), steps=3))


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": float("nan")}, {"epsilon": 5}, {"z0_dropout": 1.5}, {"update_dropout": "x"}, {"channels": 0}],
    ids=str,
)
def test_impossible_propagation_is_told_in_words(wrong):
    with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be "):
        AdaptivePropagation(NormalizedAdjacency(), **{"channels": 3, "noise": RandomStream([1]), **wrong})
