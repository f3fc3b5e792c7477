"""CPU kernels of adaptive propagation.

The equations are in `kernels.autograd.FusedAdaptivePropagation`. The reference is the PyTorch path of
`nn.propagation.AdaptivePropagation`; `test_adaptive_propagation_matches_reference`,
`test_adaptive_propagation_with_frozen_states_matches_reference` and their neighbours in `tests/ops/test_kernels.py`
compare both directions.

A_k = S_k W_k S_k with the diagonal S_k = D_k^-1/2 (`deg_inv_sqrt`). A step sums the rows of S_k z^(k-1) (`scaled`) over
the in-neighbours that edge dropout keeps; bit k - 1 of `bits` is set if it keeps an entry at step k. The backward
pass does the same with the transposed matrix, so that both are sums along rows, in ascending order.

Only the states that the requested nodes depend on are computed (`receptive_field`), and only the states of these nodes
are kept: the propagation itself is linear, so that its backward pass needs no others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.autograd import HaltingParameters, PropagationMatrices
from apgcn.ops.kernels.cpu.halo_propagation import HALTING_TOLERANCE, propagate_halo, propagate_halo_backward
from apgcn.ops.kernels.cpu.jit import ONE, ZERO, csr_arrays, kernel_helper, to_numpy
from apgcn.ops.kernels.cpu.parallel import (
    atomic_add,
    atomic_load,
    barrier,
    choose_threads,
    parallel_kernel,
    thread_range,
    thread_range_by_weight,
)
from apgcn.ops.kernels.cpu.rng import collect_bits, mask_arrays
from apgcn.ops.kernels.cpu.simd_rows import PREFETCH_SIZE, axpby, gather
from apgcn.ops.receptive_field import cached_receptive_field

SIMD_WIDTH = 8  # floats
BITS = 32  # steps whose edge dropout one number holds
LANES = 16  # steps whose degrees are summed at once
BLOCK_ROWS, BLOCK_ENTRIES = 32, 2048  # limits of the rows to which edge dropout is applied at once
MAX_MASKED_WIDTH = (
    16  # channels up to which it is faster to sum dropped entries with weight zero than to leave them out
)


def padded_width(channels: int) -> int:
    """The number of channels, rounded up to a multiple of the SIMD width."""
    return -(-channels // SIMD_WIDTH) * SIMD_WIDTH


def propagate(
    matrices: PropagationMatrices,
    z0: Tensor,
    halting_weight: Tensor,
    halting_bias: Tensor,
    nodes: Tensor | None,
    halting: HaltingParameters,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return z^0, ..., z^T and h^1, ..., h^T of some nodes, and the tensors that `propagate_backward` needs.

    A run ends when all of these nodes have halted; later z and h are zero. With `freeze_halted`, z and h of a node are
    valid up to the last step that it took. With a halo, z and h of all nodes are returned.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    halting_weight : (runs, channels), Q
    halting_bias : (runs,), q
    nodes : (runs, m), distinct in each run; all nodes where None
    returned : (runs, T + 1, m, padded channels), (runs, T, m)
    """
    if matrices.halo is not None:
        return propagate_halo(matrices, z0, halting_weight, halting_bias, nodes, halting)
    runs, num_nodes, channels = z0.shape
    max_steps, width, structure = halting.max_steps, padded_width(channels), matrices.structure
    field = cached_receptive_field(structure, nodes, hops=max_steps)
    targets = num_nodes if nodes is None else nodes.shape[1]
    bits, bits_transposed, deg_inv_sqrt = _prepare_edges(matrices, max_steps)
    z, h = z0.new_zeros(runs, max_steps + 1, targets, width), z0.new_zeros(runs, max_steps, targets)
    last_step = torch.zeros(runs, num_nodes if halting.freeze_halted else 1, dtype=torch.int32)
    steps_taken, halted = torch.zeros(runs, dtype=torch.int64), torch.zeros(runs, max_steps, dtype=torch.int64)
    frozen_rows = num_nodes if halting.freeze_halted else 0
    forward, _ = _kernels(
        width,
        masked=matrices.mask is not None,
        frozen=halting.freeze_halted,
        prefetch=num_nodes * width > PREFETCH_SIZE,
    )
    forward(
        _propagation_threads(structure.nnz, width, max_steps),
        *csr_arrays(structure.csr),
        *_edge_arrays(matrices.weights, bits, deg_inv_sqrt),
        *_coefficients(matrices),
        np.float32(halting.budget if halting.freeze_halted else halting.budget + HALTING_TOLERANCE),
        *to_numpy(z0, functional.pad(halting_weight, (0, width - channels)), halting_bias),
        *to_numpy(*field),
        structure.max_row_nnz,
        np.empty(0 if matrices.mask is None else structure.nnz, np.float32),
        np.empty((2, num_nodes, width), np.float32),
        np.empty((frozen_rows, width), np.float32),
        np.zeros(max(frozen_rows, targets), np.float32),
        *to_numpy(z, h, last_step, steps_taken, halted),
    )
    return z, h, (bits_transposed, deg_inv_sqrt, last_step, steps_taken, *field)


