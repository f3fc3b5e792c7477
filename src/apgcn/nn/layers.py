"""What is computed at a node, without listening? Dropout and linear maps, for a pack of runs."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TypeVar

import torch
from torch import Tensor, nn

from apgcn.ops.dispatch import loops_for
from apgcn.ops.kernels.sparse_linear import HiddenLayer
from apgcn.ops.rng import Noise
from apgcn.ops.sparse import SparseMatrix

Values = TypeVar("Values", bound=Tensor | SparseMatrix)


def dropout(x: Values, rate: float, noise: Noise | None) -> Values:
    """Set each value to zero with probability `rate` and enlarge the others to make up for it.

    Without noise, which means in evaluation, x comes back as it is. Of a sparse matrix only the stored values are
    touched; those that all runs share become one set per run.
    """
    if noise is None or rate == 0:
        return x
    if isinstance(x, SparseMatrix):
        return SparseMatrix(x.pattern, x.dropped, noise.toss(x.pattern.entries, rate=rate))  # type: ignore[return-value]
    shape = x.shape if x.ndim == 2 else x.shape[1:]  # (nodes, channels), shared or per run
    return x * noise.keep(*shape, rate=rate).to(x)  # type: ignore[return-value]


def glorot(noise: Noise, *shape: int) -> nn.Parameter:
    """A weight of shape (runs, *shape), uniform in +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010).

    Inputs and outputs are the last two of the shape; axes before them count stacks or heads.
    """
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return nn.Parameter((2 * noise.uniform(*shape) - 1) * bound)


def zeros(noise: Noise, *shape: int) -> nn.Parameter:
    """A bias of shape (runs, *shape) that starts at nothing."""
    return nn.Parameter(torch.zeros(noise.runs, *shape, device=noise.device))


def side_by_side(x: Tensor | SparseMatrix, weights: Tensor) -> Tensor:
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

    def __init__(self, inputs: int, outputs: int, *, noise: Noise):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter((2 * noise.uniform(inputs, outputs) - 1) * bound)
        self.bias = nn.Parameter((2 * noise.uniform(1, outputs) - 1) * bound)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        if isinstance(x, Tensor) and x.ndim == 3:
            return torch.baddbmm(self.bias, x, self.weight) if x.is_cuda else _Turned.apply(x, self.weight) + self.bias
        return x @ self.weight + self.bias

    def extra_repr(self) -> str:
        runs, inputs, outputs = self.weight.shape
        return f"{inputs}, {outputs}, runs={runs}"


class _Turned(torch.autograd.Function):
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


class TwoLayers(nn.Module):
    """ReLU(x W_1 + b_1) W_2 + b_2 at every node, dropout before each layer. Shapes as in `Linear`."""

    def __init__(self, inputs: int, hidden: int, outputs: int, *, rate: float, noise: Noise):
        super().__init__()
        self.rate = rate
        self.first = Linear(inputs, hidden, noise=noise)
        self.second = Linear(hidden, outputs, noise=noise)

    def forward(self, x: Tensor | SparseMatrix, noise: Noise | None = None) -> Tensor:
        kernels = self._kernels(x, noise)
        if isinstance(x, SparseMatrix) and kernels:
            return self.second(self._hidden(x, noise, kernels))
        h = self.first(dropout(x, self.rate, noise)).relu()
        return self.second(dropout(h, self.rate, noise))

    def _kernels(self, x: Tensor | SparseMatrix, noise: Noise | None) -> ModuleType | None:
        """The loops that compute the hidden layer, if there are any for these features."""
        if isinstance(x, Tensor) or x.values.requires_grad or (x.rather_dense and noise is None):
            return None
        width = self.first.bias.shape[-1]
        return loops_for(self.first.weight, x.values, rows=max(x.pattern.shape), width=width)

    def _hidden(self, x: SparseMatrix, noise: Noise | None, kernels: ModuleType) -> Tensor:
        """The hidden layer after dropout, in a written-out loop."""
        weight, bias = self.first.weight, self.first.bias
        x = dropout(x, self.rate, noise)
        tosses = noise is not None and self.rate > 0
        coins = noise.toss(x.pattern.shape[0], bias.shape[-1], rate=self.rate) if noise and tosses else None
        return HiddenLayer.apply(weight, bias, x.pattern, torch.atleast_2d(x.values), x.coins, coins, kernels)
