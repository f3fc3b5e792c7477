"""How far does a node listen? A fixed number of steps, or as many as its halting unit asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_share, check_truth, check_whole
from apgcn.nn import halting
from apgcn.nn.layers import Linear, dropout
from apgcn.nn.operators import Operator
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import loops_for
from apgcn.ops.kernels.adaptive_propagation import Halting, Listening
from apgcn.ops.rng import Noise


class Propagated(NamedTuple):
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
    def everywhere(cls, output: Tensor, *, steps: int) -> Propagated:
        """An output for which every node listened equally far; a network that does not listen says 1."""
        check_whole("steps", steps)
        taken = torch.full(output.shape[:-1], steps, device=output.device)
        return cls(output, steps=taken, remainder=output.new_zeros(taken.shape))

    @property
    def cost(self) -> Tensor:
        """S = K + R of every node, the paper's propagation cost; only R has a gradient."""
        return self.steps + self.remainder


def listen(
    operator: Operator, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None
) -> Iterator[Tensor]:
    """z^0, ..., z^T: the seeds and what each step of listening makes of them, each (runs, nodes, channels)."""
    step = operator.begin(seeds, adjacency, steps=steps, noise=noise)
    z = seeds
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
        check_whole("steps", steps)
        self.steps = steps

    def forward(self, seeds: Tensor, adjacency: Adjacency, noise: Noise | None = None) -> Propagated:
        output = seeds
        for z in listen(self.operator, seeds, adjacency, steps=self.steps, noise=noise):
            output = z  # only the last is kept
        return Propagated.everywhere(output, steps=self.steps)

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
    seed_dropout, update_dropout : float
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
        noise: Noise,
        max_steps: int = 10,
        epsilon: float = 0.01,
        seed_dropout: float = 0.0,
        update_dropout: float = 0.0,
        freeze_halted: bool = False,
    ):
        super().__init__()
        self.operator = operator
        check_whole("max_steps", max_steps)
        check_whole("channels", channels)
        for name, share in (("epsilon", epsilon), ("seed_dropout", seed_dropout), ("update_dropout", update_dropout)):
            check_share(name, share)
        check_truth("freeze_halted", freeze_halted)
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.seed_dropout = seed_dropout
        self.update_dropout = update_dropout
        self.freeze_halted = freeze_halted
        self.halting_unit = Linear(channels, 1, noise=noise)
        nn.init.constant_(self.halting_unit.bias, -math.log(max_steps))  # logit(1 / (T + 1)) = -log T

    def forward(
        self, seeds: Tensor, adjacency: Adjacency, noise: Noise | None = None, nodes: Tensor | None = None
    ) -> Propagated:
        """Where `nodes` (runs, m) are given, what comes back for others need not be right."""
        seeds = dropout(seeds, self.seed_dropout, noise)
        kernels = loops_for(seeds, adjacency.weights, rows=adjacency.nodes, width=seeds.shape[-1])
        at_once = hasattr(self.operator, "matrices") and not adjacency.weights.requires_grad
        if kernels and at_once and (adjacency.exchange is None or kernels.IN_PARTS):
            return self._written_out(kernels, seeds, adjacency, noise, nodes)
        z, h, steps = (self._frozen if self.freeze_halted else self._changing)(seeds, adjacency, noise)
        remainder = halting.remainders(h, steps)
        p = halting.step_weights(h, steps, remainder)
        output = self._combine(z, p, steps, noise)
        return Propagated(output, steps=steps, remainder=remainder)

    def _changing(self, seeds: Tensor, adjacency: Adjacency, noise: Noise | None) -> tuple[Tensor, Tensor, Tensor]:
        """z^0, ..., z^T (T + 1, runs, nodes, channels), h^1, ..., h^T and K, when halted nodes change like others."""
        z = torch.stack([*listen(self.operator, seeds, adjacency, steps=self.max_steps, noise=noise)])
        h = self._asked(z[1:])
        return z, h, halting.stopping_times(h, epsilon=self.epsilon)

    def _frozen(self, seeds: Tensor, adjacency: Adjacency, noise: Noise | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same when halted nodes keep their value; what h says of them after that counts for nothing."""
        step = self.operator.begin(seeds, adjacency, steps=self.max_steps, noise=noise)
        states, asked = [seeds], []
        filled = torch.zeros((), device=seeds.device)
        taken = torch.zeros((), dtype=torch.int64, device=seeds.device)
        for k in range(1, self.max_steps + 1):
            listening = filled < 1 - self.epsilon
            states.append(torch.where(listening[..., None], step(k, states[-1]), states[-1]))
            asked.append(self._asked(states[-1]))
            taken = taken + listening
            filled = filled + asked[-1].detach()
        return torch.stack(states), torch.stack(asked), taken.expand_as(asked[-1])

    def _asked(self, z: Tensor) -> Tensor:
        """h of some states."""
        return torch.sigmoid(z @ self.halting_unit.weight + self.halting_unit.bias).squeeze(-1)

    def _written_out(
        self,
        kernels: ModuleType,
        seeds: Tensor,
        adjacency: Adjacency,
        noise: Noise | None,
        nodes: Tensor | None,
    ) -> Propagated:
        matrices = self.operator.matrices(adjacency, steps=self.max_steps, noise=noise)  # type: ignore[attr-defined]
        updates = None
        if noise is not None and self.update_dropout > 0:
            updates = noise.keep(self.max_steps, seeds.shape[1], rate=self.update_dropout).contiguous()
        runs = max(len(seeds), len(self.halting_unit.weight), noise.runs if noise else 1)
        given = (one.expand(runs, -1, -1) for one in (seeds, self.halting_unit.weight, self.halting_unit.bias))
        how = Halting(self.max_steps, self.epsilon, self.freeze_halted)
        return Propagated(*Listening.apply(*given, updates, nodes, matrices, how, kernels))

    def _combine(self, z: Tensor, p: Tensor, steps: Tensor, noise: Noise | None) -> Tensor:
        """`halting.combine`, written as one weighted sum over z^0..z^T, with the script's dropout on updates."""
        updates = (halting.step_numbers(p) <= steps).to(p) / steps  # (T, runs, nodes)
        if noise is not None and self.update_dropout > 0:
            updates = updates * noise.keep(len(p), p.shape[-1], rate=self.update_dropout).transpose(0, 1).to(p)
        new = updates * p
        old = updates - new
        none = new.new_zeros(1, *new.shape[1:])
        weights = torch.cat([none, new]) + torch.cat([old, none])  # (T + 1, runs, nodes)
        return (weights[..., None] * z).sum(0)

    def extra_repr(self) -> str:
        return f"{self.operator}, max_steps={self.max_steps}"
