"""How do nodes listen until they halt on a GPU? A launch for each step; see `kernels.listening` for the equations."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from apgcn.kernels.gpu.entries import Tossed, entries_left, parts_of, rows_of
from apgcn.kernels.listening import Matrices

PROGRAMS, FEWEST = 8192, 64  # that listen at a time, of all runs and of each: enough for every core to have some


def listen(
    matrices: Matrices, seeds: Tensor, unit: Tensor, bias: Tensor, nodes: Tensor | None, steps: int, budget: float
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """z^0, ..., z^T, h^1, ..., h^T, the scales D_k^-1/2 and how many nodes are still waiting before each step.

    Shapes as in `kernels.cpu.listening`; the scales are (1 or runs, 1 or steps, nodes), those waiting (runs, steps +
    1). A run in which nobody waits any more has done with its launch at once; then z and h are 0.
    """
    runs, count, channels = seeds.shape
    width = triton.next_power_of_2(channels)
    z, h = seeds.new_zeros(runs, steps + 1, count, width), seeds.new_zeros(runs, steps, count)
    z[:, 0, :, :channels] = seeds
    unit = functional.pad(unit, (0, width - channels))
    filled = seeds.new_zeros(runs, count)
    if nodes is not None:
        filled.fill_(budget).scatter_(1, nodes, 0)  # the others wait for nothing
    waiting = torch.zeros(runs, steps + 1, dtype=torch.int32, device=seeds.device)
    waiting[:, 0] = 1
    fixed = matrices.coins is None or not matrices.renormalize
    scale = seeds.new_ones(1 if fixed else runs, 1 if fixed else steps, count)
    for k in range(steps):
        if matrices.renormalize and (k == 0 or not fixed):
            _scale(matrices, scale, waiting, k)
        _step(matrices, scale, z, waiting, k, turned=False, given=(unit, bias, h[:, k], filled), budget=budget)
    return z, h, (scale, waiting)


def listen_back(matrices: Matrices, kept: tuple[Tensor, Tensor], to_z: Tensor) -> None:
    """Bring the gradients of z^1, ..., z^T home to z^0, in place; shape as z."""
    matrices = matrices._replace(weights=matrices.weights.index_select(0, matrices.pattern.order))
    scale, waiting = kept
    for k in reversed(range(to_z.shape[1] - 1)):
        _step(matrices, scale, to_z, waiting, k, turned=True, given=(to_z,) * 4)
    if matrices.home:
        to_z[:, 0].add_(to_z[:, 1:].sum(1), alpha=matrices.home)


def _scale(matrices: Matrices, scale: Tensor, waiting: Tensor, k: int) -> None:
    """Find D_k^-1/2."""
    coins, nodes = Tossed.of(matrices.coins, matrices.weights), matrices.pattern.shape[0]
    _scales[triton.cdiv(nodes, 32), len(scale)](
        *rows_of(matrices.pattern), matrices.weights, scale[:, k], scale.stride(0), waiting[:, k], waiting.stride(0),
        nodes, k * matrices.pattern.entries, coins.words, coins.per_run, coins.dropped, coins.factor,
        KIND=coins.kind, LOOPS=matrices.keeps_loops, ROWS=32, ENTRIES=8, num_warps=2,
    )  # fmt: skip


def _step(
    matrices: Matrices,
    scale: Tensor,
    z: Tensor,
    waiting: Tensor,
    k: int,
    *,
    turned: bool,
    given: tuple[Tensor, ...],
    budget: float = 0.0,
) -> None:
    """Step k: forward from z[:, k] to z[:, k + 1], or turned, adding to z[:, k] what comes from z[:, k + 1].

    `given` are Q, q, h^(k+1) and what the nodes have filled of their budget.
    """
    runs, states, nodes, width = z.shape
    coins = Tossed.of(matrices.coins, matrices.weights)
    for part in parts_of(matrices.pattern, width, turned=turned):
        _listen[min(part.programs, max(FEWEST, PROGRAMS // runs)), runs](
            *rows_of(matrices.pattern, turned=turned), part.first, part.last, matrices.weights,
            scale[:, k % scale.shape[1]], 0 if len(scale) == 1 else scale.stride(0),
            z[:, 0], z[:, k], z[:, k + 1], states, waiting[:, k], *given, budget,
            nodes, k * matrices.pattern.entries, matrices.decay, matrices.home,
            coins.words, coins.per_run, coins.dropped, coins.factor,
            TURNED=turned, KIND=coins.kind, LOOPS=matrices.keeps_loops, WIDTH=width, **part.sizes,
        )  # fmt: skip


@triton.jit(do_not_specialize=["coin_start"])
def _scales(
    pointers, columns, schedule, order, weights, scale, scale_per_run, waiting, waiting_per_run, nodes, coin_start,
    words, words_per_run, dropped, factor,
    KIND: tl.constexpr, LOOPS: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    if tl.load(waiting + run * waiting_per_run) == 0:
        return
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    node = tl.load(schedule + number, mask=number < nodes, other=0)
    first = tl.load(pointers + node, mask=number < nodes, other=0)
    last = tl.load(pointers + node + 1, mask=number < nodes, other=0)
    total = tl.zeros((ROWS,), tl.float32)
    for at in range(0, tl.max(last - first), ENTRIES):
        entry = first[:, None] + at + tl.arange(0, ENTRIES)[None, :]
        _, value, _ = entries_left(
            node[:, None], entry, entry < last[:, None], columns, order, weights, words, words_per_run, dropped, factor,
            run, coin_start, False, KIND, LOOPS,
        )  # fmt: skip
        total += tl.sum(value, axis=1)
    place = run.to(tl.int64) * scale_per_run + node
    tl.store(scale + place, 1.0 / tl.sqrt(tl.where(number < nodes, total, 1.0)), mask=number < nodes)


@triton.jit(do_not_specialize=["begin", "end", "coin_start"])
def _listen(
    pointers, columns, schedule, order, begin, end, weights, scale, scale_per_run,
    start, lower, upper, states, waiting, unit, bias, h, filled, budget, nodes, coin_start, decay, home,
    words, words_per_run, dropped, factor,
    TURNED: tl.constexpr, KIND: tl.constexpr, LOOPS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    waiting += run * states
    if tl.load(waiting) == 0:
        return
    mine = run.to(tl.int64) * states * nodes * WIDTH
    start += mine
    lower += mine
    upper += mine
    heard = upper if TURNED else lower
    scale += run.to(tl.int64) * scale_per_run
    still = tl.zeros((ROWS,), tl.int32)
    for some in range(begin + tl.program_id(0) * ROWS, end, tl.num_programs(0) * ROWS):
        number = some + tl.arange(0, ROWS)
        node = tl.load(schedule + number, mask=number < end, other=0)
        first = tl.load(pointers + node, mask=number < end, other=0)
        last = tl.load(pointers + node + 1, mask=number < end, other=0)
        size = tl.load(scale + node, mask=number < end, other=0.0) * decay
        answer = tl.zeros((ROWS,), tl.float32)
        for block in range(0, WIDTH, CHANNELS):
            channel = block + tl.arange(0, CHANNELS)
            heard_from = tl.zeros((ROWS, ENTRIES, CHANNELS), tl.float32)
            for at in range(0, tl.max(last - first), ENTRIES):
                entry = first[:, None] + at + tl.arange(0, ENTRIES)[None, :]
                column, value, left = entries_left(
                    node[:, None], entry, entry < last[:, None], columns, order, weights, words, words_per_run, dropped,
                    factor, run, coin_start, TURNED, KIND, LOOPS,
                )  # fmt: skip
                value *= tl.load(scale + column, mask=left, other=0.0)
                place = column[:, :, None] * WIDTH + channel[None, None, :]
                heard_from += value[:, :, None] * tl.load(heard + place, mask=left[:, :, None], other=0.0)
            new = size[:, None] * tl.sum(heard_from, axis=1)
            there = (number < end)[:, None]
            place = node[:, None] * WIDTH + channel[None, :]
            if TURNED:
                tl.store(lower + place, tl.load(lower + place, mask=there, other=0.0) + new, mask=there)
            else:
                new += home * tl.load(start + place, mask=there, other=0.0)
                tl.store(upper + place, new, mask=there)
                answer += tl.sum(new * tl.load(unit + run * WIDTH + channel)[None, :], axis=1)
        if not TURNED:
            own = 1.0 / (1.0 + tl.exp(-(answer + tl.load(bias + run))))
            tl.store(h + run.to(tl.int64) * (states - 1) * nodes + node, own, mask=number < end)
            into = filled + run.to(tl.int64) * nodes + node
            so_far = tl.load(into, mask=number < end, other=budget) + own
            tl.store(into, so_far, mask=number < end)
            still += (so_far < budget).to(tl.int32)
    if not TURNED:
        tl.atomic_add(waiting + 1, tl.sum(still))
