"""Sparse matrices and sparse-dense products over the run axis.

* `CSRStructure`: where a matrix has entries, on a device; shared by all runs.
* `SparseMatrix`: a structure with values, one set for all runs or one per run; `matrix @ dense` has a gradient.
* `spmm`: the product without gradient, by a fused kernel or by PyTorch.
* `edge_add`, `edge_softmax`: what attention computes at every entry.

PyTorch's path treats R runs as one block-diagonal matrix with R copies of the structure. The structure of the
transposed matrix, which the backward pass needs, and the permutation of the values to it are computed once,
on a CPU when a product first needs them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from apgcn.ops.binary import BinaryForm
from apgcn.ops.dense import dense_kernels, matmul
from apgcn.ops.dispatch import MAX_WIDTH, select_kernels
from apgcn.ops.rng import PackedMask

LONG_ROW_NNZ = 64  # a row with more entries than this gets a GPU warp of its own
DENSE_THRESHOLD = 0.2  # above this density a GPU multiplies a dense matrix faster than a sparse one


class CSRIndex(NamedTuple):
    """CSR index arrays of a matrix, with its rows sorted by length.

    Attributes
    ----------
    indptr : Tensor of shape (rows + 1,)
        Where each row begins in `indices`.
    indices : Tensor of shape (nnz,)
        The column of every entry.
    row_order : Tensor of shape (rows,)
        Row numbers in descending order of length.
    long_rows : int
        How many rows have more than `LONG_ROW_NNZ` entries; they come first in `row_order`.
    """

    indptr: Tensor
    indices: Tensor
    row_order: Tensor
    long_rows: int


class CSRStructure:
    """The positions of a matrix' entries, on a device.

    Parameters
    ----------
    matrix : scipy.sparse.csr_matrix
        Only its structure is used, not its values.
    device : torch.device or str

    Attributes
    ----------
    shape : (rows, columns)
    nnz : int
        Number of stored entries.
    row, col : int64 Tensor of shape (nnz,)
        Row and column of every entry, row by row.
    csr, csr_transposed : Csr
        The same in CSR form, for the matrix and for its transpose.
    transpose_permutation : Tensor of shape (nnz,)
        `values[transpose_permutation]` are the values in the order of the transposed matrix.
    max_row_nnz, max_column_nnz : int
        Length of the longest row and of the longest column.
    """

    def __init__(self, matrix: sparse.csr_matrix, *, device: torch.device | str = "cpu"):
        self.shape: tuple[int, int] = matrix.shape
        self.nnz: int = matrix.nnz
        self.device = torch.device(device)
        self.csr = _csr(matrix, device)
        self.max_row_nnz = int(np.diff(matrix.indptr).max(initial=0))
        self.receptive_fields: dict[int, Any] = {}  # of all nodes, by the number of hops
        self.receptive_fields_of: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # of some nodes, by their tensor
        self._index_arrays = matrix.indices, matrix.indptr
        self._block_diagonal = _BlockDiagonal(self.csr, self.shape)
        if self.device.type != "cpu":  # before the recording of a CUDA graph, which allows no transfers
            self._transpose  # noqa: B018

    @cached_property
    def row(self) -> Tensor:
        row = np.repeat(np.arange(self.shape[0]), np.diff(self._index_arrays[1]))
        return torch.as_tensor(row.astype(np.int64), device=self.device)

    @cached_property
    def col(self) -> Tensor:
        return torch.as_tensor(np.array(self._index_arrays[0], np.int64), device=self.device)

    @property
    def csr_transposed(self) -> CSRIndex:
        return self._transpose.csr

    @cached_property
    def max_column_nnz(self) -> int:
        return int(self.csr_transposed.indptr.diff().max()) if self.nnz else 0

    @property
    def transpose_permutation(self) -> Tensor:
        return self._transpose.permutation

    @cached_property
    def _transpose(self) -> _Transpose:
        """Computed on first use on a CPU: a forward pass does not need it."""
        numbered = sparse.csr_matrix(
            (np.arange(1, self.nnz + 1), *self._index_arrays), shape=self.shape
        )  # counted from 1, because 0 is no entry
        transposed = numbered.T.tocsr()
        csr = _csr(transposed, self.device)
        permutation = torch.as_tensor(np.array(transposed.data - 1, _index_dtype(numbered)), device=self.device)
        return _Transpose(csr, permutation, _BlockDiagonal(csr, transposed.shape))

    def matrix(self, values: Tensor, *, transposed: bool = False) -> Tensor:
        """Return the block-diagonal CSR tensor with one block per set of values (copies, nnz), or its transpose."""
        if transposed:
            return self._transpose.block_diagonal.matrix(values.index_select(-1, self.transpose_permutation))
        return self._block_diagonal.matrix(values)


def _csr(matrix: sparse.csr_matrix, device: torch.device | str) -> CSRIndex:
    """Copy index arrays to a device, as int32 where that suffices, which makes all kernels faster."""
    lengths = np.diff(matrix.indptr)
    arrays = (matrix.indptr, matrix.indices, np.argsort(-lengths, kind="stable"))
    dtype = _index_dtype(matrix)
    indptr, indices, row_order = (torch.as_tensor(np.array(array, dtype), device=device) for array in arrays)
    return CSRIndex(indptr, indices, row_order, long_rows=int((lengths > LONG_ROW_NNZ).sum()))


def _index_dtype(matrix: sparse.csr_matrix) -> type[np.integer]:
    return np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64


class _BlockDiagonal:
    """Block-diagonal matrices of any number of copies of one structure.

    The index arrays are kept for the largest number of copies so far. Fewer copies use a prefix of them.
    """

    def __init__(self, csr: CSRIndex, shape: tuple[int, int]):
        self._csr = csr
        self._rows, self._columns = shape
        self._nnz = len(csr.indices)
        self._copies = 0

    def matrix(self, values: Tensor) -> Tensor:
        """Return the CSR tensor with values of shape (copies, nnz)."""
        copies = len(values)
        if copies > self._copies:
            self._build(copies)
        return torch.sparse_csr_tensor(
            self._indptr[: copies * self._rows + 1],
            self._indices[: copies * self._nnz],
            values.reshape(-1),
            size=(copies * self._rows, copies * self._columns),
            check_invariants=False,
        )

    def _build(self, copies: int) -> None:
        _silence_csr_warnings()
        indptr, indices = self._csr.indptr, self._csr.indices
        copy = torch.arange(copies, device=indices.device)[:, None]
        fits_int32 = max(copies * self._nnz, copies * self._columns) < 2**31
        dtype = torch.int32 if fits_int32 else torch.int64
        starts = (copy * self._nnz + indptr[:-1]).view(-1)
        end = starts.new_tensor([copies * self._nnz])
        self._indptr = torch.cat([starts, end]).to(dtype)
        self._indices = (copy * self._columns + indices).view(-1).to(dtype)
        self._copies = copies


class _Transpose(NamedTuple):
    """The structure of a transposed matrix, and the permutation of the values to its order."""

    csr: CSRIndex
    permutation: Tensor
    block_diagonal: _BlockDiagonal


@cache
def _silence_csr_warnings() -> None:
    """Build one CSR tensor with PyTorch's warnings ignored.

    PyTorch warns once per process that CSR support is in beta and that invariants are not checked.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1), check_invariants=False)


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A sparse matrix with values that all runs share, or with one set of values per run.

    Parameters
    ----------
    structure : CSRStructure
    values : Tensor of shape (nnz,) or (runs, nnz)
    mask : PackedMask of shape (runs, nnz), optional
        Dropout of the values that was drawn and is not yet applied.
    binary_form : BinaryForm, optional
        The matrix before dropout as bits, with which a GPU multiplies it.

    Examples
    --------
    >>> from scipy import sparse
    >>> structure = CSRStructure(sparse.csr_matrix([[0, 1], [1, 0]]))
    >>> matrix = SparseMatrix(structure, torch.tensor([2.0, 2.0]))
    >>> (matrix @ torch.tensor([[[1.0], [5.0]]])).flatten().tolist()
    [10.0, 2.0]
    """

    structure: CSRStructure
    values: Tensor
    mask: PackedMask | None = None
    binary_form: BinaryForm | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Multiply by a dense tensor of shape (runs, columns, channels); the result is (runs, rows, channels)."""
        if self.binary_form is not None:
            kernels = select_kernels(self.values, dense, rows=max(self.structure.shape), width=dense.shape[-1])
            if kernels and hasattr(kernels, "binary_matmul"):
                return _BinaryMatmul.apply(dense, kernels.binary_matrix(self.binary_form, self.mask), kernels)
        if self.prefer_dense:
            return matmul(self.dense, dense)
        if self.values.requires_grad or dense.device.type == "cpu":  # unpack the mask once for both directions
            return _SpMM.apply(self.masked_values, dense, self.structure, None)
        return _SpMM.apply(self.values, dense, self.structure, self.mask)

    @property
    def prefer_dense(self) -> bool:
        """Whether a GPU multiplies this matrix faster in dense form."""
        rows, columns = self.structure.shape
        is_constant = self.mask is None and self.values.ndim == 1 and not self.values.requires_grad
        return is_constant and self.values.is_cuda and self.structure.nnz > DENSE_THRESHOLD * rows * columns

    @cached_property
    def dense(self) -> Tensor:
        """`to_dense()`, computed once."""
        return self.to_dense()

    @property
    def masked_values(self) -> Tensor:
        """The values after dropout."""
        return _apply_mask(self.values, self.mask)

    def to_dense(self) -> Tensor:
        """Return the dense matrix of shape (rows, columns), for values that all runs share."""
        dense = self.values.new_zeros(self.structure.shape)
        dense[self.structure.row, self.structure.col] = self.masked_values
        return dense

    def row_sums(self) -> Tensor:
        """Return the sum of every row, (rows,) or (runs, rows), without gradient."""
        values = torch.atleast_2d(self.masked_values)
        ones = values.new_ones(len(values), self.structure.shape[1], 1)
        return spmm(self.structure, values, ones).view(*self.masked_values.shape[:-1], -1)


