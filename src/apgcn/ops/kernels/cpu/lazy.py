"""CPU kernels of lazy inference: propagation steps of some or all rows, and which rows they need.

S is the diagonal matrix D^-1/2 (`deg_inv_sqrt`); `scaled_z` are states multiplied by S, as in `propagation`. The
kernels are used by `inference.lazy_propagation`. Their reference is the full propagation of
`nn.propagation.AdaptivePropagation`; `tests/inference/test_lazy_propagation.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, kernel, kernel_helper
from apgcn.ops.kernels.cpu.parallel import (
    atomic_add,
    atomic_load,
    barrier,
    choose_threads,
    parallel_kernel,
    thread_range,
    thread_range_by_weight,
)
from apgcn.ops.kernels.cpu.simd_rows import PREFETCH_SIZE, add_axpby, axpby, gather_axpby_dot

BLOCK_ROWS = 512  # rows whose states are in the caches when they are added to the output


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


@parallel_kernel
def initialize_rows(rows, z0, deg_inv_sqrt, scaled_z, output_sum, thread, threads, sync):
    """Fill rows of `scaled_z` with S z^0, padded with zeros, and set their `output_sum` to zero."""
    channels = z0.shape[1]
    first, last = thread_range(len(rows), thread, threads)
    for number in range(first, last):
        row = rows[number]
        scaled_row, scale = scaled_z[row], deg_inv_sqrt[row]
        for c in range(channels):
            scaled_row[c] = scale * z0[number, c]
        for c in range(channels, len(scaled_row)):
            scaled_row[c] = ZERO
        output_sum[row] = ZERO


@parallel_kernel
def finalize_rows(rows, output_sum, deg_inv_sqrt, steps, output, thread, threads, sync):
    """Fill `output` with the rows' weighted sums of states, divided by their steps K and no longer scaled by S."""
    first, last = thread_range(len(rows), thread, threads)
    for number in range(first, last):
        row = rows[number]
        row_sum, scale = output_sum[row], ONE / (deg_inv_sqrt[row] * steps[row])
        for c in range(output.shape[1]):
            output[number, c] = scale * row_sum[c]


@kernel_helper
def expected_saving(messages_before, messages, all_messages):
    """Messages that a step of the active rows alone saves, times the fraction of the active rows that halted last.

    The fewer of them halt, the more likely the states that were not computed are needed later.
    """
    if messages_before == 0:
        return 0.0
    return (1.0 - messages / messages_before) * (all_messages - messages)


@cache
def steps_kernel(width: int, *, prefetch: bool) -> Callable:
    """Return the kernel of one or more propagation steps of some rows, with their halting and their output.

    Its arithmetic has one order, so that a row has the same bits whichever rows are computed with it.
    """

    @parallel_kernel(exact=True)
    def take_steps(
        indptr, indices, weights, deg_inv_sqrt, adjacency_weight, z0_weight, halting_weight, halting_bias, max_steps,
        budget, first_step, last_step, min_saving, drop_halted, rows, scaled_z, scaled_new, scaled_z0, halting_sum,
        steps, remainder, output_sum, computed_step, active, newly_halted, scores, counts, thread, threads, sync,
    ):  # fmt: skip
        """Take the steps first_step, ..., last_step of the rows: z' = adjacency_weight A z + z0_weight z^0.

        S z is read from `scaled_z` and S z' written to `scaled_new`; the next step swaps the two. Rows with steps 0 are
        active: p z' + (1 - p) z, scaled by S, is added to their `output_sum`, and they may halt. The steps end early
        when `expected_saving` of a step of the active rows alone is at least `min_saving`. With `drop_halted`, halted
        rows are frozen and computed no more; more than one step needs all rows of the graph.

        A CPU cannot predict which of the rows are active, so that a branch for each would take longer than the
        operations that it saves: `active` lists the positions of those that are.

        counts[k] : rows and messages that step k computed, rows that are active after it, and their messages;
        self-loops are not counted.
        """
        if len(rows) == len(deg_inv_sqrt):
            first, last = thread_range_by_weight(indptr, len(rows), thread, threads)
        else:
            first, last = thread_range(len(rows), thread, threads)
        num_active = first
        for position in range(first, last):
            active[num_active] = position
            num_active += np.int64(steps[rows[position]] == 0)
        num_halted = first
        for step in range(first_step, last_step + 1):
            if step > first_step:
                barrier(sync, threads)
                before_counts = counts[step - 1]
                saving = expected_saving(counts[step - 2, 3], atomic_load(before_counts, 3), len(indices) - len(rows))
                if atomic_load(before_counts, 2) == 0 or saving >= min_saving:
                    break
                scaled_z, scaled_new = scaled_new, scaled_z
            if drop_halted:
                for number in range(first, num_halted):
                    row = newly_halted[number]
                    axpby(width, ONE, scaled_z[row], ZERO, scaled_z[row], scaled_new[row])
                num_halted = first
            end = num_active if drop_halted else last
            messages, active_messages = np.int64(0), np.int64(0)
            active_before, num_active, next_active = num_active, first, first
            for block in range(first, end, BLOCK_ROWS):
                block_end = min(block + BLOCK_ROWS, end)
                for position in range(block, block_end):
                    row = rows[active[position] if drop_halted else position]
                    first_entry, last_entry = indptr[row], indptr[row + 1]
                    scale = deg_inv_sqrt[row]
                    scores[position] = gather_axpby_dot(
                        width, prefetch, weights, indices, first_entry, last_entry, scaled_z,
                        adjacency_weight * scale * scale, z0_weight, scaled_z0[row], scaled_new[row], halting_weight,
                    )  # fmt: skip
                    messages += np.int64(last_entry) - np.int64(first_entry) - 1
                    computed_step[row] = step
                while next_active < active_before:
                    position = active[next_active]
                    score_position = next_active if drop_halted else position
                    if score_position >= block_end:
                        break
                    next_active += 1
                    row = rows[position]
                    sum_before = halting_sum[row]
                    logit = scores[score_position] / deg_inv_sqrt[row] + halting_bias
                    p = sum_before + ONE / (ONE + np.exp(-logit))
                    halting_sum[row] = p
                    if step == max_steps or not p < budget:
                        p = ONE - sum_before
                        steps[row], remainder[row] = step, p
                        if drop_halted:
                            newly_halted[num_halted] = row
                            num_halted += 1
                    else:
                        active[num_active] = position
                        num_active += 1
                        active_messages += np.int64(indptr[row + 1]) - np.int64(indptr[row]) - 1
                    add_axpby(width, p, scaled_new[row], ONE - p, scaled_z[row], output_sum[row])
            step_counts = counts[step]
            atomic_add(step_counts, 0, end - first)
            atomic_add(step_counts, 1, messages)
            atomic_add(step_counts, 2, num_active - first)
            atomic_add(step_counts, 3, active_messages)

    return take_steps


def exceeds_cache(nodes: int, width: int) -> bool:
    """Whether the states of one step are too large for a CPU's caches, so that prefetching pays."""
    return nodes * width > PREFETCH_SIZE


__all__ = [
    "choose_threads",
    "exceeds_cache",
    "expected_saving",
    "finalize_rows",
    "in_neighbors",
    "initialize_rows",
    "steps_kernel",
]
