"""What is computed at a node, without listening? Dropout and linear maps, for a pack of runs."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TypeVar

import torch
from torch import Tensor, nn

from apgcn.ops.dispatch import select_kernels
from apgcn.ops.kernels.sparse_linear import SparseLinear
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix

Values = TypeVar("Values", bound=Tensor | SparseMatrix)


def dropout(x: Values, rate: float, rng: RandomStream | None) -> Values:
    """Set each value to zero with probability `rate` and enlarge the others to make up for it.

    Without noise, which means in evaluation, x comes back as it is. Of a sparse matrix only the stored values are
    touched; those that all runs share become one set per run.
    """
    if rng is None or rate == 0:
        return x
    if isinstance(x, SparseMatrix):
        return SparseMatrix(x.structure, x.dropped, rng.packed_dropout_mask(x.structure.nnz, rate=rate))  # type: ignore[return-value]
    shape = x.shape if x.ndim == 2 else x.shape[1:]  # (nodes, channels), shared or per run
    return x * rng.dropout_mask(*shape, rate=rate).to(x)  # type: ignore[return-value]


def glorot(rng: RandomStream, *shape: int) -> nn.Parameter:
    """A weight of shape (runs, *shape), uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010).

    Inputs and outputs are the last two of the shape; axes before them count stacks or heads.
    """
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return nn.Parameter((2 * rng.uniform(*shape) - 1) * bound)


def zeros(rng: RandomStream, *shape: int) -> nn.Parameter:
    """A bias of shape (runs, *shape) that starts at nothing."""
    return nn.Parameter(torch.zeros(rng.runs, *shape, device=rng.device))


def stacked_matmul(x: Tensor | SparseMatrix, weights: Tensor) -> Tensor:
    """x times several weights (runs, stacks, inputs, outputs) in one wide product: (runs, stacks, nodes, outputs)."""
    runs, stacks, inputs, outputs = weights.shape
    wide = x @ weights.transpose(1, 2).reshape(runs, inputs, stacks * outputs)
    return wide.view(runs, -1, stacks, outputs).transpose(1, 2)


class Linear(nn.Module):
    """x W + b with a weight of its own for every run, started like `torch.nn.Linear`.

    Parameters
    ----------
    noise : Noise
        Draws the initial weights and biases, uniform in +-1/sqrt(inputs), and says how many runs there are.

    Shapes
    ------
    x : (nodes, inputs) shared, or (runs, nodes, inputs), or a SparseMatrix with that many columns
    returned : (runs, nodes, outputs)
    """

    def __init__(self, inputs: int, outputs: int, *, rng: RandomStream):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter((2 * rng.uniform(inputs, outputs) - 1) * bound)
        self.bias = nn.Parameter((2 * rng.uniform(1, outputs) - 1) * bound)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        if isinstance(x, Tensor) and x.ndim == 3:
            return (
                torch.baddbmm(self.bias, x, self.weight)
                if x.is_cuda
                else _TransposedMatmul.apply(x, self.weight) + self.bias
            )
        return x @ self.weight + self.bias

    def extra_repr(self) -> str:
        runs, inputs, outputs = self.weight.shape
        return f"{inputs}, {outputs}, runs={runs}"


class _TransposedMatmul(torch.autograd.Function):
    """x W as (W' x')', for dense x of many rows and W of few columns.

    The library for products on a processor is six times as fast with a short first factor as with a narrow second one.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.bmm(weight.transpose(1, 2), x.transpose(1, 2)).transpose(1, 2)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        x, weight = ctx.saved_tensors
        to_x = gradient @ weight.transpose(1, 2) if ctx.needs_input_grad[0] else None
        to_weight = torch.bmm(gradient.transpose(1, 2), x).transpose(1, 2) if ctx.needs_input_grad[1] else None
        return to_x, to_weight


class MLP(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2 at every node, dropout before each layer. Shapes as in `Linear`."""

    def __init__(self, inputs: int, hidden_channels: int, outputs: int, *, rate: float, rng: RandomStream):
        super().__init__()
        self.rate = rate
        self.first = Linear(inputs, hidden_channels, rng=rng)
        self.second = Linear(hidden_channels, outputs, rng=rng)

    def forward(self, x: Tensor | SparseMatrix, rng: RandomStream | None = None) -> Tensor:
        kernels = self._kernels(x, rng)
        if isinstance(x, SparseMatrix) and kernels:
            return self.second(self._hidden(x, rng, kernels))
        h = self.first(dropout(x, self.rate, rng)).relu()
        return self.second(dropout(h, self.rate, rng))

    def _kernels(self, x: Tensor | SparseMatrix, rng: RandomStream | None) -> ModuleType | None:
        """The loops that compute the hidden layer, if there are any for these features."""
        if isinstance(x, Tensor) or x.values.requires_grad or (x.rather_dense and rng is None):
            return None
        width = self.first.bias.shape[-1]
        return select_kernels(self.first.weight, x.values, rows=max(x.structure.shape), width=width)

    def _hidden(self, x: SparseMatrix, rng: RandomStream | None, kernels: ModuleType) -> Tensor:
        """The hidden layer after dropout, in a written-out loop."""
        weight, bias = self.first.weight, self.first.bias
        x = dropout(x, self.rate, rng)
        tosses = rng is not None and self.rate > 0
        mask = rng.packed_dropout_mask(x.structure.shape[0], bias.shape[-1], rate=self.rate) if rng and tosses else None
        return SparseLinear.apply(weight, bias, x.structure, torch.atleast_2d(x.values), x.mask, mask, kernels)
