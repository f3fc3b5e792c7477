"""Where are the entries of a matrix, on a device?

All runs share one pattern. R copies of the matrix stand along the diagonal of one large one; R' < R copies are its
prefix. The pattern of the transposed matrix, which the backward pass needs, and where each value goes in it, are found
once.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn.ops.dispatch import select_kernels
from apgcn.ops.rng import PackedMask

HEAVY = 64  # entries of a row, and a warp of a GPU has it for itself


class Csr(NamedTuple):
    """The entries of a matrix, row by row.

    Attributes
    ----------
    pointers : Tensor of shape (rows + 1,)
        Where each row begins in the list of columns.
    columns : Tensor of shape (entries,)
    schedule : Tensor of shape (rows,)
        The rows, those with most entries first.
    heavy : int
        How many of them have more than `HEAVY` entries.
    """

    pointers: Tensor
    columns: Tensor
    schedule: Tensor
    heavy: int


class CSRStructure:
    """Where the entries of a matrix are, on a device.

    Attributes
    ----------
    shape : (rows, columns)
    entries : int
        How many places hold a value.
    rows, columns : Tensor of shape (entries,)
        The place of every value, row by row.
    straight, turned : Csr
        The same, of the matrix and of the transposed one.
    order : Tensor of shape (entries,)
        The transposed matrix' values, as positions in ours.
    longest : int
        No row has as many entries.
    """

    def __init__(self, matrix: sparse.csr_matrix, *, device: torch.device | str = "cpu"):
        self.shape: tuple[int, int] = matrix.shape
        self.nnz: int = matrix.nnz
        self.device = torch.device(device)
        numbered = sparse.csr_matrix(
            (np.arange(1, matrix.nnz + 1), matrix.indices, matrix.indptr), shape=matrix.shape
        )  # counted from 1, because 0 is no entry
        transposed = numbered.T.tocsr()
        self.straight, self.transposed = (_csr(one, device) for one in (matrix, transposed))
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.rows, self.columns = (
            torch.as_tensor(np.array(one, np.int64), device=device) for one in (rows, matrix.indices)
        )
        self.order = torch.as_tensor(np.array(transposed.data - 1, _size(matrix)), device=device)
        self.longest = int(np.diff(matrix.indptr).max(initial=0)) + 1
        self._blocks = _Blocks(self.straight, self.shape), _Blocks(self.transposed, transposed.shape)

    def matrix(self, values: Tensor, *, transposed: bool = False) -> Tensor:
        """A CSR tensor of as many copies as there are sets of values (copies, entries); or that of the transposed."""
        if transposed:
            values = values.index_select(-1, self.order)
        return self._blocks[transposed].matrix(values)


def _csr(matrix: sparse.csr_matrix, device: torch.device | str) -> Csr:
    """In 32 bits where they suffice, which makes everything faster."""
    lengths = np.diff(matrix.indptr)
    arrays = (matrix.indptr, matrix.indices, np.argsort(-lengths, kind="stable"))
    pointers, columns, schedule = (torch.as_tensor(np.array(one, _size(matrix)), device=device) for one in arrays)
    return Csr(pointers, columns, schedule, heavy=int((lengths > HEAVY).sum()))


def _size(matrix: sparse.csr_matrix) -> type[np.integer]:
    return np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64


class _Blocks:
    """Copies of one pattern along the diagonal of a large one, as many as were ever asked for."""

    def __init__(self, one: Csr, shape: tuple[int, int]):
        self.rows, self.width = shape
        self.nnz = len(one.columns)
        self._one = one
        self._copies = 0

    def matrix(self, values: Tensor) -> Tensor:
        copies = len(values)
        if copies > self._copies:
            self._lay(copies)
        return torch.sparse_csr_tensor(
            self._pointers[: copies * self.rows + 1],
            self._columns[: copies * self.nnz],
            values.reshape(-1),
            size=(copies * self.rows, copies * self.width),
            check_invariants=False,
        )

    def _lay(self, copies: int) -> None:
        _hear_the_warnings()
        pointers, columns = self._one[:2]
        number = torch.arange(copies, device=columns.device)[:, None]
        fits = max(copies * self.nnz, copies * self.width) < 2**31
        dtype = torch.int32 if fits else torch.int64
        starts = (number * self.nnz + pointers[:-1]).view(-1)
        end = starts.new_tensor([copies * self.nnz])
        self._pointers = torch.cat([starts, end]).to(dtype)
        self._columns = (number * self.width + columns).view(-1).to(dtype)
        self._copies = copies


@cache
def _hear_the_warnings() -> None:
    """PyTorch says once per process that CSR tensors are young and unchecked; that is known here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1), check_invariants=False)


