"""How do nodes combine what they heard on a GPU, and how does the gradient come back? A launch each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256  # values of nodes that a program combines at a time


def combine(
    z: Tensor,
    h: Tensor,
    updates: Tensor | None,
    nodes: Tensor | None,
    budget: float,
    found: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fill the output (runs, nodes, channels), the steps and the remainder (runs, nodes), whoever is asked for."""
    runs, _, count, width = z.shape
    _combine[triton.cdiv(count, max(1, BLOCK // width)), runs](
        z, h, h if updates is None else updates, budget, *found, count, found[0].shape[-1], h.shape[1],
        DROPS=updates is not None, NODES=max(1, BLOCK // width), CHANNELS=width,
    )  # fmt: skip


@triton.jit
def _combine(
    z, h, updates, budget, output, taken, remainder, nodes, channels, steps,
    DROPS: tl.constexpr, NODES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    there = node < nodes
    h += run * steps * nodes
    updates += run * steps * nodes
    z += run * (steps + 1) * nodes * CHANNELS
    last = tl.full((NODES,), 1, tl.int32)
    filled = tl.zeros((NODES,), tl.float32)
    for k in range(0, steps - 1):
        filled += tl.load(h + k * nodes + node, mask=there, other=1.0)
        last += (filled < budget).to(tl.int32)
    channel = tl.arange(0, CHANNELS)
    both = there[:, None] & (channel < channels)[None, :]
    place = node[:, None] * CHANNELS + channel[None, :]  # in z
    outside = node[:, None] * channels + channel[None, :]  # in the output
    here = z
    before = tl.load(here + place, mask=there[:, None], other=0.0)
    total = tl.zeros((NODES, CHANNELS), tl.float32)
    p = tl.zeros((NODES,), tl.float32)
    rest = tl.zeros((NODES,), tl.float32)
    for k in range(0, steps):
        at_last = k == last - 1
        p = tl.where(at_last, 1.0 - p, p + tl.load(h + k * nodes + node, mask=there, other=0.0))
        rest = tl.where(at_last, p, rest)
        share = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if DROPS:
            share *= tl.load(updates + k * nodes + node, mask=there, other=0.0)
        here += nodes * CHANNELS
        after = tl.load(here + place, mask=there[:, None], other=0.0)
        new = p * share
        total += new[:, None] * after + (share - new)[:, None] * before
        before = after
    tl.store(output + run * nodes * channels + outside, total, mask=both)
    tl.store(taken + run * nodes + node, last.to(tl.int64), mask=there)
    tl.store(remainder + run * nodes + node, rest, mask=there)


def combine_backward(
    z: Tensor, h: Tensor, updates: Tensor | None, unit: Tensor, taken: Tensor, gradients: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The gradients of z, but for what flows from step to step, and of what the halting unit said."""
    runs, _, nodes, width = z.shape
    channels = unit.shape[-1]
    to_z, to_asked = torch.empty_like(z), torch.empty_like(h)
    _combine_back[triton.cdiv(nodes, max(1, BLOCK // width)), runs](
        z, h, h if updates is None else updates, unit, taken, *gradients, to_z, to_asked, nodes, channels, h.shape[1],
        DROPS=updates is not None, NODES=max(1, BLOCK // width), CHANNELS=width,
    )  # fmt: skip
    return to_z, to_asked


@triton.jit
def _combine_back(
    z, h, updates, unit, taken, to_output, to_remainder, to_z, to_asked, nodes, channels, steps,
    DROPS: tl.constexpr, NODES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    there = node < nodes
    h += run * steps * nodes
    to_asked += run * steps * nodes
    updates += run * steps * nodes
    z += run * (steps + 1) * nodes * CHANNELS
    to_z += run * (steps + 1) * nodes * CHANNELS
    channel = tl.arange(0, CHANNELS)
    wide = channel < channels
    both = there[:, None] & wide[None, :]
    place = node[:, None] * CHANNELS + channel[None, :]  # in z
    outside = node[:, None] * channels + channel[None, :]  # in the output
    given = tl.load(to_output + run * nodes * channels + outside, mask=both, other=0.0)
    own = tl.load(unit + run * channels + channel, mask=wide, other=0.0)
    last = tl.load(taken + run * nodes + node, mask=there, other=1).to(tl.int32)
    through = -tl.load(to_remainder + run * nodes + node, mask=there, other=0.0)  # R falls as any h before it grows
    here = z
    before = tl.load(here + place, mask=there[:, None], other=0.0)
    for k in range(0, steps):  # all that p^1, ..., p^K bring; each falls away when its step is passed
        share = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if DROPS:
            share *= tl.load(updates + k * nodes + node, mask=there, other=0.0)
        here += nodes * CHANNELS
        after = tl.load(here + place, mask=there[:, None], other=0.0)
        gained = share * tl.sum(given * (after - before), axis=1)
        through += tl.where(k == last - 1, -gained, gained)
        before = after
    here = z
    before = tl.load(here + place, mask=there[:, None], other=0.0)
    p = tl.zeros((NODES,), tl.float32)
    arrived = tl.zeros((NODES, CHANNELS), tl.float32)  # what z^k gets as the new value of step k
    for k in range(0, steps):
        at_last = k == last - 1
        mine = tl.load(h + k * nodes + node, mask=there, other=0.0)
        p = tl.where(at_last, 1.0 - p, p + mine)
        share = tl.where(k < last, 1.0 / last.to(tl.float32), 0.0)
        if DROPS:
            share *= tl.load(updates + k * nodes + node, mask=there, other=0.0)
        new = p * share
        to_answer = tl.where(k < last - 1, through * mine * (1.0 - mine), 0.0)
        tl.store(to_asked + k * nodes + node, to_answer, mask=there)
        here += nodes * CHANNELS
        after = tl.load(here + place, mask=there[:, None], other=0.0)
        through -= share * tl.sum(given * (after - before), axis=1)
        tl.store(to_z + place, arrived + (share - new)[:, None] * given, mask=there[:, None])
        to_z += nodes * CHANNELS
        arrived = new[:, None] * given + to_answer[:, None] * own[None, :]
        before = after
    tl.store(to_z + place, arrived, mask=there[:, None])