class _BinaryMatmul(torch.autograd.Function):
    """A product with a matrix of bits, which gets no gradient."""

    @staticmethod
    def forward(ctx, dense: Tensor, matrix: Any, kernels: ModuleType) -> Tensor:
        ctx.matrix, ctx.kernels = matrix, kernels
        return kernels.binary_matmul(matrix, dense)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return ctx.kernels.binary_matmul(ctx.matrix, grad_output, transposed=True), None, None


class _SpMM(torch.autograd.Function):
    """`spmm` with gradients for the values and for the dense tensor."""

    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, structure: CSRStructure, mask: PackedMask | None) -> Tensor:
        ctx.structure, ctx.mask = structure, mask
        ctx.save_for_backward(values, dense if ctx.needs_input_grad[0] else None)
        return spmm(structure, values, dense, mask)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        values, dense = ctx.saved_tensors
        structure = ctx.structure
        grad_values = grad_dense = None
        if ctx.needs_input_grad[0]:  # for entry (i, j): grad_output_i . dense_j
            grad_values = _sddmm(structure, grad_output, dense)
            grad_values = grad_values if values.ndim == 2 else grad_values.sum(0)
        if ctx.needs_input_grad[1]:
            grad_dense = spmm(structure, values, grad_output, ctx.mask, transposed=True)
        return grad_values, grad_dense, None, None


