import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.ops.sparse import CSRStructure, SparseMatrix

RECTANGLE = sparse.random(6, 4, density=0.4, random_state=np.random.default_rng(1), format="csr")


def to_dense(matrix: SparseMatrix) -> torch.Tensor:
    """(runs, rows, columns), entry by entry."""
    values = torch.atleast_2d(matrix.values)
    dense = values.new_zeros(len(values), *matrix.structure.shape)
    for entry, (row, column) in enumerate(zip(matrix.structure.row, matrix.structure.col, strict=True)):
        dense[:, row, column] = values[:, entry]
    return dense


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_products_equal_dense_ones(runs, shared):
    structure = CSRStructure(RECTANGLE)
    torch.manual_seed(0)
    values = torch.randn(structure.nnz) if shared else torch.randn(runs, structure.nnz)
    matrix, x = SparseMatrix(structure, values), torch.randn(runs, 4, 5)
    torch.testing.assert_close(matrix @ x, to_dense(matrix) @ x)
    torch.testing.assert_close(matrix.row_sums(), to_dense(matrix).sum(-1).reshape(*values.shape[:-1], -1))


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_equal_finite_differences(shared):
    structure = CSRStructure(RECTANGLE)
    torch.manual_seed(0)
    values = torch.randn(*([] if shared else [2]), structure.nnz, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values, x: SparseMatrix(structure, values) @ x, (values, x))


def test_fewer_runs_than_before_use_a_prefix_of_the_block_diagonal():
    structure = CSRStructure(RECTANGLE)
    torch.manual_seed(0)
    values, x = torch.randn(5, structure.nnz), torch.randn(5, 4, 2)
    all_runs = SparseMatrix(structure, values) @ x
    torch.testing.assert_close(SparseMatrix(structure, values[2:4]) @ x[2:4], all_runs[2:4])


def test_an_empty_row_gives_zero():
    structure = CSRStructure(sparse.csr_matrix([[0.0, 0.0], [0.0, 1.0]]))
    product = SparseMatrix(structure, torch.ones(1)) @ torch.ones(1, 2, 3)
    torch.testing.assert_close(product, torch.tensor([[[0.0] * 3, [1.0] * 3]]))
