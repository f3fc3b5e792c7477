"""How do nodes listen until they halt, and how does the gradient come back? See `kernels.listening` for the equations.

Channels are filled up with zeros to as many floats as a processor handles at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.adaptive_propagation import Halting, PropagationMatrices
from apgcn.ops.kernels.cpu.halo_propagation import ROUNDING, propagate_halo, propagate_halo_backward
from apgcn.ops.kernels.cpu.jit import ONE, ZERO, arrays_of, compiled, part, rows_of
from apgcn.ops.kernels.cpu.rng import factors
from apgcn.ops.kernels.cpu.simd_rows import LARGE, blend, gather, scatter

LANES = 8


def _prepared(matrices: PropagationMatrices) -> tuple[Tensor, Tensor]:
    """What is left of the edges after dropping, (1 or runs, 1 or steps, entries), and the scale of every node.

    A_k = S_k W_k S_k with the diagonal S_k = D_k^-1/2, (1 or runs, 1 or steps, nodes).
    """
    weights, mask = matrices.weights, matrices.mask
    kept = weights.new_ones(1, 1, len(weights)) if mask is None else factors(mask)
    left = torch.empty_like(kept)
    scale = kept.new_ones(*kept.shape[:2], matrices.structure.shape[0])
    factor = np.float32(1 if mask is None else mask.factor)
    rows, given = rows_of(matrices.structure), arrays_of(weights, kept)
    _drop(*rows, *given, factor, matrices.keep_self_loops, matrices.renormalize, *arrays_of(left, scale))
    return left, scale


@compiled
def _drop(pointers, columns, weights, kept, factor, keep_self_loops, renormalize, left, scale):
    for run in range(kept.shape[0]):
        for step in range(kept.shape[1]):
            mask, into, own = kept[run, step], left[run, step], scale[run, step]
            for entry in range(len(into)):
                into[entry] = mask[entry] * weights[entry]
            for node in range(len(own)):
                total = ZERO
                for entry in range(pointers[node], pointers[node + 1]):
                    if keep_self_loops and columns[entry] == node:
                        into[entry] = factor * weights[entry]
                    total += into[entry]
                if renormalize:
                    own[node] = ONE / np.sqrt(total)


def propagate(
    matrices: PropagationMatrices, z0: Tensor, unit: Tensor, bias: Tensor, nodes: Tensor | None, halting: Halting
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """z^0, ..., z^T (runs, T + 1, nodes, channels filled up), h^1, ..., h^T (runs, T, nodes), and the matrices.

    Where nodes freeze, z and h are there up to the last step that a node took, and how many these are comes with the
    matrices, (runs, nodes).

    Shapes
    ------
    seeds : (runs, nodes, channels)
    unit : (runs, channels), Q
    bias : (runs,), q
    nodes : (runs, m), for whom the others listen; all where None
    """
    runs, count, channels = z0.shape
    steps = halting.steps
    width = -(-channels // LANES) * LANES
    empty = z0.new_zeros if halting.freeze else z0.new_empty  # where nodes freeze, not all is filled
    z, h = empty(runs, steps + 1, count, width), empty(runs, steps, count)
    z[:, 0, :, :channels] = z0
    z[:, 0, :, channels:] = 0
    prepared = _prepared(matrices)
    if matrices.exchange is not None:
        z[:, 1:] = 0
        return z, *propagate_halo(matrices, prepared, z, unit, bias, nodes, halting)
    monitored_loss = torch.arange(count)[None] if nodes is None else nodes
    large = count * width > LARGE
    factors = np.float32(matrices.decay), np.float32(matrices.home)
    given = arrays_of(z, functional.pad(unit, (0, width - channels)), bias, monitored_loss, h)
    if halting.freeze:
        taken = torch.empty(runs, count, dtype=torch.int32)
        kernel, _ = _frozen_steps(width, large=large)
        budget = np.float32(halting.budget)
        kernel(*rows_of(matrices.structure), *arrays_of(*prepared), *factors, budget, *given, *arrays_of(taken))
        return z, h, (*prepared, taken)
    kernel, _ = _steps(width, large=large)
    budget = np.float32(halting.budget + ROUNDING)
    kernel(*rows_of(matrices.structure), *arrays_of(*prepared), *factors, budget, *given)
    return z, h.add_(bias[:, None, None]).sigmoid_(), prepared


@part
def _filled(answers, bias):
    """How much of its budget a node has filled."""
    total = ZERO
    for answer in answers:
        total += ONE / (ONE + np.exp(-(answer + bias)))
    return total


def propagate_backward(matrices: PropagationMatrices, kept: tuple[Tensor, ...], to_z: Tensor) -> None:
    """Bring the gradients of z^1, ..., z^T home to z^0, in place; shape as z."""
    if matrices.exchange is not None:
        propagate_halo_backward(matrices, kept, to_z)
        return
    count, width = to_z.shape[-2:]
    left, scale, *taken = kept
    _, kernel = (_frozen_steps if taken else _steps)(width, large=count * width > LARGE)
    factors = np.float32(matrices.decay), np.float32(matrices.home)
    kernel(*rows_of(matrices.structure), *arrays_of(left, scale), *factors, *arrays_of(to_z, *taken))


@cache
def _steps(width: int, *, large: bool) -> tuple[Callable, Callable]:
    @compiled
    def forward(pointers, columns, left, scale, decay, home, budget, z, unit, bias, monitored_loss, asked):
        runs, steps, nodes = asked.shape
        total, said = np.empty(width, np.float32), np.empty((nodes, width), np.float32)
        for run in range(runs):
            states, own = z[run], unit[run]
            theirs, halted = monitored_loss[run % len(monitored_loss)], 0
            for k in range(steps):
                if halted == len(theirs):
                    states[k + 1] = ZERO
                    asked[run, k] = ZERO
                    continue
                weights, sizes = left[run % len(left), k % left.shape[1]], scale[run % len(scale), k % scale.shape[1]]
                before, after, start, answers = states[k], states[k + 1], states[0], asked[run, k]
                for node in range(nodes):
                    blend(width, sizes[node], before[node], ZERO, before[node], said[node])
                for node in range(nodes):
                    gather(width, large, weights, columns, pointers[node], pointers[node + 1], said, total)
                    blend(width, decay * sizes[node], total, home, start[node], after[node])
                    answer, new = ZERO, after[node]
                    for c in range(width):
                        answer += new[c] * own[c]
                    answers[node] = answer
                while halted < len(theirs) and _filled(asked[run, : k + 1, theirs[halted]], bias[run]) >= budget:
                    halted += 1

    @compiled
    def backward(pointers, columns, left, scale, decay, home, to_z):
        runs, steps, nodes = to_z.shape[0], to_z.shape[1] - 1, to_z.shape[2]
        given, heard = np.empty(width, np.float32), np.zeros((nodes, width), np.float32)
        for run in range(runs):
            for k in range(steps - 1, -1, -1):
                weights, sizes = left[run % len(left), k % left.shape[1]], scale[run % len(scale), k % scale.shape[1]]
                below, above, start = to_z[run, k], to_z[run, k + 1], to_z[run, 0]
                for node in range(nodes):
                    own, any_given = above[node], ZERO
                    for c in range(width):
                        any_given += abs(own[c])
                    if any_given == ZERO:
                        continue
                    blend(width, decay * sizes[node], own, ZERO, own, given)
                    scatter(width, large, weights, columns, pointers[node], pointers[node + 1], heard, given)
                for node in range(nodes):
                    blend(width, sizes[node], heard[node], ONE, below[node], below[node])
                heard[:] = ZERO
                if home != ZERO:
                    for node in range(nodes):
                        blend(width, home, above[node], ONE, start[node], start[node])

    return forward, backward


@cache
def _frozen_steps(width: int, *, large: bool) -> tuple[Callable, Callable]:
    """The same where nodes that have halted keep their value, and so cost nothing: node i is at level taken[i]."""

    @compiled
    def forward(pointers, columns, left, scale, decay, home, budget, z, unit, bias, monitored_loss, h, taken):
        runs, steps, nodes = h.shape
        total, said = np.empty(width, np.float32), np.empty((nodes, width), np.float32)
        filled, listening = np.empty(nodes, np.float32), np.empty(nodes, np.int64)
        for run in range(runs):
            states, own, level = z[run], unit[run], taken[run]
            theirs, halted, waiting = monitored_loss[run % len(monitored_loss)], 0, nodes
            for node in range(nodes):
                filled[node], listening[node], level[node] = ZERO, node, 0
            for k in range(steps):
                while halted < len(theirs) and not filled[theirs[halted]] < budget:
                    halted += 1
                if halted == len(theirs):
                    break
                weights, sizes = left[run % len(left), k % left.shape[1]], scale[run % len(scale), k % scale.shape[1]]
                if k == 0 or scale.shape[1] > 1:  # else those who have halted say what they said
                    for node in range(nodes):
                        now = states[level[node], node]
                        blend(width, sizes[node], now, ZERO, now, said[node])
                after, start, still = states[k + 1], states[0], 0
                for number in range(waiting):
                    node = listening[number]
                    gather(width, large, weights, columns, pointers[node], pointers[node + 1], said, total)
                    blend(width, decay * sizes[node], total, home, start[node], after[node])
                    answer, new = bias[run], after[node]
                    for c in range(width):
                        answer += new[c] * own[c]
                    h[run, k, node] = ONE / (ONE + np.exp(-answer))
                for number in range(waiting):
                    node = listening[number]
                    level[node] = k + 1
                    filled[node] += h[run, k, node]
                    blend(width, sizes[node], after[node], ZERO, after[node], said[node])
                    if filled[node] < budget:
                        listening[still] = node
                        still += 1
                waiting = still

    @compiled
    def backward(pointers, columns, left, scale, decay, home, to_z, taken):
        runs, steps, nodes = to_z.shape[0], to_z.shape[1] - 1, to_z.shape[2]
        given, heard = np.empty(width, np.float32), np.zeros((nodes, width), np.float32)
        for run in range(runs):
            level = taken[run]
            for k in range(steps - 1, -1, -1):
                weights, sizes = left[run % len(left), k % left.shape[1]], scale[run % len(scale), k % scale.shape[1]]
                above, start, any_heard = to_z[run, k + 1], to_z[run, 0], False
                for node in range(nodes):
                    if level[node] <= k:
                        continue
                    own, any_given = above[node], ZERO
                    for c in range(width):
                        any_given += abs(own[c])
                    if any_given == ZERO:
                        continue
                    any_heard = True
                    blend(width, decay * sizes[node], own, ZERO, own, given)
                    scatter(width, large, weights, columns, pointers[node], pointers[node + 1], heard, given)
                    if home != ZERO:
                        blend(width, home, own, ONE, start[node], start[node])
                if any_heard:
                    for node in range(nodes):
                        below = to_z[run, min(k, level[node]), node]
                        blend(width, sizes[node], heard[node], ONE, below, below)
                    heard[:] = ZERO

    return forward, backward
