"""How do nodes listen of whom some hear rows of other processes? As in `listening`, with an exchange at every step.

A row is scaled by whom it belongs to before it is said, so that nothing but rows is exchanged. All processes take the
same number of steps: until nobody of those that matter listens, in any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.adaptive_propagation import Halting, PropagationMatrices
from apgcn.ops.kernels.cpu.jit import ONE, ZERO, arrays_of, compiled, rows_of
from apgcn.ops.kernels.cpu.simd_rows import LARGE, blend, gather, scatter

ROUNDING = 1e-5  # of a budget: two ways to compute h must agree that it is filled


def propagate_halo(
    matrices: PropagationMatrices,
    prepared: tuple[Tensor, Tensor],
    z: Tensor,
    unit: Tensor,
    bias: Tensor,
    nodes: Tensor | None,
    halting: Halting,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """h (runs, T, rows) and what the way back needs, from the matrices and z, whose z^0 is there and which is filled.

    After the last step that is taken both are zero.
    """
    exchange = matrices.exchange
    runs, _, count, width = z.shape
    left, scale = prepared
    said = z.new_zeros(runs, matrices.structure.shape[1], width)
    h, filled = z.new_zeros(runs, halting.steps, count), z.new_zeros(runs, count)
    level = torch.zeros(runs, count, dtype=torch.int32)
    monitored_loss = torch.arange(count)[None] if nodes is None else nodes
    say, hear, _, _ = _loops(width, large=said.shape[1] * width > LARGE)
    factors = np.float32(matrices.decay), np.float32(matrices.home)
    channels = unit.shape[-1]  # the others are zero, and not sent
    unit = functional.pad(unit, (0, width - channels))
    budget = halting.budget if halting.freeze else halting.budget + ROUNDING
    given, own = rows_of(matrices.structure), arrays_of(unit, bias)
    states, saying, answers, sums, levels = arrays_of(z, said, h, filled, level)
    done = 0
    for k in range(halting.steps):
        weights, sizes = (arrays_of(one[:, k % one.shape[1]])[0] for one in (left, scale))
        say(k, halting.freeze, sizes, states, levels, saying)
        said[:, count:, :channels] = exchange.send(said[:, :count, :channels])
        hear(
            k,
            halting.freeze,
            *given,
            weights,
            sizes,
            *factors,
            np.float32(budget),
            *own,
            states,
            saying,
            answers,
            sums,
            levels,
        )
        done = k + 1
        if done < halting.steps and not exchange.anybody(
            bool((filled.gather(1, monitored_loss.expand(runs, -1)) < budget).any())
        ):
            break
    return h, (left, scale, level, torch.tensor([done, int(halting.freeze), channels]))


def propagate_halo_backward(matrices: PropagationMatrices, kept: tuple[Tensor, ...], to_z: Tensor) -> None:
    """Bring the gradients of z^1, ..., z^T home to z^0, in place; shape as z."""
    left, scale, level, facts = kept
    done, freeze, channels = facts.tolist()
    runs, _, count, width = to_z.shape
    heard = to_z.new_empty(runs, matrices.structure.shape[1], width)
    _, _, give, take = _loops(width, large=heard.shape[1] * width > LARGE)
    factors = np.float32(matrices.decay), np.float32(matrices.home)
    gradients, hearing, levels = arrays_of(to_z, heard, level)
    for k in range(done - 1, -1, -1):
        weights, sizes = (arrays_of(one[:, k % one.shape[1]])[0] for one in (left, scale))
        heard.zero_()
        give(k, bool(freeze), *rows_of(matrices.structure), weights, sizes, *factors, gradients, hearing, levels)
        heard[:, :count, :channels] += matrices.exchange.send_back(heard[:, count:, :channels], count)
        take(k, bool(freeze), sizes, gradients, hearing, levels)


@cache
def _loops(width: int, *, large: bool) -> tuple[Callable, Callable, Callable, Callable]:
    @compiled
    def say(k, freeze, scale, z, level, said):
        for run in range(len(z)):
            sizes = scale[run % len(scale)]
            for node in range(len(sizes)):
                now = z[run, level[run, node] if freeze else k, node]
                blend(width, sizes[node], now, ZERO, now, said[run, node])

    @compiled
    def hear(
        k, freeze, pointers, columns, weights, scale, decay, home, budget, unit, bias, z, said, h, filled, level
    ):  # fmt: skip
        total = np.empty(width, np.float32)
        for run in range(len(z)):
            edges, sizes, own = weights[run % len(weights)], scale[run % len(scale)], unit[run]
            after, start = z[run, k + 1], z[run, 0]
            for node in range(len(sizes)):
                if freeze and not filled[run, node] < budget:
                    continue
                gather(width, large, edges, columns, pointers[node], pointers[node + 1], said[run], total)
                blend(width, decay * sizes[node], total, home, start[node], after[node])
                answer, new = bias[run], after[node]
                for c in range(width):
                    answer += new[c] * own[c]
                h[run, k, node] = ONE / (ONE + np.exp(-answer))
                filled[run, node] += h[run, k, node]
                level[run, node] = k + 1

    @compiled
    def give(k, freeze, pointers, columns, weights, scale, decay, home, to_z, heard, level):
        given = np.empty(width, np.float32)
        for run in range(len(to_z)):
            edges, sizes = weights[run % len(weights)], scale[run % len(scale)]
            above, start = to_z[run, k + 1], to_z[run, 0]
            for node in range(len(sizes)):
                if freeze and level[run, node] <= k:
                    continue
                own, any_given = above[node], ZERO
                for c in range(width):
                    any_given += abs(own[c])
                if any_given == ZERO:
                    continue
                blend(width, decay * sizes[node], own, ZERO, own, given)
                scatter(width, large, edges, columns, pointers[node], pointers[node + 1], heard[run], given)
                if home != ZERO:
                    blend(width, home, own, ONE, start[node], start[node])

    @compiled
    def take(k, freeze, scale, to_z, heard, level):
        for run in range(len(to_z)):
            sizes = scale[run % len(scale)]
            for node in range(len(sizes)):
                below = to_z[run, min(k, level[run, node]) if freeze else k, node]
                blend(width, sizes[node], heard[run, node], ONE, below, below)

    return say, hear, give, take
