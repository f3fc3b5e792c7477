"""How do nodes listen until they halt on a GPU? A launch for each step; see `kernels.listening` for the equations.

What a node says in a step is scaled when it is computed, once, and not by each that hears it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.adaptive_propagation import Halting, PropagationMatrices
from apgcn.ops.kernels.gpu.csr_blocks import Shares, rows_at
from apgcn.ops.kernels.gpu.edge_dropout import Edges, edges_of

PROGRAMS, FEWEST = 32768, 64  # in a launch, of all runs and of each: more cost time where nobody waits


def propagate(
    matrices: PropagationMatrices, z0: Tensor, unit: Tensor, bias: Tensor, nodes: Tensor | None, halting: Halting
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """z^0, ..., z^T, h^1, ..., h^T, the edges left, whether any node waits before each step, and the steps taken.

    Shapes as in `kernels.cpu.listening`; who waits is (runs, steps + 1). A run in which nobody waits any more has
    done with its launch at once; then z and h are 0. The steps taken are there where nodes freeze; then all are waited
    for, because only who waits goes on.
    """
    runs, count, channels = z0.shape
    steps, budget = halting.steps, halting.budget
    width = triton.next_power_of_2(channels)
    z, h = z0.new_zeros(runs, steps + 1, count, width), z0.new_zeros(runs, steps, count)
    z[:, 0, :, :channels] = z0
    unit = functional.pad(unit, (0, width - channels))
    filled = z0.new_zeros(runs, count)
    if nodes is not None and not halting.freeze:
        filled.fill_(budget).scatter_(1, nodes, 0)  # the others wait for nothing
    waiting = torch.zeros(runs, steps + 1, dtype=torch.int32, device=z0.device)
    waiting[:, 0] = 1
    taken = torch.zeros(runs, count if halting.freeze else 0, dtype=torch.int32, device=z0.device)
    edges = edges_of(matrices, steps)
    said = _said(z[:, 0], edges, 0)
    for k in range(steps):
        given = unit, bias, h[:, k], filled
        _step(matrices, edges, z, said, waiting, taken, k, transposed=False, given=given, budget=budget)
    return z, h, (edges.scale, waiting, taken, *(() if edges.words is None else (edges.words,)))


def propagate_backward(matrices: PropagationMatrices, kept: tuple[Tensor, ...], to_z: Tensor) -> None:
    """Bring the gradients of z^1, ..., z^T home to z^0, in place; shape as z."""
    scale, waiting, taken, *words = kept
    edges = Edges(words[0] if words else None, scale).transposed(matrices)
    matrices = matrices._replace(weights=matrices.weights.index_select(0, matrices.structure.order))
    last = to_z.shape[1] - 2
    said = _said(to_z[:, last + 1], edges, last)
    freezes = taken.shape[1] > 0
    if freezes:
        said[0] *= (taken > last)[..., None]
    for k in range(last, -1, -1):
        _step(matrices, edges, to_z, said, waiting, taken, k, transposed=True, given=(to_z,) * 4)
    if matrices.home:
        moved = to_z[:, 1:]
        if freezes:  # what passed through a halted node did not come from its seed again
            moved = moved * (taken[:, None] > torch.arange(last + 1, device=taken.device)[:, None])[..., None]
        to_z[:, 0].add_(moved.sum(1), alpha=matrices.home)


def _said(z: Tensor, edges: Edges, k: int) -> list[Tensor]:
    """What the nodes say in step k, and room for what they say in the next."""
    now = z * edges.scale_at(k)[..., None]
    return [now, torch.empty_like(now)]


def _step(
    matrices: PropagationMatrices,
    edges: Edges,
    z: Tensor,
    said: list[Tensor],
    waiting: Tensor,
    taken: Tensor,
    k: int,
    *,
    transposed: bool,
    given: tuple[Tensor, ...],
    budget: float = 0.0,
) -> None:
    """Step k: forward from z[:, k] to z[:, k + 1], or turned, adding to z[:, k] what comes from z[:, k + 1].

    `given` are Q, q, h^(k+1) and what the nodes have filled of their budget. Where nodes freeze, `taken` is told the
    steps that each takes, forward, and tells them, turned.
    """
    runs, states, nodes, width = z.shape
    csr = matrices.structure.transposed if transposed else matrices.structure.straight
    words, words_per_run, bit = edges.words_at(k)
    following = max(0, k - 1) if transposed else min(k + 1, states - 2)
    shares = Shares.of(csr, width)
    _listen[min(shares.programs, max(FEWEST, PROGRAMS // runs)), runs](
        csr.pointers, csr.columns, csr.schedule, shares.heavy, shares.programs, matrices.weights,
        words, words_per_run, bit, edges.scale_at(k), edges.scale_at(following), edges.scale_per_run,
        *said, z[:, 0], z[:, k if transposed else k + 1], states, waiting[:, k], waiting.stride(0), *given, taken, k,
        budget, nodes, matrices.decay * matrices.factor, matrices.home,
        FREEZES=taken.shape[1] > 0, TRANSPOSED=transposed, DROPS=edges.words is not None, WIDTH=width,
        num_warps=1, **shares.sizes,
    )  # fmt: skip
    said.reverse()


@triton.jit
def _edges_at(entry, last, columns, weights, words, bit, DROPS: tl.constexpr):
    """From where some edges come, their weights, and which of them are left."""
    left = entry < last
    column = tl.load(columns + entry, mask=left, other=0)
    weight = tl.load(weights + entry, mask=left, other=0.0)
    if DROPS:
        left = left & (((tl.load(words + entry, mask=left, other=0) >> bit) & 1) != 0)
    return column, weight, left


@triton.jit(do_not_specialize=["heavy", "shares", "bit", "k"])
def _listen(
    pointers, columns, schedule, heavy, shares, weights, words, words_per_run, bit, scale, next_scale, scale_per_run,
    said, next_said, start, state, states, waiting, waiting_per_run, unit, bias, h, filled, taken, k, budget, nodes,
    decay, home, FREEZES: tl.constexpr, TRANSPOSED: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    waiting += run * waiting_per_run
    nobody = tl.load(waiting) == 0
    if nobody:
        further = tl.load(waiting - 1) if TRANSPOSED else 0  # whether a gradient comes back in the next step
        if further == 0:
            return
    run = run.to(tl.int64)
    start += run * states * nodes * WIDTH
    state += run * states * nodes * WIDTH
    said += run * nodes * WIDTH
    next_said += run * nodes * WIDTH
    scale += run * scale_per_run
    next_scale += run * scale_per_run
    words += run * words_per_run
    unit += run * WIDTH
    bias += run
    h += run * (states - 1) * nodes
    filled += run * nodes
    taken += run * nodes
    still = 0
    for share in range(tl.program_id(0), shares, tl.num_programs(0)):
        if share < heavy:
            still += _hear(
                share + tl.arange(0, 1), heavy, nobody, pointers, columns, schedule, weights, words, bit,
                scale, next_scale, said, next_said, start, state, unit, bias, h, filled, taken, k, budget, nodes, decay,
                home, FREEZES, TRANSPOSED, DROPS, WIDTH, 1, ENTRIES if ROWS == 1 else 32, CHANNELS,
            )  # fmt: skip
        elif ROWS > 1:
            still += _hear(
                heavy + (share - heavy) * ROWS + tl.arange(0, ROWS), nodes, nobody, pointers, columns, schedule,
                weights, words, bit, scale, next_scale, said, next_said, start, state, unit, bias, h, filled, taken, k,
                budget, nodes, decay, home, FREEZES, TRANSPOSED, DROPS, WIDTH, ROWS, ENTRIES, CHANNELS,
            )  # fmt: skip
    if still > 0:
        tl.store(waiting + 1, 1)  # whoever comes first; they all say the same


@triton.jit
def _hear(
    number, end, nobody, pointers, columns, schedule, weights, words, bit, scale, next_scale, said, next_said,
    start, state, unit, bias, h, filled, taken, k, budget, nodes, decay, home,
    FREEZES: tl.constexpr, TRANSPOSED: tl.constexpr, DROPS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One step of the nodes at some places of the schedule; says how many of them wait for more."""
    node, first, last = rows_at(number, end, pointers, schedule)
    size = tl.load(scale + node, mask=number < end, other=0.0) * decay
    next_size = tl.load(next_scale + node, mask=number < end, other=0.0)
    if nobody:  # nothing comes back, but what is there must be said in the next step
        last = first
    frozen = number < 0  # nobody
    if FREEZES:
        if TRANSPOSED:
            listened = tl.load(taken + node, mask=number < end, other=0)
            frozen = listened <= k
            next_size = tl.where(listened >= k, next_size, 0.0)  # only who listened in the next step passes it on
        else:
            frozen = tl.load(filled + node, mask=number < end, other=budget) >= budget
            last = tl.where(frozen, first, last)
    answer = tl.zeros((ROWS,), tl.float32)
    for block in range(0, WIDTH, CHANNELS):
        channel = block + tl.arange(0, CHANNELS)
        heard = tl.zeros((ROWS, ENTRIES, CHANNELS), tl.float32)
        entry = first[:, None] + tl.arange(0, ENTRIES)[None, :]
        column, weight, left = _edges_at(entry, last[:, None], columns, weights, words, bit, DROPS)
        for _ in range(0, tl.max(last - first), ENTRIES):
            entry += ENTRIES
            now, value, kept = column, weight, left
            column, weight, left = _edges_at(entry, last[:, None], columns, weights, words, bit, DROPS)
            place = now[:, :, None] * WIDTH + channel[None, None, :]
            heard += value[:, :, None] * tl.load(said + place, mask=kept[:, :, None], other=0.0)
        new = size[:, None] * tl.sum(heard, axis=1)
        there = (number < end)[:, None]
        place = node[:, None] * WIDTH + channel[None, :]
        if TRANSPOSED:
            new += tl.load(state + place, mask=there, other=0.0)
            if FREEZES:
                above = state + nodes * WIDTH + place
                new += tl.load(above, mask=there & frozen[:, None], other=0.0)
        else:
            new += home * tl.load(start + place, mask=there, other=0.0)
            if FREEZES:
                before = tl.load(state - nodes * WIDTH + place, mask=there, other=0.0)
                new = tl.where(frozen[:, None], before, new)
            answer += tl.sum(new * tl.load(unit + channel)[None, :], axis=1)
        tl.store(state + place, new, mask=there)
        tl.store(next_said + place, next_size[:, None] * new, mask=there)
    if TRANSPOSED:
        return 0
    else:
        own = 1.0 / (1.0 + tl.exp(-(answer + tl.load(bias))))
        if FREEZES:
            own = tl.where(frozen, 0.0, own)
            tl.store(taken + node, k + 1, mask=(number < end) & (frozen == 0))
        tl.store(h + node, own, mask=number < end)
        so_far = tl.load(filled + node, mask=number < end, other=budget) + own
        tl.store(filled + node, so_far, mask=number < end)
        return tl.sum((so_far < budget).to(tl.int32))