def propagate_backward(
    matrices: PropagationMatrices, saved: tuple[Tensor, ...], grad_z: Tensor, *, channels: int
) -> Tensor:
    """Return the gradient of z^0, (runs, nodes, channels).

    `saved` are the tensors that `propagate` returned; grad_z has the shape of its z and is the gradient of the states
    without what flows back from later states.
    """
    if matrices.halo is not None:
        propagate_halo_backward(matrices, saved, grad_z)
        return grad_z[:, 0, :, :channels]
    bits, deg_inv_sqrt, last_step, steps_taken, *field = saved
    structure, width = matrices.structure, grad_z.shape[-1]
    num_nodes, frozen = structure.shape[0], last_step.shape[1] > 1
    grad_z0 = grad_z.new_empty(len(grad_z), num_nodes, channels)
    _, backward = _kernels(
        width, masked=matrices.mask is not None, frozen=frozen, prefetch=num_nodes * width > PREFETCH_SIZE
    )
    weights = matrices.weights.index_select(0, structure.transpose_permutation)
    backward(
        _propagation_threads(structure.nnz, width, int(steps_taken.max())),
        *csr_arrays(structure.csr_transposed),
        *_edge_arrays(weights, bits, deg_inv_sqrt),
        *_coefficients(matrices),
        *to_numpy(*field),
        structure.max_column_nnz,
        np.empty(0 if matrices.mask is None else structure.nnz, np.float32),
        np.empty((2, num_nodes, width), np.float32),
        np.empty((num_nodes if frozen else 0, width), np.float32),
        *to_numpy(last_step, steps_taken, grad_z, grad_z0),
    )
    return grad_z0


def _coefficients(matrices: PropagationMatrices) -> tuple[np.float32, np.float32]:
    """Factors of the sum over in-neighbours and of z^0; the scale of dropout cancels in a normalisation."""
    scale = 1.0 if matrices.renormalize else matrices.mask_scale
    return np.float32(matrices.adjacency_weight * scale), np.float32(matrices.z0_weight)


def _edge_arrays(weights: Tensor, bits: Tensor, deg_inv_sqrt: Tensor) -> list[np.ndarray]:
    weights_array, bits_array, scale_array = to_numpy(weights, bits, deg_inv_sqrt)
    return [weights_array, bits_array.view(np.uint32), scale_array]


def _propagation_threads(nnz: int, width: int, steps: int) -> int:
    return choose_threads(steps * nnz * (1 + width / 16))


