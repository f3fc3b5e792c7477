"""The halting equations against a loop over nodes, and against cases computed without this library."""

import json

import numpy as np
import pytest
import torch
from helpers import FIXTURES
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from apgcn.nn import halting
from apgcn.nn.operators import NormalizedAdjacency
from apgcn.nn.propagation import AdaptivePropagation, propagate
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.rng import RandomStream

CASES = json.loads((FIXTURES / "halting.json").read_text())


def brute_force(neighbours, z0, Q, q, *, max_steps, epsilon):
    """AP-GCN's propagation in a loop over nodes; returns h, K, R, p and the output of each node."""
    degree = [1 + len(adjacent) for adjacent in neighbours]
    z = [list(z0)]
    for _ in range(max_steps):
        z.append(
            [
                sum(z[-1][j] / (degree[i] * degree[j]) ** 0.5 for j in [i, *adjacent])
                for i, adjacent in enumerate(neighbours)
            ]
        )
    results = []
    for i in range(len(neighbours)):
        h = [torch.sigmoid(z[k][i] @ Q + q) for k in range(1, max_steps + 1)]
        total, K = 0.0, 0
        while K < max_steps and total < 1 - epsilon:
            total = total + h[K].item()
            K += 1
        R = 1 - sum(h[: K - 1])
        p = [sum(h[: k + 1]) for k in range(K - 1)] + [R]
        output = sum(p[k] * z[k + 1][i] + (1 - p[k]) * z[k][i] for k in range(K)) / K
        results.append((h, K, R, p, output))
    return results


def make_adjacency(edges, nodes, dtype=torch.float64) -> Adjacency:
    matrix = np.zeros((nodes, nodes))
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = 1
    return Adjacency(sparse.csr_matrix(matrix), device="cpu", dtype=dtype)


def make_propagation(Q, q, *, max_steps, epsilon) -> AdaptivePropagation:
    propagation = AdaptivePropagation(
        NormalizedAdjacency(), channels=len(Q), rng=RandomStream([0]), max_steps=max_steps, epsilon=epsilon
    ).double()
    propagation.halting_unit.weight.data = Q.detach()[None, :, None].clone()
    propagation.halting_unit.bias.data = q.detach().view(1, 1, 1).clone()
    return propagation


@pytest.mark.parametrize("case", CASES)
def test_cases_computed_without_this_library(case):
    Q, q, z0 = (torch.tensor(case[name], dtype=torch.float64) for name in ("Q", "q", "z0"))
    h, output, remainder = (torch.tensor(case[name], dtype=torch.float64) for name in ("h", "output", "remainder"))
    steps = halting.halting_steps(h, epsilon=case["epsilon"])
    assert steps.tolist() == case["steps"]
    torch.testing.assert_close(halting.remainders(h, steps), remainder)
    weights = halting.step_weights(h, steps, remainder)
    for node, K in enumerate(case["steps"]):
        torch.testing.assert_close(weights[:K, node], torch.tensor(case["p"][node][:K], dtype=torch.float64))

    propagation = make_propagation(Q, q, max_steps=case["max_steps"], epsilon=case["epsilon"])
    actual = propagation(z0[None], make_adjacency(case["edges"], case["nodes"]))
    assert actual.steps[0].tolist() == case["steps"]
    torch.testing.assert_close(actual.remainder[0], remainder)
    torch.testing.assert_close(actual.output[0], output)


@st.composite
def problems(draw):
    nodes = draw(st.integers(1, 6))
    pairs = [(i, j) for i in range(nodes) for j in range(i)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    channels = draw(st.integers(1, 3))
    numbers = st.floats(-2, 2).map(lambda x: round(x, 3))
    z0 = draw(st.lists(st.lists(numbers, min_size=channels, max_size=channels), min_size=nodes, max_size=nodes))
    Q = draw(st.lists(numbers, min_size=channels, max_size=channels))
    q = draw(st.one_of(numbers, st.sampled_from([8.0, 5.0, -9.0, -40.0])))  # from halting at step 1 to never halting
    return edges, z0, Q, q, draw(st.integers(1, 6)), draw(st.sampled_from([0.0, 0.01, 0.3]))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems())
