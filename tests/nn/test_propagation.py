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
    return DeviceGraph.from_graph(random_graph(15, edges=25)).adjacency


def initial_prediction(runs: int) -> torch.Tensor:
    return torch.randn(runs, 15, 3, generator=torch.Generator().manual_seed(0))


def adaptive(runs: int = 2, **config) -> AdaptivePropagation:
    rng = RandomStream(range(runs))
    return AdaptivePropagation(NormalizedAdjacency(), channels=3, rng=rng, **config)


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_adaptive_propagation_takes_any_operator_and_agrees_with_the_equations(adjacency, make):
    operator = make(3, RandomStream([1, 2]))
    propagation = AdaptivePropagation(operator, channels=3, rng=RandomStream([1, 2]), max_steps=6)
    propagation.halting_unit.bias.data.fill_(-0.7)
    actual = propagation(initial_prediction(2), adjacency, RandomStream([3, 4]))

    z = torch.stack([*propagate(operator, initial_prediction(2), adjacency, steps=6, rng=RandomStream([3, 4]))])
    h = torch.sigmoid(
        (z[1:] * propagation.halting_unit.weight[..., 0][:, None]).sum(-1) + propagation.halting_unit.bias[..., 0]
    )
    steps = halting.halting_steps(h)
    remainder = halting.remainders(h, steps)
    output = halting.combine(z, halting.step_weights(h, steps, remainder), steps)
    assert len(steps.unique()) > 1
    torch.testing.assert_close(actual.steps, steps)
    torch.testing.assert_close(actual.remainder, remainder)
    torch.testing.assert_close(actual.output, output)


def test_the_initial_halting_probability_is_one_over_T_plus_one():
    bias = adaptive(max_steps=10).halting_unit.bias
    torch.testing.assert_close(torch.sigmoid(bias), torch.full_like(bias, 1 / 11))
    assert adaptive().halting_unit.weight.abs().max() <= 1 / math.sqrt(3)


def test_a_node_that_halts_at_step_one_outputs_the_first_step(adjacency):
    propagation = adaptive()
    propagation.halting_unit.bias.data.fill_(50.0)
    actual = propagation(initial_prediction(2), adjacency)
    one_step = FixedPropagation(NormalizedAdjacency(), steps=1)(initial_prediction(2), adjacency)
    assert (actual.steps == 1).all()
    torch.testing.assert_close(actual.remainder, torch.ones(2, 15))
    torch.testing.assert_close(actual.output, one_step.output)


def test_a_node_that_never_halts_averages_all_states_but_the_last_but_one(adjacency):
    """With h = 0: p = 0 before T, so each update is the previous state; at T the remainder is 1, so the last is z^T."""
    propagation = adaptive(max_steps=4)
    propagation.halting_unit.weight.data.zero_()
    propagation.halting_unit.bias.data.fill_(-200.0)
    z = [*propagate(NormalizedAdjacency(), initial_prediction(2), adjacency, steps=4, rng=None)]
    actual = propagation(initial_prediction(2), adjacency)
    assert (actual.steps == 4).all()
    torch.testing.assert_close(actual.output, (z[0] + z[1] + z[2] + z[4]) / 4)


def test_cost_is_steps_plus_remainder_and_only_the_remainder_has_a_gradient(adjacency):
    propagation = adaptive()
    propagation.halting_unit.bias.data.fill_(-1.5)
    actual = propagation(initial_prediction(2), adjacency)
    torch.testing.assert_close(actual.cost, actual.steps + actual.remainder)
    actual.cost.sum().backward()
    gradient = propagation.halting_unit.bias.grad.flatten()
    assert (gradient < 0).all()  # larger halting probabilities leave a smaller remainder, so a smaller cost


def test_adaptive_propagation_is_permutation_equivariant():
    graph = random_graph(15, edges=25)
    order = np.random.default_rng(1).permutation(15)
    permuted = Adjacency(graph.adjacency[order][:, order], device="cpu", dtype=torch.float32)
    propagation = adaptive()
    propagation.halting_unit.bias.data.fill_(-1.0)
    before = propagation(initial_prediction(2), DeviceGraph.from_graph(graph).adjacency)
    after = propagation(initial_prediction(2)[:, order], permuted)
    torch.testing.assert_close(before.output[:, order], after.output)
    assert torch.equal(before.steps[:, order], after.steps)


