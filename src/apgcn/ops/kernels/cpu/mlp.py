"""CPU kernels of the two-layer perceptron: z = ReLU(X W_1 + b_1) W_2 + b_2, with dropout before each layer.

The reference is the PyTorch path of `nn.layers.MLP`; `test_mlp_over_sparse_features_matches_reference` and
`test_mlp_over_dense_features_matches_reference` compare both directions.

Both layers of a node are computed while its row is in registers, from the entries that are neither zero nor dropped.
The features are sparse or dense: `indptr` and `indices` of a sparse matrix hold the places of its values, a dense
matrix has the same columns in every row. Sums over nodes, for gradients, are divided into blocks of nodes that depend
on the sizes alone, and added in ascending order, so that the number of threads does not change a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.cpu.jit import ZERO, csr_arrays, to_numpy
from apgcn.ops.kernels.cpu.parallel import (
    barrier,
    choose_threads,
    parallel_kernel,
    thread_range,
    thread_range_by_weight,
)
from apgcn.ops.kernels.cpu.propagation import padded_width
from apgcn.ops.kernels.cpu.rng import NO_MASK, fill_mask, mask_arrays
from apgcn.ops.kernels.cpu.simd_rows import NO_PREFETCH, gather, scatter
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import SparseMatrix

BLOCKS = 64  # of nodes, at most; so many threads can work at once
MIN_BLOCK_NODES = 256
TILE_FEATURES = 16  # dense features whose gradients are computed at once
CHUNK_ROWS = 16  # rows whose dropout masks are read at once
MAX_TRANSPOSED_WIDTH = (
    16  # channels up to which the second layer is faster with all of W_2' than with active rows of W_2
)
MAX_PARTIAL_FLOATS = 2**22  # of the gradients of W_1 of all blocks, for dense features

NO_INDEX = np.zeros(1, np.uint32)


def mlp(
    x: SparseMatrix | Tensor,
    feature_mask: PackedMask | None,
    mask: PackedMask | None,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    *,
    keep_hidden: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return z, and the hidden activations and the features after dropout, which `mlp_backward` needs.

    Shapes
    ------
    x : (nodes, features), or with values per run
    feature_mask : PackedMask of shape (runs, nnz) or, for dense features, (runs, nodes, features)
    mask : PackedMask of shape (runs, nodes, hidden)
    weights : W_1 (runs, features, hidden), b_1 (runs, 1, hidden), W_2 (runs, hidden, channels), b_2 (runs, 1, channels)
    returned : (runs, nodes, channels), (runs, nodes, hidden), (1 or runs, nnz); the second only with `keep_hidden`
    """
    w_1, b_1, w_2, b_2 = weights
    runs, _, hidden_channels = w_1.shape
    channels, width = w_2.shape[2], padded_width(w_2.shape[2])
    arrays, values, num_nodes, row_nnz, is_sparse = _features(x)
    z = w_1.new_empty(runs, num_nodes, channels)
    hidden = w_1.new_empty(runs, num_nodes if keep_hidden else 0, hidden_channels)
    keeps_values = keep_hidden and is_sparse and feature_mask is not None
    dropped_values = w_1.new_empty(runs, values.shape[1]) if keeps_values else values
    forward, *_ = _kernels(hidden_channels, width, is_sparse=is_sparse)
    forward(
        choose_threads(runs * values.shape[1] * (1 + hidden_channels / 16)),
        *arrays,
        *to_numpy(values),
        *mask_arrays(feature_mask, runs),
        *mask_arrays(mask, runs),
        *to_numpy(w_1, b_1, _second_weight(w_2, width), b_2),
        row_nnz,
        keeps_values,
        keep_hidden,
        *to_numpy(dropped_values, hidden, z),
    )
    return z, hidden, dropped_values


