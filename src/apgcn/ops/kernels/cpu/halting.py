"""How do nodes combine what they heard, and how does the gradient come back? See `halting` for the equations."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, arrays_of, compiled


def combine(
    z: Tensor,
    h: Tensor,
    updates: Tensor | None,
    nodes: Tensor | None,
    budget: float,
    found: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fill the output (runs, nodes, channels), the steps and the remainder (runs, nodes)."""
    if nodes is not None:
        for one in found:
            one.fill_(1)  # of the others
    wanted = torch.arange(h.shape[-1])[None] if nodes is None else nodes
    _combine(*arrays_of(z, h, _or_ones(updates, h), wanted), np.float32(budget), *arrays_of(*found))


@compiled
def _combine(z, h, updates, wanted, budget, output, taken, remainder):
    runs, steps, _ = h.shape
    channels = output.shape[2]
    fixed = updates.shape[1] == 1
    for run in range(runs):
        states, own, factors = z[run], h[run], updates[run % len(updates)]
        for node in wanted[run % len(wanted)]:
            last, filled = steps, ZERO
            for k in range(steps - 1):
                filled += own[k, node]
                if not filled < budget:  # NaN ends it, too
                    last = k + 1
                    break
            taken[run, node] = last
            into, p = output[run, node], ZERO
            for c in range(channels):
                into[c] = ZERO
            for k in range(last):
                p = p + own[k, node] if k < last - 1 else ONE - p
                share = factors[0 if fixed else k, node] / np.float32(last)
                new, after, before = p * share, states[k + 1, node], states[k, node]
                old = share - new
                for c in range(channels):
                    into[c] += new * after[c] + old * before[c]
            remainder[run, node] = p


def combine_backward(
    z: Tensor, h: Tensor, updates: Tensor | None, unit: Tensor, taken: Tensor, gradients: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The gradients of z, but for what flows from step to step, and of what the halting unit said.

    `gradients` are those of output and remainder.
    """
    to_z, to_asked = torch.zeros_like(z), torch.zeros_like(h)
    _combine_back(*arrays_of(z, h, _or_ones(updates, h), unit, taken, *gradients, to_z, to_asked))
    return to_z, to_asked


@compiled
def _combine_back(z, h, updates, unit, taken, to_output, to_remainder, to_z, to_asked):
    runs, steps, nodes = h.shape
    channels = to_output.shape[2]
    fixed = updates.shape[1] == 1
    to_p = np.empty(steps, np.float32)
    for run in range(runs):
        states, own, factors, into = z[run], h[run], updates[run % len(updates)], to_z[run]
        for node in range(nodes):
            given, of_remainder = to_output[run, node], to_remainder[run, node]
            any_given = abs(of_remainder)
            for c in range(channels):
                any_given += abs(given[c])
            if any_given == ZERO:  # most nodes are not in the training set
                continue
            last, p = taken[run, node], ZERO
            for k in range(last):
                p = p + own[k, node] if k < last - 1 else ONE - p
                share = factors[0 if fixed else k, node] / np.float32(last)
                new, after, before, gained = p * share, states[k + 1, node], states[k, node], ZERO
                old, to_after, to_before = share - new, into[k + 1, node], into[k, node]
                for c in range(channels):
                    to_after[c] += new * given[c]
                    to_before[c] += old * given[c]
                    gained += given[c] * (after[c] - before[c])
                to_p[k] = gained * share
            through = -(to_p[last - 1] + of_remainder)  # R falls as any h before it grows
            for k in range(last - 2, -1, -1):
                through += to_p[k]  # p^k and all p after it grow with h^k
                to_answer = through * own[k, node] * (ONE - own[k, node])
                to_asked[run, k, node] = to_answer
                to_after = into[k + 1, node]
                for c in range(channels):
                    to_after[c] += to_answer * unit[run, c]


def _or_ones(updates: Tensor | None, h: Tensor) -> Tensor:
    return h.new_ones(1, 1, h.shape[-1]) if updates is None else updates
