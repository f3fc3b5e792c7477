"""How are some rows of one step computed, and which rows must be there before? Parts of `asking`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from apgcn.kernels.cpu.compiling import ONE, ZERO, compiled
from apgcn.kernels.cpu.rows import LARGE, blend, gather


@compiled
def heard_by(pointers, columns, rows, level, reached, stamps, stamp, found, count):
    """Fill `found` with whom the rows hear, each once, if it has not reached the level; how many goes to count[0]."""
    number = 0
    for row in rows:
        for entry in range(pointers[row], pointers[row + 1]):
            node = columns[entry]
            if stamps[node] != stamp and reached[node] < level:
                stamps[node] = stamp
                found[number] = node
                number += 1
    count[0] = number


@cache
def step_of(width: int, *, large: bool) -> Callable:
    """One step of some rows: z' = decay A z + home z^0, and whether that fills their budget.

    `said` is what everybody says before, s z, `start` s z^0, and `after` gets what the rows say then.
    """

    @compiled
    def step(pointers, columns, weights, scale, decay, home, rows, level, said, start, after, halting):
        unit, bias, budget, filled, taken, reached = halting
        total = np.empty(width, np.float32)
        for row in rows:
            gather(width, large, weights, columns, pointers[row], pointers[row + 1], said, total)
            own, new, answer = scale[row], after[row], ZERO
            blend(width, decay * own * own, total, home, start[row], new)
            for c in range(width):
                answer += new[c] * unit[c]
            filled[row] += ONE / (ONE + np.exp(-(answer / own + bias)))
            reached[row] = level
            if taken[row] == 0 and not filled[row] < budget:
                taken[row] = level

    return step


def is_large(nodes: int, width: int) -> bool:
    """Whether a step's states do not stay in a processor's caches."""
    return nodes * width > LARGE


@compiled
def hold(rows, level, taken, reached, levels):
    """Those who have halted say at this level, too, what they said then."""
    for row in rows:
        for at in range(reached[row] + 1, level + 1):
            levels[at, row] = levels[taken[row], row]
        reached[row] = level


@compiled
def weigh(rows, levels, scale, unit, bias, taken, output, remainder):
    """What the rows have heard, z^0, ..., z^K, put together as in `halting`."""
    channels = output.shape[1]
    for number in range(len(rows)):
        row = rows[number]
        into, last, p = output[number], taken[row], ZERO
        for c in range(channels):
            into[c] = ZERO
        for k in range(1, last + 1):
            before, after, answer = levels[k - 1, row], levels[k, row], ZERO
            for c in range(channels):
                answer += after[c] * unit[c]
            p = p + ONE / (ONE + np.exp(-(answer / scale[row] + bias))) if k < last else ONE - p
            for c in range(channels):
                into[c] += p * after[c] + (ONE - p) * before[c]
        for c in range(channels):
            into[c] /= scale[row] * np.float32(last)
        remainder[number] = p
