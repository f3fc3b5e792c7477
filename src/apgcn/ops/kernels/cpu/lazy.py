"""How are some rows of one step computed, and which rows must be there before? Parts of `asking`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, compiled
from apgcn.ops.kernels.cpu.simd_rows import LARGE, SMALL, blend, gather


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


@compiled
def begin(rows, z0, scale, into, sums):
    """Seeds as they are said, s z^0, filled up with zeros; nothing was heard yet."""
    channels = z0.shape[1]
    for number in range(len(rows)):
        row = rows[number]
        own, size = into[row], scale[row]
        for c in range(channels):
            own[c] = size * z0[number, c]
        for c in range(channels, len(own)):
            own[c] = ZERO
        sums[row] = ZERO


@compiled
def finish(rows, sums, scale, taken, output):
    """What the rows have heard, over the number of their steps, no longer scaled."""
    for number in range(len(rows)):
        row = rows[number]
        own, share = sums[row], ONE / (scale[row] * taken[row])
        for c in range(output.shape[1]):
            output[number, c] = share * own[c]


@cache
def hidden_of(width: int) -> Callable:
    """A loop: ReLU(X W + b) of some rows of sparse features, W and b filled up to the width."""

    @compiled
    def hidden(pointers, columns, values, rows, weight, bias, into):
        total = np.empty(width, np.float32)
        for number in range(len(rows)):
            row = rows[number]
            gather(width, SMALL, values, columns, pointers[row], pointers[row + 1], weight, total)
            own = into[number]
            for c in range(width):
                own[c] = max(total[c] + bias[c], ZERO)

    return hidden


@cache
def step_of(width: int, *, large: bool) -> tuple[Callable, Callable]:
    """Two loops: one step of some rows, and what they make of it as long as they listen."""

    @compiled
    def step(pointers, columns, weights, scale, decay, home, rows, said, start, after, unit, answers, messages):
        """z' = decay A z + home z^0 and z' Q, of what everybody says before, s z, and `start`, s z^0."""
        total, count = np.empty(width, np.float32), np.int64(0)
        for number in range(len(rows)):
            row = rows[number]
            first, last = pointers[row], pointers[row + 1]
            gather(width, large, weights, columns, first, last, said, total)
            own, new, answer = scale[row], after[row], ZERO
            blend(width, decay * own * own, total, home, start[row], new)
            for c in range(width):
                answer += new[c] * unit[c]
            answers[number] = answer / own
            count += np.int64(last) - np.int64(first) - 1
        messages[0] += count

    @compiled
    def weigh(rows, h, level, end, budget, said, after, together, filled, taken, remainder, heard, reached, count):
        """Fill budgets, and add p z' + (1 - p) z, scaled, to what the rows have heard, until they halt.

        Where all nodes listen together, the rows say from now on what they say after this step, and those that have not
        halted come first among them, count[0] of them.
        """
        still = 0
        for number in range(len(rows)):
            row = rows[number]
            reached[row] = level
            if taken[row]:
                continue
            before = filled[row]
            p = before + h[number]
            filled[row] = p
            if level == end or not p < budget:
                p = ONE - before
                taken[row], remainder[row] = level, p
            elif together:
                rows[still] = row
                still += 1
            blend(width, p, after[row], ONE, heard[row], heard[row])
            blend(width, ONE - p, said[row], ONE, heard[row], heard[row])
            if together:
                blend(width, ONE, after[row], ZERO, after[row], said[row])
        count[0] = still

    return step, weigh


def is_large(nodes: int, width: int) -> bool:
    """Whether a step's states do not stay in a processor's caches."""
    return nodes * width > LARGE
