"""CPU kernels of lazy inference: one propagation step of some rows, and which rows it needs.

S is the diagonal matrix D^-1/2 (`deg_inv_sqrt`); `scaled_z` are states multiplied by S, as in `propagation`. The
kernels are used by `inference.lazy_propagation`. Their reference is the full propagation of
`nn.propagation.AdaptivePropagation`; `tests/inference/test_lazy_propagation.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, kernel
from apgcn.ops.kernels.cpu.simd_rows import PREFETCH_SIZE, axpby, gather


@kernel
def in_neighbors(indptr, indices, rows, step, last_step, visited, call_number, neighbors, count):
    """Fill `neighbors` with those in-neighbours of the rows whose state after `step` is not yet computed.

    Each is listed once; their number goes to count[0]. `visited` holds the last `call_number` in which a
    node was listed, and `last_step` the last step of which its state is computed.
    """
    number = 0
    for row in rows:
        for entry in range(indptr[row], indptr[row + 1]):
            node = indices[entry]
            if visited[node] != call_number and last_step[node] < step:
                visited[node] = call_number
                neighbors[number] = node
                number += 1
    count[0] = number


@kernel
def initialize_rows(rows, z0, deg_inv_sqrt, scaled_z, output_sum):
    """Fill rows of `scaled_z` with S z^0, padded with zeros, and set their `output_sum` to zero."""
    channels = z0.shape[1]
    for number in range(len(rows)):
        row = rows[number]
        scaled_row, scale = scaled_z[row], deg_inv_sqrt[row]
        for c in range(channels):
            scaled_row[c] = scale * z0[number, c]
        for c in range(channels, len(scaled_row)):
            scaled_row[c] = ZERO
        output_sum[row] = ZERO


@kernel
def finalize_rows(rows, output_sum, deg_inv_sqrt, steps, output):
    """Fill `output` with the rows' weighted sums of states, divided by their steps K and no longer scaled by S."""
    for number in range(len(rows)):
        row = rows[number]
        row_sum, scale = output_sum[row], ONE / (deg_inv_sqrt[row] * steps[row])
        for c in range(output.shape[1]):
            output[number, c] = scale * row_sum[c]


@cache
def step_kernels(width: int, *, prefetch: bool) -> tuple[Callable, Callable]:
    """Return two kernels: one propagation step of some rows, and the update of their halting and output."""

    @kernel
    def propagate_rows(
        indptr, indices, weights, deg_inv_sqrt, adjacency_weight, z0_weight, rows, scaled_z, scaled_z0, scaled_new,
        halting_weight, logits, messages,
    ):  # fmt: skip
        """Fill rows of `scaled_new` with S z', z' = adjacency_weight A z + z0_weight z^0, and `logits` with z' Q.

        `scaled_z` and `scaled_z0` are S z and S z^0. The number of messages, self-loops not counted, is added to
        messages[0].
        """
        total, count = np.empty(width, np.float32), np.int64(0)
        for number in range(len(rows)):
            row = rows[number]
            first, last = indptr[row], indptr[row + 1]
            gather(width, prefetch, weights, indices, first, last, scaled_z, total)
            scale, new, logit = deg_inv_sqrt[row], scaled_new[row], ZERO
            axpby(width, adjacency_weight * scale * scale, total, z0_weight, scaled_z0[row], new)
            for c in range(width):
                logit += new[c] * halting_weight[c]
            logits[number] = logit / scale
            count += np.int64(last) - np.int64(first) - 1
        messages[0] += count

    @kernel
    def accumulate_rows(
        rows, h, step, max_steps, budget, scaled_z, scaled_new, in_place, halting_sum, steps, remainder, output_sum,
        last_step, count,
    ):  # fmt: skip
        """Add p z' + (1 - p) z, scaled by S, to the `output_sum` of the rows that have not halted, and let rows halt.

        With `in_place`, all nodes take the step together: `scaled_z` of the rows is overwritten by `scaled_new`, and
        the rows that have not halted are moved to the front of `rows`; their number goes to count[0].
        """
        active = 0
        for number in range(len(rows)):
            row = rows[number]
            last_step[row] = step
            if steps[row]:
                continue
            before = halting_sum[row]
            p = before + h[number]
            halting_sum[row] = p
            if step == max_steps or not p < budget:
                p = ONE - before
                steps[row], remainder[row] = step, p
            elif in_place:
                rows[active] = row
                active += 1
            axpby(width, p, scaled_new[row], ONE, output_sum[row], output_sum[row])
            axpby(width, ONE - p, scaled_z[row], ONE, output_sum[row], output_sum[row])
            if in_place:
                axpby(width, ONE, scaled_new[row], ZERO, scaled_new[row], scaled_z[row])
        count[0] = active

    return propagate_rows, accumulate_rows


def exceeds_cache(nodes: int, width: int) -> bool:
    """Whether the states of one step are too large for a CPU's caches, so that prefetching pays."""
    return nodes * width > PREFETCH_SIZE