def _sddmm(structure: CSRStructure, a: Tensor, b: Tensor) -> Tensor:
    """Return a_i . b_j at every entry (i, j), (runs, nnz); a is (runs, rows, channels), b (runs, columns, channels)."""
    if kernels := dense_kernels(a, b, elements=max(structure.shape) * a.shape[-1]):
        return kernels.sddmm(structure, a, b)
    return (a[:, structure.row] * b[:, structure.col]).sum(-1)


def edge_add(structure: CSRStructure, rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows_i + columns_j at every entry (i, j), (copies, nnz).

    Shapes
    ------
    rows : (copies, rows)
    columns : (copies, columns)
    """
    return _EdgeAdd.apply(rows, columns, structure)


def edge_softmax(structure: CSRStructure, scores: Tensor) -> Tensor:
    """Return the softmax over the entries of every row, for scores of shape (copies, nnz)."""
    return _EdgeSoftmax.apply(scores, structure)


class _EdgeAdd(torch.autograd.Function):
    """`edge_add` with a backward pass of sparse products, which sum in the same order every time."""

    @staticmethod
    def forward(ctx, rows: Tensor, columns: Tensor, structure: CSRStructure) -> Tensor:
        ctx.structure = structure
        return rows.index_select(-1, structure.row) + columns.index_select(-1, structure.col)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        structure = ctx.structure
        ones = grad_output.new_ones(len(grad_output), structure.shape[0], 1)
        grad_columns = spmm(structure, grad_output, ones, transposed=True).squeeze(-1)
        return SparseMatrix(structure, grad_output).row_sums(), grad_columns, None


class _EdgeSoftmax(torch.autograd.Function):
    """`edge_softmax` with a backward pass of sparse products, which sum in the same order every time."""

    @staticmethod
    def forward(ctx, scores: Tensor, structure: CSRStructure) -> Tensor:
        row = structure.row.expand_as(scores)
        row_max = scores.new_full((len(scores), structure.shape[0]), -torch.inf)
        row_max.scatter_reduce_(-1, row, scores, "amax")
        exp = (scores - row_max.index_select(-1, structure.row)).exp()
        softmax = exp / SparseMatrix(structure, exp).row_sums().index_select(-1, structure.row)
        ctx.structure = structure
        ctx.save_for_backward(softmax)
        return softmax

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        (softmax,) = ctx.saved_tensors
        product = softmax * grad_output
        row_sums = SparseMatrix(ctx.structure, product).row_sums()
        return product - softmax * row_sums.index_select(-1, ctx.structure.row), None


def spmm(
    structure: CSRStructure, values: Tensor, dense: Tensor, mask: PackedMask | None = None, *, transposed: bool = False
) -> Tensor:
    """Sparse-dense product over the run axis, without gradient.

    The PyTorch path below is the reference of the kernels `kernels.cpu.spmm` and `kernels.gpu.spmm`;
    `test_spmm_matches_reference` in `tests/ops/test_kernels.py` compares them.

    Parameters
    ----------
    structure : CSRStructure
    values : Tensor of shape (nnz,) or (runs, nnz)
    dense : Tensor of shape (runs, columns, channels), or (runs, rows, channels) where `transposed`
    mask : PackedMask of shape (runs, nnz), optional
        Dropout of the values.
    transposed : bool
        Whether to multiply by the transposed matrix.

    Returns
    -------
    Tensor of shape (runs, rows, channels), or (runs, columns, channels) where `transposed`
    """
    if dense.is_cuda and dense.shape[-1] > MAX_WIDTH:  # cuSPARSE would sum in an order that depends on the batch
        chunks = dense.split(MAX_WIDTH, dim=-1)
        return torch.cat([spmm(structure, values, chunk, mask, transposed=transposed) for chunk in chunks], dim=-1)
    kernels = select_kernels(values, dense, rows=max(structure.shape), width=dense.shape[-1])
    if kernels:
        product = kernels.spmm(structure, torch.atleast_2d(values), mask, dense, transposed=transposed)
        if product is not None:
            return product
    values = _apply_mask(values, mask)
    runs, _, channels = dense.shape
    if values.ndim == 1:  # shared values: one product with (columns, runs * channels)
        wide = dense.transpose(0, 1).reshape(-1, runs * channels)
        return (structure.matrix(values[None], transposed=transposed) @ wide).view(-1, runs, channels).transpose(0, 1)
    return (structure.matrix(values, transposed=transposed) @ dense.reshape(-1, channels)).view(runs, -1, channels)


def _apply_mask(values: Tensor, mask: PackedMask | None) -> Tensor:
    return values if mask is None else values * mask.unpack().to(values)
