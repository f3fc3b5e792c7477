"""Layers without propagation, over the run axis: dropout, initialisation, linear layers and the MLP."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TypeVar

import torch
from torch import Tensor, nn

from apgcn.ops import dense
from apgcn.ops.dispatch import select_kernels
from apgcn.ops.kernels.autograd import FusedMLP, SparseLinear
from apgcn.ops.rng import PackedMask, RandomStream
from apgcn.ops.sparse import SparseMatrix

Values = TypeVar("Values", bound=Tensor | SparseMatrix)


def dropout(x: Values, rate: float, rng: RandomStream | None) -> Values:
    """Set each value to zero with probability `rate` and scale the others by 1 / (1 - rate).

    Without `rng`, that is in evaluation, x is returned unchanged. Of a sparse matrix only the stored values are
    dropped; values that all runs share become one set per run.
    """
    if rng is None or rate == 0:
        return x
    if isinstance(x, SparseMatrix):
        form = x.binary_form if x.mask is None else None
        return SparseMatrix(x.structure, x.masked_values, rng.packed_dropout_mask(x.structure.nnz, rate=rate), form)  # type: ignore[return-value]
    shape = x.shape if x.ndim == 2 else x.shape[1:]  # (nodes, channels), shared or per run
    return x * rng.dropout_mask(*shape, rate=rate).to(x)  # type: ignore[return-value]


def glorot(rng: RandomStream, *shape: int) -> nn.Parameter:
    """A weight of shape (runs, *shape), uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010).

    Inputs and outputs are the last two axes of the shape; axes before them are stacks or heads.
    """
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return nn.Parameter((2 * rng.uniform(*shape) - 1) * bound)


def zeros(rng: RandomStream, *shape: int) -> nn.Parameter:
    """A bias of shape (runs, *shape), initially zero."""
    return nn.Parameter(torch.zeros(rng.runs, *shape, device=rng.device))


def matmul(x: Tensor | SparseMatrix, weight: Tensor) -> Tensor:
    """x W for features x that are sparse or dense, shared or one set per run, and W (runs, in_channels, out_channels).

    Returns
    -------
    Tensor of shape (runs, nodes, out_channels)
    """
    return x @ weight if isinstance(x, SparseMatrix) else dense.matmul(x, weight)


def stacked_matmul(x: Tensor | SparseMatrix, weights: Tensor) -> Tensor:
    """x times several weights (runs, stacks, in_channels, out_channels) in one product.

    Returns
    -------
    Tensor of shape (runs, stacks, nodes, out_channels)
    """
    runs, stacks, in_channels, out_channels = weights.shape
    concatenated = matmul(x, weights.transpose(1, 2).reshape(runs, in_channels, stacks * out_channels))
    return concatenated.view(runs, -1, stacks, out_channels).transpose(1, 2)


class Linear(nn.Module):
    """x W + b with one weight per run, initialised like `torch.nn.Linear`.

    Parameters
    ----------
    in_channels, out_channels : int
    rng : RandomStream
        Draws the initial weights and biases, uniform in +-1/sqrt(in_channels), for each of its runs.

    Shapes
    ------
    x : (nodes, in_channels) shared, or (runs, nodes, in_channels), or a SparseMatrix with that many columns
    output : (runs, nodes, out_channels)
    """

    def __init__(self, in_channels: int, out_channels: int, *, rng: RandomStream):
        super().__init__()
        bound = 1 / math.sqrt(in_channels)
        self.weight = nn.Parameter((2 * rng.uniform(in_channels, out_channels) - 1) * bound)
        self.bias = nn.Parameter((2 * rng.uniform(1, out_channels) - 1) * bound)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        if isinstance(x, SparseMatrix):
            return dense.add_bias(x @ self.weight, self.bias)
        if x.device.type == "cpu" and x.ndim == 3 and not dense.dense_kernels(x):
            return _TransposedMatmul.apply(x, self.weight) + self.bias
        return dense.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        runs, in_channels, out_channels = self.weight.shape
        return f"{in_channels}, {out_channels}, runs={runs}"


class _TransposedMatmul(torch.autograd.Function):
    """x W as (W' x')', for dense x of many rows and W of few columns.

    On a CPU the BLAS library is six times as fast with a short first factor as with a narrow second one.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.bmm(weight.transpose(1, 2), x.transpose(1, 2)).transpose(1, 2)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight.transpose(1, 2) if ctx.needs_input_grad[0] else None
        grad_weight = torch.bmm(grad_output.transpose(1, 2), x).transpose(1, 2) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight


class MLP(nn.Module):
    """Multilayer perceptron of two layers at every node: ReLU(x W_1 + b_1) W_2 + b_2, dropout before each layer.

    Shapes as in `Linear`.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, *, dropout: float, rng: RandomStream):
        super().__init__()
        self.dropout = dropout
        self.first = Linear(in_channels, hidden_channels, rng=rng)
        self.second = Linear(hidden_channels, out_channels, rng=rng)

    def forward(self, x: Tensor | SparseMatrix, rng: RandomStream | None = None) -> Tensor:
        kernels = self._select_kernels(x, rng)
        if kernels and hasattr(kernels, "mlp"):
            parameters = self.first.weight, self.first.bias, self.second.weight, self.second.bias
            return FusedMLP.apply(*parameters, *self._draw_masks(x, rng), kernels)
        if isinstance(x, SparseMatrix) and kernels:
            return self.second(self._fused_hidden(x, rng, kernels))
        h = self.first(dropout(x, self.dropout, rng)).relu()
        return self.second(dropout(h, self.dropout, rng))

    def _select_kernels(self, x: Tensor | SparseMatrix, rng: RandomStream | None) -> ModuleType | None:
        """The kernels for these features, if there are any."""
        values = x.values if isinstance(x, SparseMatrix) else x
        if values.requires_grad:
            return None
        if isinstance(x, SparseMatrix) and x.prefer_dense and x.binary_form is None and rng is None:
            return None
        rows = max(x.structure.shape if isinstance(x, SparseMatrix) else x.shape[-2:])
        width = max(self.first.bias.shape[-1], self.second.bias.shape[-1])
        return select_kernels(self.first.weight, values, rows=rows, width=width)

    def _draw_masks(
        self, x: Tensor | SparseMatrix, rng: RandomStream | None
    ) -> tuple[Tensor | SparseMatrix, PackedMask | None, PackedMask | None]:
        """The features before dropout, their mask, and the mask of the hidden activations."""
        if isinstance(x, SparseMatrix):
            dropped, num_nodes = dropout(x, self.dropout, rng), x.structure.shape[0]
            x, feature_mask = SparseMatrix(x.structure, dropped.values), dropped.mask
        else:
            num_nodes = x.shape[-2]
            feature_mask = self._draw_mask(rng, *x.shape[-2:])
        return x, feature_mask, self._draw_mask(rng, num_nodes, self.first.bias.shape[-1])

    def _draw_mask(self, rng: RandomStream | None, *shape: int) -> PackedMask | None:
        return None if rng is None or self.dropout == 0 else rng.packed_dropout_mask(*shape, rate=self.dropout)

    def _fused_hidden(self, x: SparseMatrix, rng: RandomStream | None, kernels: ModuleType) -> Tensor:
        """The hidden layer after dropout over sparse features, in a fused kernel."""
        features = dropout(x, self.dropout, rng)
        mask = self._draw_mask(rng, x.structure.shape[0], self.first.bias.shape[-1])
        return SparseLinear.apply(self.first.weight, self.first.bias, features, mask, kernels)
