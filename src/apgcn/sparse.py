"""How does a sparse matrix multiply the activations of a pack of runs, forward and backward?

All runs share one pattern of entries. Where every run has values of its own (dropout), R copies of the matrix stand
along the diagonal of one large one; R' < R copies are its prefix. Where they share the values (evaluation), the runs
stand side by side as channels of one wide product. The pattern of the transposed matrix, which the backward pass
needs, and where each value goes in it, are found once.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn.kernels import kernels_for
from apgcn.noise import Coins


class Csr(NamedTuple):
    """Where each row begins in the list of columns, and the list."""

    pointers: Tensor
    columns: Tensor


class Pattern:
    """Where the entries of a matrix are, on a device.

    Attributes
    ----------
    shape : (rows, columns)
    entries : int
        How many places hold a value.
    rows, columns : Tensor of shape (entries,)
        The place of every value, row by row.
    straight, turned : Csr
        The same of the matrix and of the transposed one, for written-out loops.
    order : Tensor of shape (entries,)
        The transposed matrix' values, as positions in ours.
    longest : int
        The most entries of a row.
    schedule, turned_schedule : Tensor
        The rows of both, those with most entries first.
    """

    def __init__(self, matrix: sparse.csr_matrix, *, device: torch.device | str = "cpu"):
        self.shape: tuple[int, int] = matrix.shape
        self.entries: int = matrix.nnz
        self.device = torch.device(device)
        numbered = sparse.csr_matrix(
            (np.arange(1, matrix.nnz + 1), matrix.indices, matrix.indptr), shape=matrix.shape
        )  # counted from 1, because 0 is no entry
        turned = numbered.T.tocsr()
        on_device = lambda array: torch.as_tensor(np.asarray(array, np.int64), device=device)  # noqa: E731
        self.rows = on_device(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)))
        self.columns = on_device(matrix.indices)
        self.order = on_device(turned.data - 1)
        self.longest = int(np.diff(matrix.indptr).max(initial=0)) + 1
        size = torch.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else torch.int64
        self.straight = Csr(on_device(matrix.indptr).to(size), self.columns.to(size))
        self.turned = Csr(on_device(turned.indptr).to(size), on_device(turned.indices).to(size))
        self.schedule, self.turned_schedule = (
            torch.argsort(csr.pointers.diff(), descending=True, stable=True).to(size)
            for csr in (self.straight, self.turned)
        )
        self._blocks = _Blocks(*self.straight, matrix.shape)
        self._turned_blocks = _Blocks(*self.turned, turned.shape)

    def multiply(self, values: Tensor, dense: Tensor, coins: Coins | None = None, *, turned: bool = False) -> Tensor:
        """The product, or that with the transposed matrix, without gradient. See `SparseMatrix`."""
        kernels = kernels_for(values, dense)
        product = kernels and kernels.multiply(self, values.view(-1, self.entries), coins, dense, turned=turned)
        if product is not None:
            return product
        values = _unpacked(values, coins)
        if turned:
            return _product(self._turned_blocks, values.index_select(-1, self.order), dense)
        return _product(self._blocks, values, dense)


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
    >>> swap = Pattern(sparse.csr_matrix([[0, 1], [1, 0]]))
    >>> doubled_swap = SparseMatrix(swap, torch.tensor([2.0, 2.0]))
    >>> (doubled_swap @ torch.tensor([[[1.0], [5.0]]])).flatten().tolist()
    [10.0, 2.0]
    """

    pattern: Pattern
    values: Tensor
    coins: Coins | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Times a dense tensor of shape (runs, columns, channels): (runs, rows, channels)."""
        if self.values.requires_grad or dense.device.type == "cpu":  # once, for both directions
            return _Product.apply(self.dropped, dense, self.pattern, None)
        return _Product.apply(self.values, dense, self.pattern, self.coins)

    @property
    def dropped(self) -> Tensor:
        """The values after dropout."""
        return _unpacked(self.values, self.coins)

    def to_dense(self) -> Tensor:
        """All places, the empty ones too, of shared values: (rows, columns)."""
        dense = self.values.new_zeros(self.pattern.shape)
        dense[self.pattern.rows, self.pattern.columns] = self.values
        return dense

    def row_sums(self) -> Tensor:
        """The sum of every row, (rows,) or (runs, rows), without gradient."""
        values = self.dropped.view(-1, self.pattern.entries)
        ones = values.new_ones(len(values), self.pattern.shape[1], 1)
        return self.pattern.multiply(values, ones).view(*self.dropped.shape[:-1], -1)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, pattern: Pattern, coins: Coins | None) -> Tensor:
        ctx.pattern, ctx.coins = pattern, coins
        ctx.save_for_backward(values, dense if ctx.needs_input_grad[0] else None)
        return pattern.multiply(values, dense, coins)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        values, dense = ctx.saved_tensors
        pattern = ctx.pattern
        to_values = to_dense = None
        if ctx.needs_input_grad[0]:  # how much entry (i, j) matters: gradient_i . dense_j
            to_values = (gradient[:, pattern.rows] * dense[:, pattern.columns]).sum(-1)
            to_values = to_values if values.ndim == 2 else to_values.sum(0)
        if ctx.needs_input_grad[1]:
            to_dense = pattern.multiply(values, gradient, ctx.coins, turned=True)
        return to_values, to_dense, None, None


def pair_sums(pattern: Pattern, rows: Tensor, columns: Tensor) -> Tensor:
    """rows_i + columns_j at every entry (i, j), from tensors of shape (copies, rows) and (copies, columns)."""
    return _PairSums.apply(rows, columns, pattern)


def row_softmax(pattern: Pattern, scores: Tensor) -> Tensor:
    """The softmax over the entries of every row, for scores of shape (copies, entries)."""
    return _RowSoftmax.apply(scores, pattern)


class _PairSums(torch.autograd.Function):
    """Written out for its backward pass: sums over rows and columns as products, in the same order every time."""

    @staticmethod
    def forward(ctx, rows: Tensor, columns: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        return rows.index_select(-1, pattern.rows) + columns.index_select(-1, pattern.columns)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        pattern = ctx.pattern
        ones = gradient.new_ones(len(gradient), pattern.shape[0], 1)
        to_columns = pattern.multiply(gradient, ones, turned=True).squeeze(-1)
        return SparseMatrix(pattern, gradient).row_sums(), to_columns, None


class _RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, pattern: Pattern) -> Tensor:
        rows = pattern.rows.expand_as(scores)
        highest = scores.new_full((len(scores), pattern.shape[0]), -torch.inf)
        highest.scatter_reduce_(-1, rows, scores, "amax")
        raised = (scores - highest.index_select(-1, pattern.rows)).exp()
        shares = raised / SparseMatrix(pattern, raised).row_sums().index_select(-1, pattern.rows)
        ctx.pattern = pattern
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (shares,) = ctx.saved_tensors
        weighed = shares * gradient
        sums = SparseMatrix(ctx.pattern, weighed).row_sums()
        return weighed - shares * sums.index_select(-1, ctx.pattern.rows), None


def _unpacked(values: Tensor, coins: Coins | None) -> Tensor:
    return values if coins is None else values * coins.factors().to(values)


def _product(blocks: _Blocks, values: Tensor, dense: Tensor) -> Tensor:
    runs, _, channels = dense.shape
    if values.ndim == 1:  # shared: (columns, runs * channels), one wide product
        wide = dense.transpose(0, 1).reshape(-1, runs * channels)
        return (blocks.matrix(values[None]) @ wide).view(-1, runs, channels).transpose(0, 1)
    return (blocks.matrix(values) @ dense.reshape(-1, channels)).view(runs, -1, channels)


class _Blocks:
    """Copies of one pattern along the diagonal of a large one, as many as were ever asked for."""

    def __init__(self, pointers: Tensor, columns: Tensor, shape: tuple[int, int]):
        self.rows, self.width = shape
        self.entries = len(columns)
        self._one = pointers, columns
        self._copies = 0

    def matrix(self, values: Tensor) -> Tensor:
        """A CSR tensor from values of shape (copies, entries)."""
        copies = len(values)
        if copies > self._copies:
            self._lay(copies)
        return torch.sparse_csr_tensor(
            self._pointers[: copies * self.rows + 1],
            self._columns[: copies * self.entries],
            values.reshape(-1),
            size=(copies * self.rows, copies * self.width),
            check_invariants=False,
        )

    def _lay(self, copies: int) -> None:
        _hear_the_warnings()
        pointers, columns = self._one
        number = torch.arange(copies, device=columns.device)[:, None]
        fits = max(copies * self.entries, copies * self.width) < 2**31
        dtype = torch.int32 if fits else torch.int64  # the libraries below are faster with 32 bits
        starts = (number * self.entries + pointers[:-1]).view(-1)
        end = starts.new_tensor([copies * self.entries])
        self._pointers = torch.cat([starts, end]).to(dtype)
        self._columns = (number * self.width + columns).view(-1).to(dtype)
        self._copies = copies


@cache
def _hear_the_warnings() -> None:
    """PyTorch says once per process that CSR tensors are young and unchecked; that is known here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1), check_invariants=False)