@example(([], [[1.0]], [0.0], -1.125, 5, 0.01))  # K = 5: a fifth has no finite binary expansion
def test_K_R_p_output_and_gradients_equal_a_loop_over_nodes(problem):
    edges, *numbers, max_steps, epsilon = problem
    z0, Q, q = (torch.tensor(number, dtype=torch.float64, requires_grad=True) for number in numbers)
    nodes = len(z0)
    neighbours = [[b if a == i else a for a, b in edges if i in (a, b)] for i in range(nodes)]
    results = brute_force(neighbours, z0, Q, q, max_steps=max_steps, epsilon=epsilon)
    cumulative = torch.tensor([[step.item() for step in h] for h, *_ in results], dtype=torch.float64).cumsum(1)
    assume(((cumulative - (1 - epsilon)).abs() > 1e-9).all())  # otherwise K depends on the last bit

    propagation = make_propagation(Q, q, max_steps=max_steps, epsilon=epsilon)
    batched_z0 = z0.detach()[None].clone().requires_grad_()
    actual = propagation(batched_z0, make_adjacency(edges, nodes))
    h, K, R, p, output = zip(*results, strict=True)
    assert actual.steps[0].tolist() == list(K)
    torch.testing.assert_close(actual.remainder[0], torch.stack([torch.as_tensor(r, dtype=torch.float64) for r in R]))
    torch.testing.assert_close(actual.output[0], torch.stack(output), rtol=1e-12, atol=1e-12)

    probabilities = torch.stack([torch.stack(row) for row in h], dim=1)
    weights = halting.step_weights(probabilities, actual.steps[0], actual.remainder[0])
    for node in range(nodes):
        expected = torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in p[node]])
        torch.testing.assert_close(weights[: K[node], node], expected)

    z = torch.stack(
        [*propagate(NormalizedAdjacency(), z0[None], make_adjacency(edges, nodes), steps=max_steps, rng=None)]
    )
    combined = halting.combine(z[:, 0], weights, actual.steps[0])
    torch.testing.assert_close(combined, torch.stack(output), rtol=1e-12, atol=1e-12)

    # a scalar that depends on every output and remainder, differently
    coefficients = torch.sin(torch.arange(1.0, nodes * z0.shape[1] + 1, dtype=torch.float64)).view(nodes, -1)
    loop_scalar = (torch.stack(output) * coefficients).sum() + sum(r * coefficients[i, 0] for i, r in enumerate(R))
    scalar = (actual.output[0] * coefficients).sum() + (actual.remainder[0] * coefficients[:, 0]).sum()
    expected = torch.autograd.grad(loop_scalar, (z0, Q, q), allow_unused=True, materialize_grads=True)
    unit = propagation.halting_unit
    gradients = torch.autograd.grad(scalar, (batched_z0, unit.weight, unit.bias))
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient.flatten(), reference.flatten(), rtol=1e-6, atol=1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_bounds_that_follow_from_the_definitions(max_steps, nodes, seed):
    h = torch.from_numpy(np.random.default_rng(seed).random((max_steps, nodes)))
    steps = halting.halting_steps(h)
    remainder = halting.remainders(h, steps)
    p = halting.step_weights(h, steps, remainder)
    assert ((steps >= 1) & (steps <= max_steps)).all()
    assert ((remainder > 0.01 - 1e-12) & (remainder <= 1)).all()  # before K the sum is below 1 - epsilon
    assert ((p >= 0) & (p <= 1)).all()
    z = torch.ones(max_steps + 1, nodes, 2, dtype=h.dtype)
    torch.testing.assert_close(halting.combine(z, p, steps), z[0])  # the mean of equal values


def test_a_sum_equal_to_the_threshold_halts():
    assert halting.halting_steps(torch.full((3, 1), 0.5), epsilon=0.0).tolist() == [2]
    assert halting.halting_steps(torch.full((4, 1), 0.25), epsilon=0.25).tolist() == [3]