def _prepare_edges(matrices: PropagationMatrices, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the bits of edge dropout, the same in the order of the transposed matrix, and `deg_inv_sqrt`.

    Shapes
    ------
    returned : twice (runs, numbers, nnz), or (1, 1, 0) without dropout; (1 or runs, 1 or steps, nodes)
    """
    structure, mask = matrices.structure, matrices.mask
    if mask is None:
        no_bits = torch.zeros(1, 1, 0, dtype=torch.int32)
        return no_bits, no_bits, _deg_inv_sqrt(matrices)
    runs, numbers = len(mask.bits), -(-steps // BITS)
    bits = torch.empty(runs, numbers, structure.nnz, dtype=torch.int32)
    bits_transposed = torch.empty_like(bits)
    deg_inv_sqrt = torch.empty(runs, steps, structure.shape[0])
    kind, *arrays, _ = mask_arrays(mask, runs)
    _edges_kernel(
        choose_threads(runs * steps * structure.nnz),
        *csr_arrays(structure.csr),
        *to_numpy(matrices.weights, structure.transpose_permutation),
        kind,
        *arrays,
        steps,
        matrices.keep_self_loops,
        matrices.renormalize,
        *(array.view(np.uint32) for array in to_numpy(bits, bits_transposed)),
        *to_numpy(deg_inv_sqrt),
    )
    return bits, bits_transposed, deg_inv_sqrt


def _deg_inv_sqrt(matrices: PropagationMatrices) -> Tensor:
    """D^-1/2 of the full graph, (1, 1, nodes)."""
    num_nodes = matrices.structure.shape[0]
    if not matrices.renormalize:
        return torch.ones(1, 1, num_nodes)
    deg_inv_sqrt = torch.empty(1, 1, num_nodes)
    _degrees_kernel(
        choose_threads(matrices.structure.nnz),
        *csr_arrays(matrices.structure.csr),
        *to_numpy(matrices.weights, deg_inv_sqrt),
    )
    return deg_inv_sqrt


@parallel_kernel
def _degrees_kernel(indptr, indices, weights, deg_inv_sqrt, thread, threads, sync):
    first, last = thread_range_by_weight(indptr, len(indptr) - 1, thread, threads)
    for node in range(first, last):
        degree = ZERO
        for entry in range(indptr[node], indptr[node + 1]):
            degree += weights[entry]
        deg_inv_sqrt[0, 0, node] = ONE / np.sqrt(degree)


@parallel_kernel
def _edges_kernel(
    indptr, indices, weights, permutation, kind, numbers, random_bytes, threshold, steps, keep_self_loops, renormalize,
    bits, bits_transposed, deg_inv_sqrt, thread, threads, sync,
):  # fmt: skip
    first, last = thread_range_by_weight(indptr, len(indptr) - 1, thread, threads)
    first_entry, last_entry = np.int64(indptr[first]), np.int64(indptr[last])
    nnz = len(indices)
    degrees = np.empty(LANES, np.float32)
    for run in range(len(bits)):
        for number in range(bits.shape[1]):
            run_bits = bits[run, number]
            run_bits[first_entry:last_entry] = 0
            steps_here = min(BITS, steps - number * BITS)
            for k in range(steps_here):
                collect_bits(
                    kind, numbers[run], random_bytes[run], threshold, (number * BITS + k) * nnz, first_entry,
                    last_entry, np.uint32(k), run_bits,
                )  # fmt: skip
            if keep_self_loops:
                for node in range(first, last):
                    for entry in range(indptr[node], indptr[node + 1]):
                        if indices[entry] == node:
                            run_bits[entry] = np.uint32(0xFFFFFFFF)
            for start in range(0, steps_here, LANES):
                lanes = min(LANES, steps_here - start)
                scale = deg_inv_sqrt[run, number * BITS + start :]
                for node in range(first, last):
                    if renormalize:
                        degrees[:] = ZERO
                        for entry in range(indptr[node], indptr[node + 1]):
                            entry_bits, weight = run_bits[entry] >> np.uint32(start), weights[entry]
                            for lane in range(LANES):
                                degrees[lane] += weight * np.float32((entry_bits >> np.uint32(lane)) & np.uint32(1))
                        for lane in range(lanes):
                            scale[lane, node] = ONE / np.sqrt(degrees[lane])
                    else:
                        for lane in range(lanes):
                            scale[lane, node] = ONE
    barrier(sync, threads)
    first_entry, last_entry = thread_range(nnz, thread, threads)
    for run in range(len(bits)):
        for number in range(bits.shape[1]):
            run_bits, run_transposed = bits[run, number], bits_transposed[run, number]
            for entry in range(first_entry, last_entry):
                run_transposed[entry] = run_bits[permutation[entry]]


@kernel_helper
def _next_block(indptr, first, last, capacity):
    """The end of the block of rows that begins with row `first`."""
    end, limit = first + 1, np.uint64(indptr[first]) + capacity
    while end < last and end - first < BLOCK_ROWS and np.uint64(indptr[end + 1]) <= limit:
        end += 1
    return end


@kernel_helper
def _compact_entries(indptr, indices, weights, bits, shift, row, end, kept_indices, kept_weights, row_ends):
    """Copy the entries of rows row, ..., end - 1 that edge dropout keeps; `row_ends` are the ends of the rows."""
    filled = np.uint64(0)
    for r in range(np.uint64(row), np.uint64(end)):
        for entry in range(np.uint64(indptr[r]), np.uint64(indptr[r + np.uint64(1)])):
            kept_indices[filled], kept_weights[filled] = indices[entry], weights[entry]
            filled += np.uint64((bits[entry] >> shift) & np.uint32(1))
        row_ends[r - np.uint64(row) + np.uint64(1)] = filled


@kernel_helper
def _mask_weights(indptr, weights, bits, shift, row, end, kept_weights):
    """Fill `kept_weights` of rows row, ..., end - 1 with the weights, or zero where edge dropout drops the entry."""
    for entry in range(np.uint64(indptr[row]), np.uint64(indptr[end])):
        bit = np.int32((bits[entry] >> shift) & np.uint32(1))
        kept_weights[entry] = weights[entry] * np.float32(bit)


@cache
def _kernels(width: int, *, masked: bool, frozen: bool, prefetch: bool) -> tuple[Callable, Callable]:
    """Return the forward and the backward kernel; `masked` with edge dropout, `frozen` where halted nodes are frozen.

    A thread computes adjacent rows, block by block. Edge dropout is applied to the entries of a block before its
    rows are summed: rows of few channels are summed over all entries, those that are dropped with weight zero; rows
    of many channels over the entries that are kept.
    """
    compact = masked and width > MAX_MASKED_WIDTH

    @parallel_kernel
    def forward(
        indptr, indices, weights, bits, deg_inv_sqrt, adjacency_weight, z0_weight, budget, z0, halting_weight,
        halting_bias, distance, slots, max_row_nnz, all_kept_weights, scaled, current, halting_sum, states, h,
        last_step, steps_taken, halted, thread, threads, sync,
    ):  # fmt: skip
        runs, max_steps, targets = h.shape
        num_nodes, channels = z0.shape[1:]
        capacity = max(max_row_nnz, BLOCK_ENTRIES) if compact else 0
        kept_indices = np.empty(capacity, np.uint32)
        kept_weights = np.empty(capacity, np.float32) if compact else all_kept_weights
        limit = np.uint64(capacity) if compact else np.uint64(len(indices))
        row_ends, total, new = (
            np.zeros(BLOCK_ROWS + 1, np.uint32),
            np.empty(width, np.float32),
            np.zeros(width, np.float32),
        )
        first, last = thread_range_by_weight(indptr, num_nodes, thread, threads)
        for run in range(runs):
            run_distance, run_slots = distance[run % len(distance)], slots[run % len(slots)]
            run_z0, run_weight, run_bias, run_last = z0[run], halting_weight[run], halting_bias[run], last_step[run]
            run_scale, run_states, run_h = deg_inv_sqrt[run % len(deg_inv_sqrt)], states[run], h[run]
            before, scale = scaled[0], run_scale[0]
            for node in range(first, last):
                for c in range(channels):
                    new[c] = run_z0[node, c]
                axpby(width, scale[node], new, ZERO, new, before[node])
                slot = run_slots[node]
                if slot >= 0:
                    axpby(width, ONE, new, ZERO, new, run_states[0, slot])
                    halting_sum[node if frozen else slot] = ZERO
                if frozen:
                    axpby(width, ONE, new, ZERO, new, current[node])
                    halting_sum[node] = ZERO
            halted_targets = 0
            for k in range(max_steps):
                barrier(sync, threads)
                if k > 0:
                    halted_targets += atomic_load(halted[run], k - 1)
                    if halted_targets == targets:
                        break
                if thread == 0:
                    steps_taken[run] = k + 1
                scale, next_scale = run_scale[k % len(run_scale)], run_scale[(k + 1) % len(run_scale)]
                before, after, newly_halted = scaled[k % 2], scaled[(k + 1) % 2], 0
                step_bits, shift = bits[run % len(bits), k // BITS % bits.shape[1]], np.uint32(k % BITS)
                state, probabilities = run_states[k + 1], run_h[k]
                max_distance, block = max_steps - k - 1, first
                while block < last:
                    end = _next_block(indptr, block, last, limit)
                    if compact:
                        _compact_entries(
                            indptr, indices, weights, step_bits, shift, block, end, kept_indices, kept_weights, row_ends
                        )  # fmt: skip
                    elif masked:
                        _mask_weights(indptr, weights, step_bits, shift, block, end, kept_weights)
                    for node in range(block, end):
                        if run_distance[node] > max_distance:
                            continue
                        if frozen and not halting_sum[node] < budget:
                            axpby(width, next_scale[node], current[node], ZERO, current[node], after[node])
                            continue
                        if compact:
                            gather(
                                width, prefetch, kept_weights, kept_indices, row_ends[node - block],
                                row_ends[node - block + 1], before, total,
                            )  # fmt: skip
                        elif masked:
                            gather(
                                width, prefetch, kept_weights, indices, indptr[node], indptr[node + 1], before, total
                            )  # fmt: skip
                        else:
                            gather(width, prefetch, weights, indices, indptr[node], indptr[node + 1], before, total)
                        axpby(width, adjacency_weight * scale[node], total, ZERO, total, new)
                        if z0_weight != ZERO:
                            for c in range(channels):
                                new[c] += z0_weight * run_z0[node, c]
                        axpby(width, next_scale[node], new, ZERO, new, after[node])
                        slot = run_slots[node]
                        if frozen or slot >= 0:
                            logit = run_bias
                            for c in range(width):
                                logit += new[c] * run_weight[c]
                            probability = ONE / (ONE + np.exp(-logit))
                            index = node if frozen else np.int64(slot)
                            sum_before = halting_sum[index]
                            halting_sum[index] = sum_before + probability
                            if slot >= 0:
                                axpby(width, ONE, new, ZERO, new, state[slot])
                                probabilities[slot] = probability
                                newly_halted += int(sum_before < budget and not halting_sum[index] < budget)
                            if frozen:
                                axpby(width, ONE, new, ZERO, new, current[node])
                                run_last[node] = k + 1
                    block = end
                atomic_add(halted[run], k, newly_halted)
            barrier(sync, threads)

    @parallel_kernel
    def backward(
        indptr, indices, weights, bits, deg_inv_sqrt, adjacency_weight, z0_weight, distance, slots, max_row_nnz,
        all_kept_weights, scaled, current, last_step, steps_taken, grad_z, grad_z0, thread, threads, sync,
    ):  # fmt: skip
        runs, num_nodes, channels = grad_z0.shape
        capacity = max(max_row_nnz, BLOCK_ENTRIES) if compact else 0
        kept_indices = np.empty(capacity, np.uint32)
        kept_weights = np.empty(capacity, np.float32) if compact else all_kept_weights
        limit = np.uint64(capacity) if compact else np.uint64(len(indices))
        row_ends, total, new = (
            np.zeros(BLOCK_ROWS + 1, np.uint32),
            np.empty(width, np.float32),
            np.zeros(width, np.float32),
        )
        zero = np.zeros(width, np.float32)
        first, last = thread_range_by_weight(indptr, num_nodes, thread, threads)
        for run in range(runs):
            run_distance, run_slots = distance[run % len(distance)], slots[run % len(slots)]
            run_last, run_grad, steps = last_step[run], grad_z0[run], steps_taken[run]
            run_scale = deg_inv_sqrt[run % len(deg_inv_sqrt)]
            scale, gradients = run_scale[(steps - 1) % len(run_scale)], grad_z[run, steps]
            before, after = scaled[steps % 2], scaled[(steps + 1) % 2]
            barrier(sync, threads)
            for node in range(first, last):
                slot = run_slots[node]
                source = gradients[slot] if slot >= 0 else zero
                active = slot >= 0 and (not frozen or run_last[node] >= steps)
                axpby(width, scale[node] if active else ZERO, source, ZERO, source, before[node])
                axpby(width, ZERO, source, ZERO, source, after[node])
                for c in range(channels):
                    run_grad[node, c] = z0_weight * source[c] if active else ZERO
                if frozen:
                    axpby(width, ONE, source, ZERO, source, current[node])
            for k in range(steps, 0, -1):
                barrier(sync, threads)
                scale, next_scale = run_scale[(k - 1) % len(run_scale)], run_scale[(k - 2) % len(run_scale)]
                before, after, gradients = scaled[k % 2], scaled[(k - 1) % 2], grad_z[run, k - 1]
                step_bits = bits[run % len(bits), (k - 1) // BITS % bits.shape[1]]
                shift, max_distance, block = np.uint32((k - 1) % BITS), steps - k + 1, first
                while block < last:
                    end = _next_block(indptr, block, last, limit)
                    if compact:
                        _compact_entries(
                            indptr, indices, weights, step_bits, shift, block, end, kept_indices, kept_weights, row_ends
                        )  # fmt: skip
                    elif masked:
                        _mask_weights(indptr, weights, step_bits, shift, block, end, kept_weights)
                    for node in range(block, end):
                        if run_distance[node] > max_distance:
                            continue
                        if compact:
                            gather(
                                width, prefetch, kept_weights, kept_indices, row_ends[node - block],
                                row_ends[node - block + 1], before, total,
                            )  # fmt: skip
                        elif masked:
                            gather(
                                width, prefetch, kept_weights, indices, indptr[node], indptr[node + 1], before, total
                            )  # fmt: skip
                        else:
                            gather(width, prefetch, weights, indices, indptr[node], indptr[node + 1], before, total)
                        axpby(width, adjacency_weight * scale[node], total, ZERO, total, new)
                        if frozen and run_last[node] < k:
                            axpby(width, ONE, current[node], ONE, new, new)
                        slot = run_slots[node]
                        if slot >= 0:
                            axpby(width, ONE, gradients[slot], ONE, new, new)
                        if frozen:
                            axpby(width, ONE, new, ZERO, new, current[node])
                        if k == 1:
                            for c in range(channels):
                                run_grad[node, c] += new[c]
                        elif frozen and run_last[node] < k - 1:
                            axpby(width, ZERO, zero, ZERO, zero, after[node])
                        else:
                            axpby(width, next_scale[node], new, ZERO, new, after[node])
                            if z0_weight != ZERO:
                                for c in range(channels):
                                    run_grad[node, c] += z0_weight * new[c]
                    block = end

    return forward, backward