def mlp_backward(
    x: SparseMatrix | Tensor,
    feature_mask: PackedMask | None,
    mask_scale: float,
    dropped_values: Tensor,
    hidden: Tensor,
    w_2: Tensor,
    grad_z: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of W_1, b_1, W_2 and b_2; `mask_scale` is the factor of the kept activations."""
    runs, num_nodes, hidden_channels = hidden.shape
    channels, width = w_2.shape[2], padded_width(w_2.shape[2])
    arrays, values, _, _, is_sparse = _features(x)
    features = _num_features(x)
    block = max(MIN_BLOCK_NODES, -(-num_nodes // BLOCKS))
    blocks = -(-num_nodes // block)
    grad_hidden = torch.empty_like(hidden)
    partial = np.empty((blocks, hidden_channels * width + hidden_channels + width), np.float32)
    grad_w_1 = hidden.new_empty(runs, features, hidden_channels)
    grad_b_1 = hidden.new_empty(runs, 1, hidden_channels)
    grad_w_2, grad_b_2 = hidden.new_empty(runs, hidden_channels, width), hidden.new_empty(runs, 1, width)
    _, hidden_backward, row_backward, sparse_backward, dense_backward = _kernels(
        hidden_channels, width, is_sparse=is_sparse
    )
    hidden_backward(
        choose_threads(runs * num_nodes * hidden_channels * (1 + width / 16)),
        *to_numpy(grad_z, hidden, w_2.transpose(1, 2)),
        np.float32(mask_scale),
        block,
        partial,
        *to_numpy(grad_hidden, grad_b_1, grad_w_2, grad_b_2),
    )
    threads = choose_threads(runs * values.shape[1] * (1 + hidden_channels / 16))
    if isinstance(x, SparseMatrix) and threads == 1:
        row_backward(1, *arrays, *to_numpy(dropped_values, grad_hidden), x.structure.max_row_nnz, *to_numpy(grad_w_1))
    elif isinstance(x, SparseMatrix):
        sparse_backward(
            threads,
            *csr_arrays(x.structure.csr_transposed),
            to_numpy(x.structure.transpose_permutation)[0].view(csr_arrays(x.structure.csr)[1].dtype),
            *to_numpy(dropped_values, grad_hidden),
            x.structure.max_column_nnz,
            *to_numpy(grad_w_1),
        )
    else:
        row_blocks = max(1, min(BLOCKS, MAX_PARTIAL_FLOATS // max(1, features * hidden_channels), num_nodes // 64))
        dense_backward(
            threads,
            *to_numpy(values.view(-1, num_nodes, features)),
            *mask_arrays(feature_mask, runs),
            *to_numpy(grad_hidden),
            np.empty((row_blocks, features, hidden_channels), np.float32),
            *to_numpy(grad_w_1),
        )
    return grad_w_1, grad_b_1, grad_w_2[..., :channels], grad_b_2[..., :channels]


def _features(x: SparseMatrix | Tensor) -> tuple[list[np.ndarray], Tensor, int, int, bool]:
    """Index arrays and values (1 or runs, nnz) of the features, the number of rows, and the length of the longest."""
    if isinstance(x, SparseMatrix):
        arrays = csr_arrays(x.structure.csr)
        return arrays, torch.atleast_2d(x.values), x.structure.shape[0], x.structure.max_row_nnz, True
    num_nodes, features = x.shape[-2:]
    return [NO_INDEX, NO_INDEX], x.reshape(-1, num_nodes * features), num_nodes, features, False


def _second_weight(w_2: Tensor, width: int) -> Tensor:
    """W_2 as the forward kernel reads it: transposed, or with padded rows."""
    if width <= MAX_TRANSPOSED_WIDTH:
        return w_2.transpose(1, 2)
    return functional.pad(w_2, (0, width - w_2.shape[2]))


def _num_features(x: SparseMatrix | Tensor) -> int:
    return x.structure.shape[1] if isinstance(x, SparseMatrix) else x.shape[-1]


@cache
def _kernels(hidden_channels: int, width: int, *, is_sparse: bool) -> tuple[Callable, ...]:
    """Return the forward kernel, the backward kernel of the second layer, and three of the first.

    These are for sparse features on one thread, row by row; for sparse features, column by column, which gives the same
    bits, because both add the nodes of a column in ascending order; and for dense features.
    """

    transposed = width <= MAX_TRANSPOSED_WIDTH
    block_shape = (width, hidden_channels) if transposed else (hidden_channels, width)  # of the gradient of W_2

    @parallel_kernel
    def forward(
        indptr, indices, values, x_kind, x_numbers, x_bytes, x_threshold, x_scale, kind, numbers, random_bytes,
        threshold, scale, w_1, b_1, w_2, b_2, max_row_nnz, keeps_values, keep_hidden, dropped_values, hidden, z,
        thread, threads, sync,
    ):  # fmt: skip
        runs, num_nodes, channels = z.shape
        factors = np.empty(CHUNK_ROWS * max_row_nnz, np.float32)
        masks = np.empty(CHUNK_ROWS * hidden_channels, np.float32)
        entry_indices, entry_values = np.empty(max_row_nnz, np.uint32), np.empty(max_row_nnz, np.float32)
        active, activations = np.empty(hidden_channels, np.uint32), np.empty(hidden_channels, np.float32)
        total, output = np.empty(hidden_channels, np.float32), np.empty(width, np.float32)
        if is_sparse:
            first, last = thread_range_by_weight(indptr, num_nodes, thread, threads)
        else:
            first, last = thread_range(num_nodes, thread, threads)
        for run in range(runs):
            run_values, run_w_1, run_w_2 = values[run % len(values)], w_1[run], w_2[run]
            run_b_1, run_b_2, run_z = b_1[run, 0], b_2[run, 0], z[run]
            run_x_numbers, run_x_bytes, run_numbers, run_bytes = (
                x_numbers[run], x_bytes[run], numbers[run], random_bytes[run]
            )  # fmt: skip
            run_dropped, run_hidden = dropped_values[run % len(dropped_values)], hidden[run]
            for chunk in range(first, last, CHUNK_ROWS):
                chunk_end = min(last, chunk + CHUNK_ROWS)
                if is_sparse:
                    start, end = np.int64(indptr[chunk]), np.int64(indptr[chunk_end])
                else:
                    start, end = chunk * max_row_nnz, chunk_end * max_row_nnz
                if x_kind != NO_MASK:
                    fill_mask(x_kind, run_x_numbers, run_x_bytes, x_threshold, x_scale, start, end, factors)
                    for i in range(np.uint64(end - start)):
                        factors[i] *= run_values[np.uint64(start) + i]
                    if keeps_values:
                        for i in range(np.uint64(end - start)):
                            run_dropped[np.uint64(start) + i] = factors[i]
                if kind != NO_MASK:
                    fill_mask(
                        kind, run_numbers, run_bytes, threshold, scale, chunk * hidden_channels,
                        chunk_end * hidden_channels, masks,
                    )  # fmt: skip
                for row in range(chunk, chunk_end):
                    if x_kind != NO_MASK:
                        if is_sparse:
                            begin, stop = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
                        else:
                            begin, stop = np.uint64(row * max_row_nnz), np.uint64((row + 1) * max_row_nnz)
                        count = np.uint64(0)
                        for entry in range(begin, stop):
                            value = factors[entry - np.uint64(start)]
                            entry_values[count] = value
                            entry_indices[count] = indices[entry] if is_sparse else entry - begin
                            count += np.uint64(value != ZERO)
                        gather(
                            hidden_channels, NO_PREFETCH, entry_values, entry_indices, np.uint32(0), np.uint32(count),
                            run_w_1, total,
                        )  # fmt: skip
                    elif is_sparse:
                        gather(
                            hidden_channels, NO_PREFETCH, run_values, indices, indptr[row], indptr[row + 1], run_w_1,
                            total,
                        )  # fmt: skip
                    else:
                        for i in range(max_row_nnz):
                            entry_indices[i], entry_values[i] = i, run_values[row * max_row_nnz + i]
                        gather(
                            hidden_channels, NO_PREFETCH, entry_values, entry_indices, np.uint32(0),
                            np.uint32(max_row_nnz), run_w_1, total,
                        )  # fmt: skip
                    for c in range(hidden_channels):
                        total[c] = max(total[c] + run_b_1[c], ZERO)
                    if kind != NO_MASK:
                        offset = np.uint64((row - chunk) * hidden_channels)
                        for c in range(hidden_channels):
                            total[c] *= masks[offset + np.uint64(c)]
                    if keep_hidden:
                        for c in range(hidden_channels):
                            run_hidden[row, c] = total[c]
                    if transposed:
                        for c in range(channels):
                            dot = ZERO
                            for k in range(hidden_channels):
                                dot += total[k] * run_w_2[c, k]
                            run_z[row, c] = dot + run_b_2[c]
                        continue
                    count = np.uint64(0)
                    for c in range(hidden_channels):
                        active[count], activations[count] = c, total[c]
                        count += np.uint64(total[c] != ZERO)
                    gather(width, NO_PREFETCH, activations, active, np.uint32(0), np.uint32(count), run_w_2, output)
                    for c in range(channels):
                        run_z[row, c] = output[c] + run_b_2[c]

    @parallel_kernel
    def hidden_backward(
        grad_z, hidden, w_2_transposed, mask_scale, block, partial, grad_hidden, grad_b_1, grad_w_2, grad_b_2,
        thread, threads, sync,
    ):  # fmt: skip
        runs, num_nodes, channels = grad_z.shape
        all_channels = np.arange(channels).astype(np.uint32)
        active, activations = np.empty(hidden_channels, np.uint32), np.empty(hidden_channels, np.float32)
        total, gradient = np.empty(hidden_channels, np.float32), np.zeros(width, np.float32)
        blocks, bias_start = len(partial), hidden_channels * width
        for run in range(runs):
            run_grad_z, run_hidden, run_grad, run_w_2 = grad_z[run], hidden[run], grad_hidden[run], w_2_transposed[run]
            for b in range(thread, blocks, threads):
                block_w_2 = partial[b, :bias_start].reshape(block_shape)
                block_b_1 = partial[b, bias_start : bias_start + hidden_channels]
                block_b_2 = partial[b, bias_start + hidden_channels :]
                partial[b] = ZERO
                for row in range(b * block, min(num_nodes, (b + 1) * block)):
                    magnitude = ZERO
                    for c in range(channels):
                        gradient[c] = run_grad_z[row, c]
                        magnitude += abs(gradient[c])
                    if magnitude == ZERO:
                        for c in range(hidden_channels):
                            run_grad[row, c] = ZERO
                        continue
                    gather(
                        hidden_channels, NO_PREFETCH, gradient, all_channels, np.uint32(0), np.uint32(channels),
                        run_w_2, total,
                    )  # fmt: skip
                    for c in range(hidden_channels):
                        grad = total[c] * mask_scale if run_hidden[row, c] > ZERO else ZERO
                        run_grad[row, c] = grad
                        block_b_1[c] += grad
                    for c in range(width):
                        block_b_2[c] += gradient[c]
                    if transposed:
                        scatter(
                            hidden_channels, NO_PREFETCH, gradient, all_channels, np.uint32(0), np.uint32(channels),
                            block_w_2, run_hidden[row],
                        )  # fmt: skip
                        continue
                    count = np.uint64(0)
                    for c in range(hidden_channels):
                        active[count], activations[count] = c, run_hidden[row, c]
                        count += np.uint64(run_hidden[row, c] != ZERO)
                    scatter(
                        width, NO_PREFETCH, activations, active, np.uint32(0), np.uint32(count), block_w_2, gradient
                    )
            barrier(sync, threads)
            if thread == 0:
                for b in range(1, blocks):
                    for i in range(partial.shape[1]):
                        partial[0, i] += partial[b, i]
                totals = partial[0, :bias_start].reshape(block_shape)
                for k in range(hidden_channels):
                    for c in range(width):
                        grad_w_2[run, k, c] = totals[c, k] if transposed else totals[k, c]
                grad_b_1[run, 0] = partial[0, bias_start : bias_start + hidden_channels]
                grad_b_2[run, 0] = partial[0, bias_start + hidden_channels :]
            barrier(sync, threads)

    @parallel_kernel
    def row_backward(indptr, indices, values, grad_hidden, max_row_nnz, grad_w_1, thread, threads, sync):
        entry_indices, entry_values = np.empty(max_row_nnz, np.uint32), np.empty(max_row_nnz, np.float32)
        for run in range(len(grad_w_1)):
            run_values, run_grad, run_grad_w_1 = values[run % len(values)], grad_hidden[run], grad_w_1[run]
            run_grad_w_1[:] = ZERO
            for row in range(len(run_grad)):
                count = np.uint64(0)
                for entry in range(indptr[row], indptr[row + 1]):
                    entry_indices[count], entry_values[count] = indices[entry], run_values[entry]
                    count += np.uint64(run_values[entry] != ZERO)
                scatter(
                    hidden_channels, NO_PREFETCH, entry_values, entry_indices, np.uint32(0), np.uint32(count),
                    run_grad_w_1, run_grad[row],
                )  # fmt: skip

    @parallel_kernel
    def sparse_backward(
        indptr, nodes, permutation, values, grad_hidden, max_column_nnz, grad_w_1, thread, threads, sync
    ):
        entry_nodes, entry_values = np.empty(max_column_nnz, np.uint32), np.empty(max_column_nnz, np.float32)
        first, last = thread_range_by_weight(indptr, len(indptr) - 1, thread, threads)
        for run in range(len(grad_w_1)):
            run_values, run_grad = values[run % len(values)], grad_hidden[run]
            for feature in range(first, last):
                count = np.uint64(0)
                for entry in range(indptr[feature], indptr[feature + 1]):
                    value = run_values[permutation[entry]]
                    entry_nodes[count], entry_values[count] = nodes[entry], value
                    count += np.uint64(value != ZERO)
                gather(
                    hidden_channels, NO_PREFETCH, entry_values, entry_nodes, np.uint32(0), np.uint32(count), run_grad,
                    grad_w_1[run, feature],
                )  # fmt: skip

    @parallel_kernel
    def dense_backward(
        x, kind, numbers, random_bytes, threshold, scale, grad_hidden, partial, grad_w_1, thread, threads, sync
    ):  # fmt: skip
        runs, num_nodes = len(grad_w_1), x.shape[1]
        row_blocks, features, _ = partial.shape
        tiles = -(-features // TILE_FEATURES)
        factors = np.empty(TILE_FEATURES, np.float32)
        entry_features, entry_values = np.empty(TILE_FEATURES, np.uint32), np.empty(TILE_FEATURES, np.float32)
        for run in range(runs):
            run_x, run_numbers, run_bytes, run_grad = x[run % len(x)], numbers[run], random_bytes[run], grad_hidden[run]
            for item in range(thread, row_blocks * tiles, threads):
                b, start = item // tiles, item % tiles * TILE_FEATURES
                end = min(features, start + TILE_FEATURES)
                totals = partial[b, start:end]
                totals[:] = ZERO
                first, last = thread_range(num_nodes, b, row_blocks)
                for row in range(first, last):
                    offset = row * features
                    fill_mask(
                        kind, run_numbers, run_bytes, threshold, scale, offset + start, offset + end, factors
                    )  # fmt: skip
                    count = np.uint64(0)
                    for i in range(end - start):
                        value = run_x[row, start + i] * factors[i]
                        entry_features[count], entry_values[count] = i, value
                        count += np.uint64(value != ZERO)
                    scatter(
                        hidden_channels, NO_PREFETCH, entry_values, entry_features, np.uint32(0), np.uint32(count),
                        totals, run_grad[row],
                    )  # fmt: skip
            barrier(sync, threads)
            first, last = thread_range(features, thread, threads)
            for feature in range(first, last):
                row_sum = grad_w_1[run, feature]
                row_sum[:] = partial[0, feature]
                for b in range(1, row_blocks):
                    for c in range(hidden_channels):
                        row_sum[c] += partial[b, feature, c]
            barrier(sync, threads)

    return forward, hidden_backward, row_backward, sparse_backward, dense_backward
