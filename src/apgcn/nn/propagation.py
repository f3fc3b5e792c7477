"""Propagation layers over the run axis: a fixed number of steps, or as many as a node's halting unit chooses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn._utils.validation import check_bool, check_fraction, check_int
from apgcn.nn import halting
from apgcn.nn.layers import Linear, dropout
from apgcn.nn.operators import Operator
from apgcn.ops.dense import axis_sums, linear, scale_rows
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import select_kernels
from apgcn.ops.kernels.autograd import (
    FusedAdaptivePropagation,
    FusedFixedPropagation,
    FusedPropagationStates,
    HaltingParameters,
)
from apgcn.ops.rng import RandomStream

MAX_FUSED_STEPS = 64  # of a fixed propagation: the fused kernels keep the states of all steps


class PropagationOutput(NamedTuple):
    """Output of a propagation layer or a batched model.

    Attributes
    ----------
    output : Tensor of shape (runs, nodes, channels)
    steps : Tensor of shape (runs, nodes)
        K, the number of propagation steps of each node.
    remainder : Tensor of shape (runs, nodes)
        R, 1 minus the halting probabilities of the steps before the last.
    """

    output: Tensor
    steps: Tensor
    remainder: Tensor

    @classmethod
    def fixed_steps(cls, output: Tensor, *, steps: int) -> PropagationOutput:
        """An output after the same number of steps at every node, with remainder 0."""
        check_int("steps", steps, minimum=0)
        node_steps = torch.full(output.shape[:-1], steps, device=output.device)
        return cls(output, steps=node_steps, remainder=output.new_zeros(node_steps.shape))

    def select(self, nodes: Tensor) -> PropagationOutput:
        """The output of some nodes of each run, (runs, m)."""
        index = nodes.expand(len(self.output), -1)
        output = self.output.gather(1, index[..., None].expand(-1, -1, self.output.shape[-1]))
        return PropagationOutput(output, self.steps.gather(1, index), self.remainder.gather(1, index))

    @property
    def cost(self) -> Tensor:
        """S = K + R of every node, the paper's propagation cost; only R has a gradient."""
        return self.steps + self.remainder


def propagate(
    operator: Operator, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None
) -> Iterator[Tensor]:
    """The states z^0, ..., z^T of a propagation, each (runs, nodes, channels)."""
    step = operator.prepare(z0, adjacency, steps=steps, rng=rng)
    z = z0
    yield z
    for k in range(1, steps + 1):
        z = step(k, z)
        yield z


def fused_kernels(operator: Operator, z0: Tensor, adjacency: Adjacency) -> ModuleType | None:
    """Return the kernels that compute all steps of an operator at once, or None where there are none."""
    kernels = select_kernels(z0, adjacency.weights, rows=adjacency.num_nodes, width=z0.shape[-1])
    if not kernels or not hasattr(operator, "matrices") or adjacency.weights.requires_grad:
        return None
    return kernels if adjacency.halo is None or kernels.SUPPORTS_HALO else None


def propagation_states(
    operator: Operator,
    z0: Tensor,
    adjacency: Adjacency,
    *,
    steps: int,
    rng: RandomStream | None = None,
    nodes: Tensor | None = None,
) -> Tensor:
    """The states z^0, ..., z^T of all nodes or, with `nodes` (runs, m), of these, (T + 1, runs, m, channels)."""
    kernels = fused_kernels(operator, z0, adjacency) if steps <= MAX_FUSED_STEPS else None
    if kernels:
        matrices = operator.matrices(adjacency, steps=steps, rng=rng)  # type: ignore[attr-defined]
        z0 = z0.expand(max(len(z0), rng.runs if rng else 1), -1, -1)
        return FusedPropagationStates.apply(z0, nodes, matrices, steps, kernels)
    states = torch.stack([*propagate(operator, z0, adjacency, steps=steps, rng=rng)])
    if nodes is None:
        return states
    return states.gather(
        2, nodes.expand(states.shape[1], -1)[None, ..., None].expand(*states.shape[:2], -1, states.shape[-1])
    )


