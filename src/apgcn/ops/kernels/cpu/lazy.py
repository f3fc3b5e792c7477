"""CPU kernels of lazy inference: propagation steps of some or all rows, and which rows they need.

S is the diagonal matrix D^-1/2 (`deg_inv_sqrt`); `scaled_z` are states multiplied by S, as in `propagation`. The
kernels are used by `inference.lazy_propagation`. Their reference is the full propagation of
`nn.propagation.AdaptivePropagation`; `tests/inference/test_lazy_propagation.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from apgcn.ops.kernels.cpu.jit import ONE, ZERO, kernel
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


@cache
def steps_kernel(width: int, *, prefetch: bool) -> Callable:
    """Return the kernel of one or more propagation steps of some rows, with their halting and their output.

    Its arithmetic has one order, so that a row has the same bits whichever rows are computed with it.
    """

    @parallel_kernel(exact=True)
    def take_steps(
        indptr, indices, weights, deg_inv_sqrt, adjacency_weight, z0_weight, halting_weight, halting_bias, max_steps,
        budget, first_step, last_step, min_messages, drop_halted, rows, scaled_z, scaled_new, scaled_z0, halting_sum,
        steps, remainder, output_sum, computed_step, newly_halted, counts, thread, threads, sync,
    ):  # fmt: skip
        """Take the steps first_step, ..., last_step of the rows: z' = adjacency_weight A z + z0_weight z^0.

        S z is read from `scaled_z` and S z' written to `scaled_new`; the next step swaps the two. Rows with steps 0 are
        active: p z' + (1 - p) z, scaled by S, is added to their `output_sum`, and they may halt. The steps end early
        when the active rows receive fewer than `min_messages` messages. With `drop_halted`, halted rows are frozen and
        leave `rows`; more than one step needs all rows of the graph.

        counts[k] : rows and messages that step k computed, rows that are active after it, and their messages;
        self-loops are not counted.
        """
        if len(rows) == len(deg_inv_sqrt):
            first, last = thread_range_by_weight(indptr, len(rows), thread, threads)
        else:
            first, last = thread_range(len(rows), thread, threads)
        num_halted = 0
        for step in range(first_step, last_step + 1):
            if step > first_step:
                barrier(sync, threads)
                before_counts = counts[step - 1]
                if atomic_load(before_counts, 2) == 0 or atomic_load(before_counts, 3) < min_messages:
                    break
                scaled_z, scaled_new = scaled_new, scaled_z
            if drop_halted:
                for number in range(first, first + num_halted):
                    row = newly_halted[number]
                    axpby(width, ONE, scaled_z[row], ZERO, scaled_z[row], scaled_new[row])
                num_halted = 0
            messages, active, active_messages = np.int64(0), np.int64(0), np.int64(0)
            for number in range(first, last):
                row = rows[number]
                first_entry, last_entry = indptr[row], indptr[row + 1]
                scale = deg_inv_sqrt[row]
                score = gather_axpby_dot(
                    width, prefetch, weights, indices, first_entry, last_entry, scaled_z,
                    adjacency_weight * scale * scale, z0_weight, scaled_z0[row], scaled_new[row], halting_weight,
                )  # fmt: skip
                degree = np.int64(last_entry) - np.int64(first_entry) - 1
                messages += degree
                computed_step[row] = step
                if steps[row]:
                    continue
                logit = score / scale + halting_bias
                sum_before = halting_sum[row]
                p = sum_before + ONE / (ONE + np.exp(-logit))
                halting_sum[row] = p
                if step == max_steps or not p < budget:
                    p = ONE - sum_before
                    steps[row], remainder[row] = step, p
                    if drop_halted:
                        newly_halted[first + num_halted] = row
                        num_halted += 1
                else:
                    if drop_halted:
                        rows[first + active] = row
                    active += 1
                    active_messages += degree
                add_axpby(width, p, scaled_new[row], ONE - p, scaled_z[row], output_sum[row])
            step_counts = counts[step]
            atomic_add(step_counts, 0, last - first)
            atomic_add(step_counts, 1, messages)
            atomic_add(step_counts, 2, active)
            atomic_add(step_counts, 3, active_messages)
            if drop_halted:
                last = first + active

    return take_steps


def exceeds_cache(nodes: int, width: int) -> bool:
    """Whether the states of one step are too large for a CPU's caches, so that prefetching pays."""
    return nodes * width > PREFETCH_SIZE


__all__ = ["choose_threads", "exceeds_cache", "finalize_rows", "in_neighbors", "initialize_rows", "steps_kernel"]
