import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.ops.sparse import Pattern, SparseMatrix

RECTANGLE = sparse.random(6, 4, density=0.4, random_state=np.random.default_rng(1), format="csr")


def dense_of(matrix: SparseMatrix) -> torch.Tensor:
    """(runs, rows, columns), entry by entry."""
    values = torch.atleast_2d(matrix.values)
    dense = values.new_zeros(len(values), *matrix.pattern.shape)
    for entry, (row, column) in enumerate(zip(matrix.pattern.rows, matrix.pattern.columns, strict=True)):
        dense[:, row, column] = values[:, entry]
    return dense


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_products_equal_dense_ones(runs, shared):
    pattern = Pattern(RECTANGLE)
    torch.manual_seed(0)
    values = torch.randn(pattern.entries) if shared else torch.randn(runs, pattern.entries)
    matrix, x = SparseMatrix(pattern, values), torch.randn(runs, 4, 5)
    torch.testing.assert_close(matrix @ x, dense_of(matrix) @ x)
    torch.testing.assert_close(matrix.row_sums(), dense_of(matrix).sum(-1).reshape(*values.shape[:-1], -1))


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_equal_finite_differences(shared):
    pattern = Pattern(RECTANGLE)
    torch.manual_seed(0)
    values = torch.randn(*([] if shared else [2]), pattern.entries, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values, x: SparseMatrix(pattern, values) @ x, (values, x))


def test_fewer_runs_than_before_use_the_first_blocks():
    pattern = Pattern(RECTANGLE)
    torch.manual_seed(0)
    values, x = torch.randn(5, pattern.entries), torch.randn(5, 4, 2)
    all_runs = SparseMatrix(pattern, values) @ x
    torch.testing.assert_close(SparseMatrix(pattern, values[2:4]) @ x[2:4], all_runs[2:4])


def test_an_empty_row_gives_zero():
    pattern = Pattern(sparse.csr_matrix([[0.0, 0.0], [0.0, 1.0]]))
    product = SparseMatrix(pattern, torch.ones(1)) @ torch.ones(1, 2, 3)
    torch.testing.assert_close(product, torch.tensor([[[0.0] * 3, [1.0] * 3]]))