def sigmoid_scores(states: Tensor, unit: Linear) -> Tensor:
    """sigmoid(z w + b) of states (..., runs, nodes, channels), for a unit of one output."""
    by_run = states.movedim(-3, 0)  # (runs, ..., nodes, channels)
    logits = linear(by_run.flatten(1, -2), unit.weight, unit.bias)
    return torch.sigmoid(logits).squeeze(-1).unflatten(1, by_run.shape[1:-1]).movedim(0, -2)


class FixedPropagation(nn.Module):
    """Propagation by a fixed number of steps: output = z^T.

    With `PageRank` it is APPNP's propagation.

    Parameters
    ----------
    operator : Operator
        One propagation step.
    steps : int
        T.
    z0_dropout, update_dropout : float
        The two dropouts of the script of AP-GCN's authors, see `AdaptivePropagation`: on z^0, and on each node's update
        at each step. With the mask m of the latter, output = z^0 + sum over k of m^k (z^k - z^(k-1)).

    Shapes
    ------
    z0 : (runs, nodes, channels)
    output : `PropagationOutput`
    """

    def __init__(self, operator: Operator, *, steps: int = 10, z0_dropout: float = 0.0, update_dropout: float = 0.0):
        super().__init__()
        self.operator = operator
        check_int("steps", steps)
        check_fraction("z0_dropout", z0_dropout)
        check_fraction("update_dropout", update_dropout)
        self.steps, self.z0_dropout, self.update_dropout = steps, z0_dropout, update_dropout

    def forward(
        self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None = None, nodes: Tensor | None = None
    ) -> PropagationOutput:
        """Propagate z0; the output is that of all nodes or, with `nodes` (runs, m), of these, (runs, m, channels)."""
        z0 = dropout(z0, self.z0_dropout, rng)
        kernels = fused_kernels(self.operator, z0, adjacency)
        if kernels and self.steps <= MAX_FUSED_STEPS:
            matrices = self.operator.matrices(adjacency, steps=self.steps, rng=rng)  # type: ignore[attr-defined]
            z0 = z0.expand(max(len(z0), rng.runs if rng else 1), -1, -1)
            weights = self._state_weights(z0, rng)
            output = FusedFixedPropagation.apply(z0, weights, nodes, matrices, self.steps, kernels)
            return PropagationOutput.fixed_steps(output, steps=self.steps)
        states = propagate(self.operator, z0, adjacency, steps=self.steps, rng=rng)
        output = next(states)  # z^0; the edge masks are drawn
        weights = self._state_weights(output, rng)
        if weights is not None:
            output = output * weights[:, 0, :, None]
        for k, z in enumerate(states, start=1):
            output = z if weights is None else output + z * weights[:, k, :, None]
        result = PropagationOutput.fixed_steps(output, steps=self.steps)
        return result if nodes is None else result.select(nodes)

    def _state_weights(self, z0: Tensor, rng: RandomStream | None) -> Tensor | None:
        """Weights of z^0, ..., z^T in the output, (runs, T + 1, nodes), with the dropout of updates; else None."""
        if rng is None or self.update_dropout == 0:
            return None
        mask = rng.dropout_mask(self.steps, z0.shape[1], rate=self.update_dropout).to(z0)  # (runs, T, nodes)
        return functional.pad(mask, (0, 0, 1, 0), value=1.0) - functional.pad(mask, (0, 0, 0, 1))

    def extra_repr(self) -> str:
        return f"{self.operator}, steps={self.steps}"


