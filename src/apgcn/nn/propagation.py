"""How far does a node listen? A fixed number of steps, or as many as its halting unit asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_bool, check_fraction, check_int
from apgcn.nn import halting
from apgcn.nn.layers import Linear, dropout
from apgcn.nn.operators import Operator
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import select_kernels
from apgcn.ops.kernels.adaptive_propagation import FusedAdaptivePropagation, Halting
from apgcn.ops.rng import RandomStream


class PropagationOutput(NamedTuple):
    """What listening gives.

    Attributes
    ----------
    output : Tensor of shape (runs, nodes, channels)
    steps : Tensor of shape (runs, nodes)
        K, how many steps each node listened.
    remainder : Tensor of shape (runs, nodes)
        R, what was left of its budget for the last step.
    """

    output: Tensor
    steps: Tensor
    remainder: Tensor

    @classmethod
    def everywhere(cls, output: Tensor, *, steps: int) -> PropagationOutput:
        """An output for which every node listened equally far; a network that does not listen says 1."""
        check_int("steps", steps)
        taken = torch.full(output.shape[:-1], steps, device=output.device)
        return cls(output, steps=taken, remainder=output.new_zeros(taken.shape))

    @property
    def cost(self) -> Tensor:
        """S = K + R of every node, the paper's propagation cost; only R has a gradient."""
        return self.steps + self.remainder


def propagate(
    operator: Operator, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None
) -> Iterator[Tensor]:
    """z^0, ..., z^T: the seeds and what each step of listening makes of them, each (runs, nodes, channels)."""
    step = operator.begin(z0, adjacency, steps=steps, rng=rng)
    z = z0
    yield z
    for k in range(1, steps + 1):
        z = step(k, z)
        yield z


class FixedPropagation(nn.Module):
    """Every node listens the same number of steps: output = z^T.

    With `PageRank` it is APPNP's propagation.
    """

    def __init__(self, operator: Operator, *, steps: int = 10):
        super().__init__()
        self.operator = operator
        check_int("steps", steps)
        self.steps = steps

    def forward(self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None = None) -> PropagationOutput:
        output = z0
        for z in propagate(self.operator, z0, adjacency, steps=self.steps, rng=rng):
            output = z  # only the last is kept
        return PropagationOutput.everywhere(output, steps=self.steps)

    def extra_repr(self) -> str:
        return f"{self.operator}, steps={self.steps}"


