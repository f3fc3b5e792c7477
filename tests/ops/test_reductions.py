"""Sums over the values of a run on a CPU equal PyTorch's in double precision, whatever runs are in the batch."""

import pytest
import torch

from apgcn.ops import dense

pytest.importorskip("numba")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


OPERATIONS = {
    "run_sums": (dense.run_sums, lambda x: x.flatten(1).sum(1)),
    "run_means": (dense.run_means, lambda x: x.flatten(1).mean(1)),
    "squared_norms": (dense.squared_norms, lambda x: x.flatten(1).square().sum(1)),
}


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (140,), (33, 5), (2879, 64)], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_sums_of_a_run_equal_those_of_pytorch_and_have_the_same_bits_in_any_batch(name, shape):
    operation, expected = OPERATIONS[name]
    x = random(5, *shape).requires_grad_()
    result, result_64 = operation(x), expected(x.double()[:, None] if not shape else x.double())
    torch.testing.assert_close(result.double(), result_64, rtol=1e-6, atol=1e-5)
    scales = torch.linspace(1, 2, 5)
    (gradient,) = torch.autograd.grad((result * scales).sum(), x)
    (gradient_64,) = torch.autograd.grad((result_64 * scales).sum(), x)
    torch.testing.assert_close(gradient, gradient_64, rtol=1e-6, atol=1e-6)
    for runs in ([3], [4, 0], [2, 1, 4]):
        assert torch.equal(operation(x[runs]), result[runs])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [1, 7, 8, 70])
def test_sums_of_columns_equal_those_of_pytorch_and_have_the_same_bits_in_any_batch(columns, weighted):
    x = random(5, 141, columns + 3)[..., :columns]  # rows that lie apart
    weights = random(5, 141, seed=1) if weighted else None
    result = dense.column_sums(x, weights)
    expected = (x.double() * (weights[..., None].double() if weighted else 1)).sum(1)
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    for runs in ([3], [4, 0], [2, 1, 4]):
        assert torch.equal(dense.column_sums(x[runs], weights[runs] if weighted else None), result[runs])


def test_a_value_that_is_not_finite_makes_the_sum_of_its_run_alone_not_finite():
    x = random(3, 20)
    x[1, 4] = torch.nan
    assert dense.run_sums(x).isnan().tolist() == [False, True, False]