class AdaptivePropagation(nn.Module):
    """Adaptive propagation: every node has its own number of steps (AP-GCN paper, Section IV).

        z^k    = operator(z^(k-1))
        h_i^k  = sigmoid(z_i^k Q + q)
        K_i    = the first k >= min_steps with h_i^1 + ... + h_i^k >= 1 - epsilon, at most max_steps
        output = 1/K_i * sum over k <= K_i of p_i^k z_i^k + (1 - p_i^k) z_i^(k-1)

    With `min_steps=0` a node may halt at z^0: the sums begin with h_i^0, and

        h_i^0  = sigmoid(z_i^0 Q^0 + q^0)
        output = h_i^0 z_i^0 + ... + h_i^(K_i - 1) z_i^(K_i - 1) + R_i z_i^(K_i)

    (Q, q) is the halting unit, one linear layer for all nodes. K, the remainder R and the step weights p are computed
    as in `halting`, which also lists the fused implementations.

    Parameters
    ----------
    operator : Operator
        One propagation step.
    channels : int
        Channels of the initial prediction z^0.
    rng : RandomStream
        Draws the halting unit's initial weights. Its initial bias is logit(1 / (max_steps + 1)), so that an untrained
        node halts near `max_steps`; that of the initial halting unit, with `min_steps=0`, is lower by
        `halting.INITIAL_SHIFT`.
    max_steps, epsilon
        T and epsilon of the paper.
    min_steps : int
        Smallest number of steps of a node, 0 to `max_steps`; the paper's is 1. With others the fused kernels compute
        the states alone, or nothing where states are frozen.
    z0_dropout, update_dropout : float
        Two dropouts that are in the authors' script and not in the paper: on z^0, and on each node's update at each
        step. See docs/paper_vs_code.md.
    freeze_halted : bool
        Whether the state of a node is frozen after K_i steps, z_i^k = z_i^K for k > K, so that nothing is computed for
        it any more; its out-neighbours receive that state. In the paper it is still updated.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    output : `PropagationOutput`
    """

    def __init__(
        self,
        operator: Operator,
        *,
        channels: int,
        rng: RandomStream,
        max_steps: int = 10,
        min_steps: int = 1,
        epsilon: float = 0.01,
        z0_dropout: float = 0.0,
        update_dropout: float = 0.0,
        freeze_halted: bool = False,
    ):
        super().__init__()
        self.operator = operator
        halting.check_steps(min_steps, max_steps)
        check_int("channels", channels)
        for name, value in (("epsilon", epsilon), ("z0_dropout", z0_dropout), ("update_dropout", update_dropout)):
            check_fraction(name, value)
        check_bool("freeze_halted", freeze_halted)
        self.max_steps = max_steps
        self.min_steps = min_steps
        self.epsilon = epsilon
        self.z0_dropout = z0_dropout
        self.update_dropout = update_dropout
        self.freeze_halted = freeze_halted
        self.halting_unit = Linear(channels, 1, rng=rng)
        nn.init.constant_(self.halting_unit.bias, -math.log(max_steps))  # logit(1 / (T + 1)) = -log T
        if min_steps == 0:
            self.initial_halting_unit = Linear(channels, 1, rng=rng)
            nn.init.constant_(self.initial_halting_unit.bias, -math.log(max_steps) - halting.INITIAL_SHIFT)

    def forward(
        self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None = None, nodes: Tensor | None = None
    ) -> PropagationOutput:
        """Propagate z0; the output is that of all nodes or, with `nodes` (runs, m), of these, (runs, m, ...)."""
        z0 = dropout(z0, self.z0_dropout, rng)
        kernels = fused_kernels(self.operator, z0, adjacency)
        if kernels and self.min_steps == 1:
            return self._fused(kernels, z0, adjacency, rng, nodes)
        z, h, steps = (
            self._frozen(z0, adjacency, rng) if self.freeze_halted else self._unfrozen(z0, adjacency, rng, nodes)
        )
        remainder = halting.remainders(h, steps, min_steps=self.min_steps)
        p = halting.step_weights(h, steps, remainder, min_steps=self.min_steps)
        update_mask = self._update_mask(z0.shape[1], rng)
        if nodes is not None and update_mask is not None and not self.freeze_halted:
            update_mask = update_mask.gather(2, nodes.expand(len(update_mask), -1)[:, None].expand(-1, len(p), -1))
        output = PropagationOutput(self._combine(z, p, steps, update_mask), steps=steps, remainder=remainder)
        return output.select(nodes) if nodes is not None and self.freeze_halted else output

    def _unfrozen(
        self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None, nodes: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """z^0, ..., z^T, h from the first step that counts, and K, of these nodes; halted nodes are updated."""
        z = propagation_states(self.operator, z0, adjacency, steps=self.max_steps, rng=rng, nodes=nodes)
        h = self.halting_probabilities(z[1:])
        if self.min_steps == 0:
            h = torch.cat([self._initial_probabilities(z[0])[None], h])
        return z, h, halting.halting_steps(h, epsilon=self.epsilon, min_steps=self.min_steps)

    def _frozen(self, z0: Tensor, adjacency: Adjacency, rng: RandomStream | None) -> tuple[Tensor, Tensor, Tensor]:
        """z^0, ..., z^T, h^1, ..., h^T (from h^0 where it counts) and K; halted nodes are frozen.

        The h of a node after step K are not used.
        """
        step = self.operator.prepare(z0, adjacency, steps=self.max_steps, rng=rng)
        states, probabilities = [z0], []
        cumulative = torch.zeros((), device=z0.device)
        steps = torch.zeros((), dtype=torch.int64, device=z0.device)
        if self.min_steps == 0:
            probabilities.append(self._initial_probabilities(z0))
            cumulative = probabilities[0].detach()
        for k in range(1, self.max_steps + 1):
            active = cumulative < 1 - self.epsilon
            if k <= self.min_steps:
                active = torch.ones_like(active)
            states.append(torch.where(active[..., None], step(k, states[-1]), states[-1]))
            probabilities.append(self.halting_probabilities(states[-1]))
            steps = steps + active
            cumulative = cumulative + probabilities[-1].detach()
        states[0] = states[0].expand_as(states[-1])
        return torch.stack(states), torch.stack(probabilities), steps.expand_as(probabilities[-1])

    def halting_parameters(self) -> Iterator[nn.Parameter]:
        """The weights and biases of the halting unit, and of that of step 0 with `min_steps=0`."""
        yield from self.halting_unit.parameters()
        if self.min_steps == 0:
            yield from self.initial_halting_unit.parameters()

    def _initial_probabilities(self, z0: Tensor) -> Tensor:
        """h^0 = sigmoid(z^0 Q^0 + q^0), with `min_steps=0`."""
        return self.halting_probabilities(z0, self.initial_halting_unit)

    def halting_probabilities(self, z: Tensor, unit: Linear | None = None) -> Tensor:
        """h = sigmoid(z Q + q) of states z (..., runs, nodes, channels), by default of the unit of k >= 1."""
        return sigmoid_scores(z, self.halting_unit if unit is None else unit)

    def _fused(
        self,
        kernels: ModuleType,
        z0: Tensor,
        adjacency: Adjacency,
        rng: RandomStream | None,
        nodes: Tensor | None,
    ) -> PropagationOutput:
        """The same in one fused kernel, forward and backward."""
        matrices = self.operator.matrices(adjacency, steps=self.max_steps, rng=rng)  # type: ignore[attr-defined]
        update_mask = self._update_mask(z0.shape[1], rng)
        update_mask = None if update_mask is None else update_mask.contiguous()
        runs = max(len(z0), len(self.halting_unit.weight), rng.runs if rng else 1)
        inputs = (tensor.expand(runs, -1, -1) for tensor in (z0, self.halting_unit.weight, self.halting_unit.bias))
        parameters = HaltingParameters(self.max_steps, self.epsilon, self.freeze_halted)
        return PropagationOutput(
            *FusedAdaptivePropagation.apply(*inputs, update_mask, nodes, matrices, parameters, kernels)
        )

    def _update_mask(self, num_nodes: int, rng: RandomStream | None) -> Tensor | None:
        """The dropout of each node's update at each step, (runs, T, nodes); None without it."""
        if rng is None or self.update_dropout == 0:
            return None
        return rng.dropout_mask(self.max_steps, num_nodes, rate=self.update_dropout)

    def _combine(self, z: Tensor, p: Tensor, steps: Tensor, update_mask: Tensor | None) -> Tensor:
        """`halting.combine` as one weighted sum over z^0, ..., z^T, with the dropout of updates."""
        update_weights = (halting.step_numbers(p) <= steps).to(p)  # (T, runs, nodes)
        if self.min_steps > 0:
            update_weights = update_weights / steps
        if update_mask is not None:
            update_weights = update_weights * update_mask.transpose(0, 1).to(p)
        of_new = update_weights * p  # weights of z^k
        of_previous = -of_new if self.min_steps == 0 else update_weights - of_new  # weights of z^(k-1)
        zero = of_new.new_zeros(1, *of_new.shape[1:])
        of_z0 = torch.ones_like(zero) if self.min_steps == 0 else zero
        weights = torch.cat([of_z0, of_new]) + torch.cat([of_previous, zero])  # (T + 1, runs, nodes)
        return axis_sums(scale_rows(z, weights), 0)

    def extra_repr(self) -> str:
        return f"{self.operator}, max_steps={self.max_steps}"