class AdaptivePropagation(nn.Module):
    """Every node decides for itself how far to listen (paper, Section IV).

    After each step k a halting unit, one linear map for all nodes, gives h_i^k = sigmoid(z_i^k Q + q). The node listens
    until its halting probabilities have filled a budget, K_i steps, at most `max_steps`; its output averages what it
    heard on the way. The equations are in `halting`.

    Parameters
    ----------
    operator : Operator
        One step of listening.
    channels : int
        Width of the seeds z^0.
    noise : Noise
        Draws the halting unit's initial weights. Its bias starts at logit(1 / (max_steps + 1)), so that an untrained
        node listens about to the end.
    max_steps, epsilon
        T and epsilon of the paper.
    z0_dropout, update_dropout : float
        Two dropouts that are in the authors' script and not in the paper: on z^0, and on each node's update at each
        step. See docs/paper_vs_code.md.
    freeze_halted : bool
        Whether a node keeps its value after K_i steps, z_i^k = z_i^K for k > K, so that nothing is computed for it any
        more; neighbours that go on listening hear that value. In the paper it goes on changing.

    Shapes
    ------
    seeds : (runs, nodes, channels)
    """

    def __init__(
        self,
        operator: Operator,
        *,
        channels: int,
        rng: RandomStream,
        max_steps: int = 10,
        epsilon: float = 0.01,
        z0_dropout: float = 0.0,
        update_dropout: float = 0.0,
        freeze_halted: bool = False,
    ):
        super().__init__()
        self.operator = operator
        check_int("max_steps", max_steps)
        check_int("channels", channels)
        for name, share in (("epsilon", epsilon), ("z0_dropout", z0_dropout), ("update_dropout", update_dropout)):
            check_fraction(name, share)
        check_bool("freeze_halted", freeze_halted)
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.z0_dropout = z0_dropout
        self.update_dropout = update_dropout
        self.freeze_halted = freeze_halted
        self.halting_unit = Linear(channels, 1, rng=rng)
        nn.init.constant_(self.halting_unit.bias, -math.log(max_steps))  # logit(1 / (T + 1)) = -log T

    def forward(
        self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None = None, nodes: Tensor | None = None
    ) -> PropagationOutput:
        """Where `nodes` (runs, m) are given, what comes back for others need not be right."""
        z0 = dropout(z0, self.z0_dropout, rng)
        kernels = select_kernels(z0, adjacency.weights, rows=adjacency.nodes, width=z0.shape[-1])
        at_once = hasattr(self.operator, "matrices") and not adjacency.weights.requires_grad
        if kernels and at_once and (adjacency.exchange is None or kernels.IN_PARTS):
            return self._fused(kernels, z0, adjacency, rng, nodes)
        z, h, steps = (self._frozen if self.freeze_halted else self._unfrozen)(z0, adjacency, rng)
        remainder = halting.remainders(h, steps)
        p = halting.step_weights(h, steps, remainder)
        output = self._combine(z, p, steps, rng)
        return PropagationOutput(output, steps=steps, remainder=remainder)

    def _unfrozen(self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None) -> tuple[Tensor, Tensor, Tensor]:
        """z^0, ..., z^T (T + 1, runs, nodes, channels), h^1, ..., h^T and K, when halted nodes change like others."""
        z = torch.stack([*propagate(self.operator, z0, adjacency, steps=self.max_steps, rng=rng)])
        h = self.halting_probabilities(z[1:])
        return z, h, halting.halting_steps(h, epsilon=self.epsilon)

    def _frozen(self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same when halted nodes keep their value; what h says of them after that counts for nothing."""
        step = self.operator.begin(z0, adjacency, steps=self.max_steps, rng=rng)
        states, asked = [z0], []
        filled = torch.zeros((), device=z0.device)
        taken = torch.zeros((), dtype=torch.int64, device=z0.device)
        for k in range(1, self.max_steps + 1):
            listening = filled < 1 - self.epsilon
            states.append(torch.where(listening[..., None], step(k, states[-1]), states[-1]))
            asked.append(self.halting_probabilities(states[-1]))
            taken = taken + listening
            filled = filled + asked[-1].detach()
        return torch.stack(states), torch.stack(asked), taken.expand_as(asked[-1])

    def halting_probabilities(self, z: Tensor) -> Tensor:
        """h of some states."""
        return torch.sigmoid(z @ self.halting_unit.weight + self.halting_unit.bias).squeeze(-1)

    def _fused(
        self,
        kernels: ModuleType,
        z0: Tensor,
        adjacency: Adjacency,
        rng: RandomStream | None,
        nodes: Tensor | None,
    ) -> PropagationOutput:
        matrices = self.operator.matrices(adjacency, steps=self.max_steps, rng=rng)  # type: ignore[attr-defined]
        updates = None
        if rng is not None and self.update_dropout > 0:
            updates = rng.dropout_mask(self.max_steps, z0.shape[1], rate=self.update_dropout).contiguous()
        runs = max(len(z0), len(self.halting_unit.weight), rng.runs if rng else 1)
        given = (one.expand(runs, -1, -1) for one in (z0, self.halting_unit.weight, self.halting_unit.bias))
        how = Halting(self.max_steps, self.epsilon, self.freeze_halted)
        return PropagationOutput(*FusedAdaptivePropagation.apply(*given, updates, nodes, matrices, how, kernels))

    def _combine(self, z: Tensor, p: Tensor, steps: Tensor, rng: RandomStream | None) -> Tensor:
        """`halting.combine`, written as one weighted sum over z^0..z^T, with the script's dropout on updates."""
        updates = (halting.step_numbers(p) <= steps).to(p) / steps  # (T, runs, nodes)
        if rng is not None and self.update_dropout > 0:
            updates = updates * rng.dropout_mask(len(p), p.shape[-1], rate=self.update_dropout).transpose(0, 1).to(p)
        new = updates * p
        old = updates - new
        none = new.new_zeros(1, *new.shape[1:])
        weights = torch.cat([none, new]) + torch.cat([old, none])  # (T + 1, runs, nodes)
        return (weights[..., None] * z).sum(0)

    def extra_repr(self) -> str:
        return f"{self.operator}, max_steps={self.max_steps}"
