"""How do nodes listen until they halt, forward and backward, in a few large steps instead of many small ones?

    z^k = decay A_k z^(k-1) + home z^0,    h^k = sigmoid(z^k Q + q),    then K, R and the output as in `halting`

with A_k = D_k^-1/2 W_k D_k^-1/2 of the edges that are left at step k; or z^k = z^K for k > K, where nodes freeze. The
loops are in `kernels.cpu` and `kernels.gpu`; `tests/test_kernels.py` compares both directions with the plain path.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


class PropagationMatrices(NamedTuple):
    """A_1, ..., A_T, not yet computed, and what a step does with them.

    Attributes
    ----------
    pattern : Pattern
    weights : Tensor of shape (entries,)
        The whole graph's.
    keeps_loops : bool
        Whether a node's own entry is never dropped.
    coins : Coins of shape (runs, steps, entries) or None
        What is dropped.
    renormalize : bool
        Whether D_k are the row sums of what is left, or 1.
    decay, home : float
    exchange : Exchange or None
        Where the rows are only some of those that are heard: how those of other processes come, see `distributed`.
    """

    structure: CSRStructure
    weights: Tensor
    keep_self_loops: bool
    mask: PackedMask | None
    renormalize: bool
    decay: float = 1.0
    home: float = 0.0
    exchange: Any = None

    @property
    def factor(self) -> float:
        """What the weights that are left are multiplied with."""
        return 1.0 if self.mask is None else self.mask.factor


class Halting(NamedTuple):
    """When nodes stop.

    Attributes
    ----------
    steps : int
        T, the most there are.
    epsilon : float
    freeze : bool
        Whether a node that has stopped keeps its value, z^k = z^K for k > K.
    """

    steps: int
    epsilon: float
    freeze: bool = False

    @property
    def budget(self) -> float:
        return 1 - self.epsilon


class FusedAdaptivePropagation(torch.autograd.Function):
    """Output, steps and remainder from seeds (runs, nodes, channels), Q (runs, channels, 1) and q (runs, 1, 1).

    `updates` (runs, steps, nodes) multiplies each node's update at each step; None is 1. Where `nodes` (runs, m) are
    given, only what they get is right. Nobody listens on when all of these have halted.
    """

    @staticmethod
    def forward(
        ctx,
        z0: Tensor,
        weight: Tensor,
        bias: Tensor,
        updates: Tensor | None,
        nodes: Tensor | None,
        matrices: PropagationMatrices,
        halting: Halting,
        kernels: ModuleType,
    ):
        runs, count, channels = z0.shape
        unit = weight.squeeze(-1).contiguous()
        z, h, kept = kernels.propagate(matrices, z0, unit, bias.flatten(), nodes, halting)
        taken = torch.empty(runs, count, dtype=torch.int64, device=z0.device)
        found = z0.new_empty(runs, count, channels), taken, z0.new_empty(runs, count)
        kernels.combine(z, h, updates, nodes, halting.budget, found)
        ctx.save_for_backward(z, h, updates, unit, taken, *kept)
        ctx.matrices, ctx.kernels = matrices, kernels
        ctx.mark_non_differentiable(taken)
        return found

    @staticmethod
    def backward(ctx, to_output: Tensor, _: Tensor, to_remainder: Tensor):
        z, h, updates, unit, taken, *kept = ctx.saved_tensors
        channels = to_output.shape[-1]
        gradients = to_output.contiguous(), to_remainder.contiguous()
        to_z, to_asked = ctx.kernels.combine_backward(z, h, updates, unit, taken, gradients)
        to_weight = to_bias = None
        if ctx.needs_input_grad[1]:  # the halting unit learns on some epochs only
            said = to_asked.flatten(1)[:, None]  # (runs, 1, steps * nodes)
            to_weight = (said @ z[:, 1:].flatten(1, 2)).transpose(1, 2)[:, :channels]
            to_bias = said.sum(-1, keepdim=True)
        ctx.kernels.propagate_backward(ctx.matrices, tuple(kept), to_z)
        return to_z[:, 0, :, :channels], to_weight, to_bias, *[None] * 5