def test_an_isolated_node_keeps_its_own_prediction():
    graph = random_graph(15, edges=4)
    isolated = np.flatnonzero(np.diff(graph.adjacency.indptr) == 0)
    assert len(isolated)
    actual = adaptive()(initial_prediction(2), DeviceGraph.from_graph(graph).adjacency)
    torch.testing.assert_close(actual.output[:, isolated], initial_prediction(2)[:, isolated])


def test_the_two_dropouts_of_the_script_are_off_in_evaluation_and_keep_the_expectation(adjacency):
    without, with_dropouts = (adaptive(2, z0_dropout=rate, update_dropout=rate) for rate in (0.0, 0.5))
    torch.testing.assert_close(
        without(initial_prediction(2), adjacency).output, with_dropouts(initial_prediction(2), adjacency).output
    )

    # with update dropout alone, the mean over many draws is the output without dropout
    propagation = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0), channels=3, rng=RandomStream([0] * 4000), update_dropout=0.5
    )
    z0 = initial_prediction(1).expand(4000, -1, -1).contiguous()
    drawn = propagation(z0, adjacency, RandomStream(range(4000))).output
    assert drawn.std(0).min() > 0
    error = (drawn.mean(0) - propagation(z0[:1], adjacency).output[0]).abs() / (drawn.std(0) / 4000**0.5)
    assert error.max() < 5


def test_update_dropout_drops_all_channels_of_an_update(adjacency):
    """T = 1 has one update per node: with rate 1/2 an output is all zeros, or twice the output without dropout."""
    propagation = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0), channels=3, rng=RandomStream([0]), max_steps=1, update_dropout=0.5
    )
    plain, drawn = (
        propagation(initial_prediction(1), adjacency).output,
        propagation(initial_prediction(1), adjacency, RandomStream([5])).output,
    )
    dropped = (drawn == 0).all(-1)
    assert 0 < dropped.sum() < 15
    torch.testing.assert_close(drawn[~dropped], 2 * plain[~dropped])


def test_update_dropout_of_fixed_propagation_by_hand(adjacency):
    """output_i = z_i^0 + sum over k of m_i^k (z_i^k - z_i^(k-1)), the masks m drawn after those of the edges."""
    operator, z0 = PageRank(0.1), initial_prediction(2)
    layer = FixedPropagation(operator, steps=4, update_dropout=0.5)
    actual = layer(z0, adjacency, RandomStream([1, 2])).output
    rng = RandomStream([1, 2])
    z = torch.stack([*propagate(operator, z0, adjacency, steps=4, rng=rng)])
    mask = rng.dropout_mask(4, 15, rate=0.5)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    expected = torch.zeros_like(z0)
    for run, node in np.ndindex(2, 15):
        expected[run, node] = z[0, run, node]
        for k in range(1, 5):
            expected[run, node] += mask[run, k - 1, node] * (z[k, run, node] - z[k - 1, run, node])
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    "build", [lambda: adaptive(max_steps=0), lambda: FixedPropagation(NormalizedAdjacency(), steps=0)]
)
def test_zero_steps_are_rejected(build):
    with pytest.raises(InvalidInput, match="steps must be >= 1, got 0"):
        build()


def test_repr_has_the_operator_and_the_steps():
    assert "NormalizedAdjacency(edge_dropout=0.5), max_steps=10" in repr(adaptive())
    assert "PageRank" in repr(FixedPropagation(PageRank(), steps=3))


@pytest.mark.parametrize(
    "invalid",
    [{"epsilon": float("nan")}, {"epsilon": 5}, {"z0_dropout": 1.5}, {"update_dropout": "x"}, {"channels": 0}],
    ids=str,
)
def test_invalid_arguments_of_adaptive_propagation_are_rejected(invalid):
    with pytest.raises(InvalidInput, match=f"{next(iter(invalid))} must be "):
        AdaptivePropagation(NormalizedAdjacency(), **{"channels": 3, "rng": RandomStream([1]), **invalid})
