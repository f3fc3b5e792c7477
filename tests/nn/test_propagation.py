import math

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.models.apgcn import APGCNConfig
from apgcn.nn import APGCNConv, halting
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


PATH = sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32))
ROOT_6 = math.sqrt(6)  # of the degrees 2 and 3, self-loops counted


def fill_units(propagation: AdaptivePropagation, *, weight: float, bias: float) -> None:
    """Give all halting units these weights and biases."""
    for parameter in propagation.halting_parameters():
        parameter.data.fill_(bias if parameter.shape[1] == 1 else weight)


def on_a_path(z0: list[float], weight: float, bias: float, **config) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output, steps and remainder of the three nodes of a path with one channel, in double precision."""
    propagation = AdaptivePropagation(NormalizedAdjacency(), channels=1, rng=RandomStream([0]), **config).double()
    units = [propagation.halting_unit, *([propagation.initial_halting_unit] if config["min_steps"] == 0 else [])]
    for unit in units:
        unit.weight.data.fill_(weight)
        unit.bias.data.fill_(bias)
    path = Adjacency(PATH, device="cpu", dtype=torch.float64)
    output, steps, remainder = propagation(torch.tensor(z0, dtype=torch.float64)[None, :, None], path)
    return output[0, :, 0], steps[0], remainder[0]


def test_a_node_may_halt_before_any_step_worked_by_hand():
    """z^0 = (6, 0, 0) and z^1 = (3, sqrt 6, 0).

    With weights 1 and biases 0 the first node has h^0 = 0.9975: it halts. The others have
    h^0 = 1/2 and a sum of at least 1 at step 1, so they halt there with the remainder 1/2.
    """
    output, steps, remainder = on_a_path([6, 0, 0], 1.0, 0.0, max_steps=3, min_steps=0)
    assert steps.tolist() == [0, 1, 1]
    assert remainder.tolist() == [1, 0.5, 0.5]
    torch.testing.assert_close(output, torch.tensor([6, ROOT_6 / 2, 0], dtype=torch.float64))


def test_a_node_that_may_not_halt_yet_has_at_most_the_whole_budget_worked_by_hand():
    """h = 0.6 and min_steps = 2: the sums are 0.6 and 1.2, so K = 2, R = 0.4 and p = (0.6, 0.4).

    h = 0.9 and min_steps = 3: the sums are 0.9 and 1.8, which counts as 1, so R = 0 and p = (0.9, 1, 0).
    """
    z0, z1, z2 = (torch.tensor(z, dtype=torch.float64) for z in ([6, 0, 0], [3, ROOT_6, 0], [2.5, 5 / ROOT_6, 1]))
    output, steps, remainder = on_a_path([6, 0, 0], 0.0, math.log(0.6 / 0.4), max_steps=4, min_steps=2)
    assert steps.tolist() == [2, 2, 2]
    torch.testing.assert_close(remainder, torch.full_like(remainder, 0.4))
    torch.testing.assert_close(output, (0.6 * z1 + 0.4 * z0 + 0.4 * z2 + 0.6 * z1) / 2)
    output, steps, remainder = on_a_path([6, 0, 0], 0.0, math.log(0.9 / 0.1), max_steps=3, min_steps=3)
    assert steps.tolist() == [3, 3, 3]
    torch.testing.assert_close(remainder, torch.zeros_like(remainder))
    torch.testing.assert_close(output, (0.9 * z1 + 0.1 * z0 + z2 + z2) / 3)


@pytest.mark.parametrize("freeze", [False, True])
def test_with_min_steps_0_a_halting_unit_that_halts_at_once_leaves_z0_and_one_that_never_does_gives_zT(
    adjacency, freeze
):
    propagation = adaptive(max_steps=4, min_steps=0, freeze_halted=freeze)
    fill_units(propagation, weight=0.0, bias=math.inf)
    actual = propagation(initial_prediction(2), adjacency)
    assert (actual.steps == 0).all()
    assert (actual.remainder == 1).all()
    assert torch.equal(actual.output, initial_prediction(2))
    fill_units(propagation, weight=0.0, bias=-math.inf)
    actual = propagation(initial_prediction(2), adjacency)
    four_steps = FixedPropagation(NormalizedAdjacency(), steps=4)(initial_prediction(2), adjacency)
    assert (actual.steps == 4).all()
    torch.testing.assert_close(actual.output, four_steps.output)


def test_with_min_steps_T_every_node_takes_T_steps(adjacency):
    """Where h is 0 the output is that of a node that never halts; where h is 1, that of steps 1, ..., T - 1."""
    forced, free = (adaptive(max_steps=4, min_steps=min_steps) for min_steps in (4, 1))
    z = [*propagate(NormalizedAdjacency(), initial_prediction(2), adjacency, steps=4, rng=None)]
    for propagation in (forced, free):
        propagation.halting_unit.weight.data.zero_()
        propagation.halting_unit.bias.data.fill_(-200.0)
    actual, expected = (propagation(initial_prediction(2), adjacency) for propagation in (forced, free))
    assert (actual.steps == 4).all()
    torch.testing.assert_close(actual.output, expected.output)
    forced.halting_unit.bias.data.fill_(200.0)
    actual = forced(initial_prediction(2), adjacency)
    assert (actual.steps == 4).all()
    torch.testing.assert_close(actual.output, (z[1] + z[2] + 2 * z[3]) / 4)


@pytest.mark.parametrize("min_steps", [0, 1, 2])
@pytest.mark.parametrize("freeze", [False, True])
def test_gradients_equal_finite_differences(min_steps, freeze):
    graph = random_graph(15, edges=25)
    adjacency = Adjacency(graph.adjacency, device="cpu", dtype=torch.float64)
    propagation = adaptive(1, max_steps=4, min_steps=min_steps, freeze_halted=freeze).double()
    for parameter in propagation.halting_parameters():
        parameter.data.mul_(10)
    propagation.halting_unit.bias.data.fill_(-0.3)
    if min_steps == 0:
        propagation.initial_halting_unit.bias.data.fill_(2.0)
    names = [name for name, _ in propagation.named_parameters()]

    def outputs(z0, *parameters):
        actual = torch.func.functional_call(propagation, dict(zip(names, parameters, strict=True)), (z0, adjacency))
        return actual.output, actual.remainder

    steps = propagation(initial_prediction(1).double(), adjacency).steps
    assert steps.min() == min_steps
    assert len(steps.unique()) > 2
    assert torch.autograd.gradcheck(
        outputs, [initial_prediction(1).double().requires_grad_(), *propagation.parameters()]
    )


def test_with_min_steps_0_the_gradient_of_h_is_the_state_minus_the_last(adjacency):
    """Where no node halts before T, output = h^0 z^0 + ... + (1 - h^0 - ...) z^T."""
    propagation = adaptive(1, max_steps=2, min_steps=0).double()
    fill_units(propagation, weight=0.0, bias=-1.5)
    z0 = initial_prediction(1).double()
    double = Adjacency(random_graph(15, edges=25).adjacency, device="cpu", dtype=torch.float64)
    propagation(z0, double).output.sum().backward()
    z = [*propagate(NormalizedAdjacency(), z0, double, steps=2, rng=None)]
    h = torch.sigmoid(torch.tensor(-1.5, dtype=torch.float64))
    units = propagation.initial_halting_unit, propagation.halting_unit
    for k, unit in enumerate(units):
        torch.testing.assert_close(unit.bias.grad.sum(), (h * (1 - h) * (z[k] - z[2])).sum())


def test_update_dropout_keeps_the_expectation_with_min_steps_0(adjacency):
    propagation = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0),
        channels=3,
        rng=RandomStream([0] * 4000),
        update_dropout=0.5,
        max_steps=4,
        min_steps=0,
    )
    z0 = initial_prediction(1).expand(4000, -1, -1).contiguous()
    drawn = propagation(z0, adjacency, RandomStream(range(4000))).output
    error = (drawn.mean(0) - propagation(z0[:1], adjacency).output[0]).abs() / (drawn.std(0) / 4000**0.5)
    assert drawn.std(0).min() > 0
    assert error.max() < 5


@pytest.mark.parametrize(
    ("min_steps", "max_steps", "message"),
    [
        (-1, 10, "min_steps must be >= 0, got -1"),
        (1.5, 10, "min_steps must be an integer, got 1.5"),
        (5, 4, "min_steps must be at most max_steps, 4, got 5"),
    ],
)
def test_min_steps_must_be_an_integer_from_0_to_max_steps(min_steps, max_steps, message):
    for make in (adaptive, lambda **steps: APGCNConv(3, **steps), APGCNConfig):
        with pytest.raises(InvalidInput, match=message):
            make(min_steps=min_steps, max_steps=max_steps)
