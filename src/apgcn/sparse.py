"""How does a sparse matrix multiply the activations of a pack of runs, forward and backward?

Where every run has values of its own (dropout), copies of the matrix stand along the diagonal of one large one. Where
the runs share the values (evaluation), they stand side by side as channels of one wide product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from apgcn.loops import loops_for
from apgcn.noise import Coins
from apgcn.pattern import Pattern

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
        if self.rather_dense:
            return self.dense @ dense
        if self.values.requires_grad or dense.device.type == "cpu":  # once, for both directions
            return _Product.apply(self.dropped, dense, self.pattern, None)
        return _Product.apply(self.values, dense, self.pattern, self.coins)

    @property
    def rather_dense(self) -> bool:
        """Whether a GPU multiplies it faster with the zeros written out."""
        rows, columns = self.pattern.shape
        alike = self.coins is None and self.values.ndim == 1 and not self.values.requires_grad
        return alike and self.values.is_cuda and self.pattern.entries > DENSE * rows * columns

    @cached_property
    def dense(self) -> Tensor:
        """All places, the empty ones too, of shared values: (rows, columns)."""
        return self.to_dense()

    @property
    def dropped(self) -> Tensor:
        """The values after dropout."""
        return _unpacked(self.values, self.coins)

    def to_dense(self) -> Tensor:
        """All places, the empty ones too, of shared values: (rows, columns)."""
        dense = self.values.new_zeros(self.pattern.shape)
        dense[self.pattern.rows, self.pattern.columns] = self.dropped
        return dense

    def row_sums(self) -> Tensor:
        """The sum of every row, (rows,) or (runs, rows), without gradient."""
        values = torch.atleast_2d(self.dropped)
        ones = values.new_ones(len(values), self.pattern.shape[1], 1)
        return multiply(self.pattern, values, ones).view(*self.dropped.shape[:-1], -1)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, pattern: Pattern, coins: Coins | None) -> Tensor:
        ctx.pattern, ctx.coins = pattern, coins
        ctx.save_for_backward(values, dense if ctx.needs_input_grad[0] else None)
        return multiply(pattern, values, dense, coins)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        values, dense = ctx.saved_tensors
        pattern = ctx.pattern
        to_values = to_dense = None
        if ctx.needs_input_grad[0]:  # how much entry (i, j) matters: gradient_i . dense_j
            to_values = (gradient[:, pattern.rows] * dense[:, pattern.columns]).sum(-1)
            to_values = to_values if values.ndim == 2 else to_values.sum(0)
        if ctx.needs_input_grad[1]:
            to_dense = multiply(pattern, values, gradient, ctx.coins, turned=True)
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
        to_columns = multiply(pattern, gradient, ones, turned=True).squeeze(-1)
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


def multiply(
    pattern: Pattern, values: Tensor, dense: Tensor, coins: Coins | None = None, *, turned: bool = False
) -> Tensor:
    """The product, or that with the transposed matrix, without gradient; shapes as in `SparseMatrix`."""
    kernels = loops_for(values, dense, rows=max(pattern.shape), width=dense.shape[-1])
    if kernels:
        product = kernels.multiply(pattern, torch.atleast_2d(values), coins, dense, turned=turned)
        if product is not None:
            return product
    values = _unpacked(values, coins)
    runs, _, channels = dense.shape
    if values.ndim == 1:  # shared: (columns, runs * channels), one wide product
        wide = dense.transpose(0, 1).reshape(-1, runs * channels)
        return (pattern.matrix(values[None], turned=turned) @ wide).view(-1, runs, channels).transpose(0, 1)
    return (pattern.matrix(values, turned=turned) @ dense.reshape(-1, channels)).view(runs, -1, channels)


def _unpacked(values: Tensor, coins: Coins | None) -> Tensor:
    return values if coins is None else values * coins.factors().to(values)