DENSE = 0.2  # of the places hold a value: then a GPU multiplies faster as if all did


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A pattern with values, shared by all runs or one set for each.

    Parameters
    ----------
    pattern : Pattern
    values : Tensor of shape (entries,) or (runs, entries)
    coins : Coins of shape (runs, entries), optional
        A dropout of the values that was drawn and is not yet carried out.

    Examples
    --------
    >>> from scipy import sparse
    >>> all_to_all = CSRStructure(sparse.csr_matrix([[0, 1], [1, 0]]))
    >>> doubled_swap = SparseMatrix(all_to_all, torch.tensor([2.0, 2.0]))
    >>> (doubled_swap @ torch.tensor([[[1.0], [5.0]]])).flatten().tolist()
    [10.0, 2.0]
    """

    structure: CSRStructure
    values: Tensor
    mask: PackedMask | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Times a dense tensor of shape (runs, columns, channels): (runs, rows, channels)."""
        if self.rather_dense:
            return self.dense @ dense
        if self.values.requires_grad or dense.device.type == "cpu":  # once, for both directions
            return _SpMM.apply(self.dropped, dense, self.structure, None)
        return _SpMM.apply(self.values, dense, self.structure, self.mask)

    @property
    def rather_dense(self) -> bool:
        """Whether a GPU multiplies it faster with the zeros written out."""
        rows, columns = self.structure.shape
        alike = self.mask is None and self.values.ndim == 1 and not self.values.requires_grad
        return alike and self.values.is_cuda and self.structure.nnz > DENSE * rows * columns

    @cached_property
    def dense(self) -> Tensor:
        """All places, the empty ones too, of shared values: (rows, columns)."""
        return self.to_dense()

    @property
    def dropped(self) -> Tensor:
        """The values after dropout."""
        return _unpacked(self.values, self.mask)

    def to_dense(self) -> Tensor:
        """All places, the empty ones too, of shared values: (rows, columns)."""
        dense = self.values.new_zeros(self.structure.shape)
        dense[self.structure.rows, self.structure.columns] = self.dropped
        return dense

    def row_sums(self) -> Tensor:
        """The sum of every row, (rows,) or (runs, rows), without gradient."""
        values = torch.atleast_2d(self.dropped)
        ones = values.new_ones(len(values), self.structure.shape[1], 1)
        return spmm(self.structure, values, ones).view(*self.dropped.shape[:-1], -1)


class _SpMM(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, structure: CSRStructure, mask: PackedMask | None) -> Tensor:
        ctx.structure, ctx.mask = structure, mask
        ctx.save_for_backward(values, dense if ctx.needs_input_grad[0] else None)
        return spmm(structure, values, dense, mask)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        values, dense = ctx.saved_tensors
        structure = ctx.structure
        to_values = to_dense = None
        if ctx.needs_input_grad[0]:  # how much entry (i, j) matters: gradient_i . dense_j
            to_values = (gradient[:, structure.rows] * dense[:, structure.columns]).sum(-1)
            to_values = to_values if values.ndim == 2 else to_values.sum(0)
        if ctx.needs_input_grad[1]:
            to_dense = spmm(structure, values, gradient, ctx.mask, transposed=True)
        return to_values, to_dense, None, None


def edge_add(structure: CSRStructure, rows: Tensor, columns: Tensor) -> Tensor:
    """rows_i + columns_j at every entry (i, j), from tensors of shape (copies, rows) and (copies, columns)."""
    return _EdgeAdd.apply(rows, columns, structure)


def edge_softmax(structure: CSRStructure, scores: Tensor) -> Tensor:
    """The softmax over the entries of every row, for scores of shape (copies, entries)."""
    return _EdgeSoftmax.apply(scores, structure)


class _EdgeAdd(torch.autograd.Function):
    """Written out for its backward pass: sums over rows and columns as products, in the same order every time."""

    @staticmethod
    def forward(ctx, rows: Tensor, columns: Tensor, structure: CSRStructure) -> Tensor:
        ctx.structure = structure
        return rows.index_select(-1, structure.rows) + columns.index_select(-1, structure.columns)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        structure = ctx.structure
        ones = gradient.new_ones(len(gradient), structure.shape[0], 1)
        to_columns = spmm(structure, gradient, ones, transposed=True).squeeze(-1)
        return SparseMatrix(structure, gradient).row_sums(), to_columns, None


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, structure: CSRStructure) -> Tensor:
        rows = structure.rows.expand_as(scores)
        highest = scores.new_full((len(scores), structure.shape[0]), -torch.inf)
        highest.scatter_reduce_(-1, rows, scores, "amax")
        raised = (scores - highest.index_select(-1, structure.rows)).exp()
        shares = raised / SparseMatrix(structure, raised).row_sums().index_select(-1, structure.rows)
        ctx.structure = structure
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (shares,) = ctx.saved_tensors
        weighed = shares * gradient
        sums = SparseMatrix(ctx.structure, weighed).row_sums()
        return weighed - shares * sums.index_select(-1, ctx.structure.rows), None


def spmm(
    structure: CSRStructure, values: Tensor, dense: Tensor, mask: PackedMask | None = None, *, transposed: bool = False
) -> Tensor:
    """The product, or that with the transposed matrix, without gradient; shapes as in `SparseMatrix`."""
    kernels = select_kernels(values, dense, rows=max(structure.shape), width=dense.shape[-1])
    if kernels:
        product = kernels.spmm(structure, torch.atleast_2d(values), mask, dense, transposed=transposed)
        if product is not None:
            return product
    values = _unpacked(values, mask)
    runs, _, channels = dense.shape
    if values.ndim == 1:  # shared: (columns, runs * channels), one wide product
        wide = dense.transpose(0, 1).reshape(-1, runs * channels)
        return (structure.matrix(values[None], transposed=transposed) @ wide).view(-1, runs, channels).transpose(0, 1)
    return (structure.matrix(values, transposed=transposed) @ dense.reshape(-1, channels)).view(runs, -1, channels)


def _unpacked(values: Tensor, mask: PackedMask | None) -> Tensor:
    return values if mask is None else values * mask.factors().to(values)
