"""CPU kernels of adaptive propagation.

The equations are in `kernels.autograd.FusedAdaptivePropagation`. The reference is the PyTorch path of
`nn.propagation.AdaptivePropagation`; `test_adaptive_propagation_matches_reference`,
`test_adaptive_propagation_with_frozen_states_matches_reference` and their neighbours in `tests/ops/test_kernels.py`
compare both directions.

A_k = S_k W_k S_k with the diagonal S_k = D_k^-1/2 (`deg_inv_sqrt`), so each step first computes S_k z^(k-1)
(`scaled_z`) once per node and then sums its rows over the in-neighbours. Channels are padded with zeros to a multiple
of the SIMD width.
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
from apgcn.ops.kernels.cpu.jit import ONE, ZERO, csr_arrays, kernel, kernel_helper, to_numpy
from apgcn.ops.kernels.cpu.rng import unpack_mask
from apgcn.ops.kernels.cpu.simd_rows import PREFETCH_SIZE, axpby, gather, scatter

SIMD_WIDTH = 8  # floats


def _edge_weights(matrices: PropagationMatrices) -> tuple[Tensor, Tensor]:
    """Return W_k, the edge weights after dropout, and `deg_inv_sqrt`.

    Shapes
    ------
    returned : (1 or runs, 1 or steps, nnz) and (1 or runs, 1 or steps, nodes)
    """
    weights, mask = matrices.weights, matrices.mask
    unpacked = weights.new_ones(1, 1, len(weights)) if mask is None else unpack_mask(mask)
    edge_weights = torch.empty_like(unpacked)
    deg_inv_sqrt = unpacked.new_ones(*unpacked.shape[:2], matrices.structure.shape[0])
    _drop_edges(
        *csr_arrays(matrices.structure),
        *to_numpy(weights, unpacked),
        np.float32(matrices.mask_scale),
        matrices.keep_self_loops,
        matrices.renormalize,
        *to_numpy(edge_weights, deg_inv_sqrt),
    )
    return edge_weights, deg_inv_sqrt


@kernel
def _drop_edges(
    indptr, indices, weights, mask, mask_scale, keep_self_loops, renormalize, edge_weights, deg_inv_sqrt
):  # fmt: skip
    for run in range(mask.shape[0]):
        for step in range(mask.shape[1]):
            step_mask, kept_weights = mask[run, step], edge_weights[run, step]
            step_deg_inv_sqrt = deg_inv_sqrt[run, step]
            for entry in range(len(kept_weights)):
                kept_weights[entry] = step_mask[entry] * weights[entry]
            for node in range(len(step_deg_inv_sqrt)):
                degree = ZERO
                for entry in range(indptr[node], indptr[node + 1]):
                    if keep_self_loops and indices[entry] == node:
                        kept_weights[entry] = mask_scale * weights[entry]
                    degree += kept_weights[entry]
                if renormalize:
                    step_deg_inv_sqrt[node] = ONE / np.sqrt(degree)


def propagate(
    matrices: PropagationMatrices,
    z0: Tensor,
    halting_weight: Tensor,
    halting_bias: Tensor,
    nodes: Tensor | None,
    halting: HaltingParameters,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return z^0, ..., z^T, h^1, ..., h^T and the tensors that `propagate_backward` needs.

    With `freeze_halted`, z and h of a node are valid up to the last step that it took.

    Shapes
    ------
    z0 : (runs, nodes, channels)
    halting_weight : (runs, channels), Q
    halting_bias : (runs,), q
    nodes : (runs, m), the nodes whose output is needed; all where None
    returned : (runs, T + 1, nodes, padded channels), (runs, T, nodes)
    """
    runs, num_nodes, channels = z0.shape
    max_steps = halting.max_steps
    width = -(-channels // SIMD_WIDTH) * SIMD_WIDTH
    new = z0.new_zeros if halting.freeze_halted else z0.new_empty  # with frozen states not all is written
    z, h = new(runs, max_steps + 1, num_nodes, width), new(runs, max_steps, num_nodes)
    z[:, 0, :, :channels] = z0
    z[:, 0, :, channels:] = 0
    edge_weights, deg_inv_sqrt = _edge_weights(matrices)
    if matrices.halo is not None:
        z[:, 1:] = 0
        return z, *propagate_halo(matrices, edge_weights, deg_inv_sqrt, z, halting_weight, halting_bias, nodes, halting)
    nodes = torch.arange(num_nodes)[None] if nodes is None else nodes
    prefetch = num_nodes * width > PREFETCH_SIZE
    coefficients = np.float32(matrices.adjacency_weight), np.float32(matrices.z0_weight)
    halting_weight = functional.pad(halting_weight, (0, width - channels))
    arrays = to_numpy(z, halting_weight, halting_bias, nodes, h)
    if halting.freeze_halted:
        last_step = torch.empty(runs, num_nodes, dtype=torch.int32)
        forward, _ = _frozen_kernels(width, prefetch=prefetch)
        budget = np.float32(halting.budget)
        forward(
            *csr_arrays(matrices.structure),
            *to_numpy(edge_weights, deg_inv_sqrt),
            *coefficients,
            budget,
            *arrays,
            *to_numpy(last_step),
        )
        return z, h, (edge_weights, deg_inv_sqrt, last_step)
    forward, _ = _kernels(width, prefetch=prefetch)
    budget = np.float32(halting.budget + HALTING_TOLERANCE)
    forward(*csr_arrays(matrices.structure), *to_numpy(edge_weights, deg_inv_sqrt), *coefficients, budget, *arrays)
    return z, h.add_(halting_bias[:, None, None]).sigmoid_(), (edge_weights, deg_inv_sqrt)


def propagate_backward(matrices: PropagationMatrices, saved: tuple[Tensor, ...], grad_z: Tensor) -> None:
    """Add the gradients of z^1, ..., z^T to those of the states before them, down to z^0, in place.

    `saved` are the tensors that `propagate` returned; grad_z has the shape of z.
    """
    if matrices.halo is not None:
        propagate_halo_backward(matrices, saved, grad_z)
        return
    num_nodes, width = grad_z.shape[-2:]
    edge_weights, deg_inv_sqrt, *last_step = saved
    kernels = _frozen_kernels if last_step else _kernels
    _, backward = kernels(width, prefetch=num_nodes * width > PREFETCH_SIZE)
    coefficients = np.float32(matrices.adjacency_weight), np.float32(matrices.z0_weight)
    backward(
        *csr_arrays(matrices.structure),
        *to_numpy(edge_weights, deg_inv_sqrt),
        *coefficients,
        *to_numpy(grad_z, *last_step),
    )


@kernel_helper
def _halting_sum(logits, halting_bias):
    """The sum of a node's halting probabilities."""
    total = ZERO
    for logit in logits:
        total += ONE / (ONE + np.exp(-(logit + halting_bias)))
    return total


@cache
def _kernels(width: int, *, prefetch: bool) -> tuple[Callable, Callable]:
    """Return the forward and the backward kernel where halted nodes are still updated.

    `forward` fills `logits` with z^k Q, without the bias. A run ends when all of its `nodes` have halted; later states
    and logits are zero.
    """

    @kernel
    def forward(
        indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, budget, z, halting_weight,
        halting_bias, nodes, logits,
    ):  # fmt: skip
        runs, max_steps, num_nodes = logits.shape
        total, scaled_z = np.empty(width, np.float32), np.empty((num_nodes, width), np.float32)
        for run in range(runs):
            run_z, run_weight = z[run], halting_weight[run]
            run_nodes, halted = nodes[run % len(nodes)], 0
            for k in range(max_steps):
                if halted == len(run_nodes):
                    run_z[k + 1] = ZERO
                    logits[run, k] = ZERO
                    continue
                weights = edge_weights[run % len(edge_weights), k % edge_weights.shape[1]]
                scale = deg_inv_sqrt[run % len(deg_inv_sqrt), k % deg_inv_sqrt.shape[1]]
                before, after, z0, step_logits = run_z[k], run_z[k + 1], run_z[0], logits[run, k]
                for node in range(num_nodes):
                    axpby(width, scale[node], before[node], ZERO, before[node], scaled_z[node])
                for node in range(num_nodes):
                    gather(width, prefetch, weights, indices, indptr[node], indptr[node + 1], scaled_z, total)
                    axpby(width, adjacency_weight * scale[node], total, z0_weight, z0[node], after[node])
                    logit, new = ZERO, after[node]
                    for c in range(width):
                        logit += new[c] * run_weight[c]
                    step_logits[node] = logit
                while (
                    halted < len(run_nodes)
                    and _halting_sum(logits[run, : k + 1, run_nodes[halted]], halting_bias[run]) >= budget
                ):
                    halted += 1

    @kernel
    def backward(indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, grad_z):
        runs, max_steps, num_nodes = grad_z.shape[0], grad_z.shape[1] - 1, grad_z.shape[2]
        grad_total, grad_scaled_z = np.empty(width, np.float32), np.zeros((num_nodes, width), np.float32)
        for run in range(runs):
            for k in range(max_steps - 1, -1, -1):
                weights = edge_weights[run % len(edge_weights), k % edge_weights.shape[1]]
                scale = deg_inv_sqrt[run % len(deg_inv_sqrt), k % deg_inv_sqrt.shape[1]]
                grad_before, grad_after, grad_z0 = grad_z[run, k], grad_z[run, k + 1], grad_z[run, 0]
                for node in range(num_nodes):
                    gradient, grad_norm = grad_after[node], ZERO
                    for c in range(width):
                        grad_norm += abs(gradient[c])
                    if grad_norm == ZERO:
                        continue
                    axpby(width, adjacency_weight * scale[node], gradient, ZERO, gradient, grad_total)
                    scatter(
                        width, prefetch, weights, indices, indptr[node], indptr[node + 1], grad_scaled_z, grad_total
                    )  # fmt: skip
                for node in range(num_nodes):
                    axpby(width, scale[node], grad_scaled_z[node], ONE, grad_before[node], grad_before[node])
                grad_scaled_z[:] = ZERO
                if z0_weight != ZERO:
                    for node in range(num_nodes):
                        axpby(width, z0_weight, grad_after[node], ONE, grad_z0[node], grad_z0[node])

    return forward, backward


@cache
def _frozen_kernels(width: int, *, prefetch: bool) -> tuple[Callable, Callable]:
    """Return the same kernels for frozen states: a halted node keeps its state, and no more is computed for it.

    The current state of node i is z^k with k = last_step[i]. `forward` fills h itself.
    """

    @kernel
    def forward(
        indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, budget, z, halting_weight,
        halting_bias, nodes, h, last_step,
    ):  # fmt: skip
        runs, max_steps, num_nodes = h.shape
        total, scaled_z = np.empty(width, np.float32), np.empty((num_nodes, width), np.float32)
        halting_sum, active = np.empty(num_nodes, np.float32), np.empty(num_nodes, np.int64)
        for run in range(runs):
            run_z, run_weight, run_last = z[run], halting_weight[run], last_step[run]
            run_nodes, halted, num_active = nodes[run % len(nodes)], 0, num_nodes
            for node in range(num_nodes):
                halting_sum[node], active[node], run_last[node] = ZERO, node, 0
            for k in range(max_steps):
                while halted < len(run_nodes) and not halting_sum[run_nodes[halted]] < budget:
                    halted += 1
                if halted == len(run_nodes):
                    break
                weights = edge_weights[run % len(edge_weights), k % edge_weights.shape[1]]
                scale = deg_inv_sqrt[run % len(deg_inv_sqrt), k % deg_inv_sqrt.shape[1]]
                if k == 0 or deg_inv_sqrt.shape[1] > 1:  # otherwise the rows of halted nodes are as before
                    for node in range(num_nodes):
                        state = run_z[run_last[node], node]
                        axpby(width, scale[node], state, ZERO, state, scaled_z[node])
                after, z0, still_active = run_z[k + 1], run_z[0], 0
                for number in range(num_active):
                    node = active[number]
                    gather(width, prefetch, weights, indices, indptr[node], indptr[node + 1], scaled_z, total)
                    axpby(width, adjacency_weight * scale[node], total, z0_weight, z0[node], after[node])
                    logit, new = halting_bias[run], after[node]
                    for c in range(width):
                        logit += new[c] * run_weight[c]
                    h[run, k, node] = ONE / (ONE + np.exp(-logit))
                for number in range(num_active):
                    node = active[number]
                    run_last[node] = k + 1
                    halting_sum[node] += h[run, k, node]
                    axpby(width, scale[node], after[node], ZERO, after[node], scaled_z[node])
                    if halting_sum[node] < budget:
                        active[still_active] = node
                        still_active += 1
                num_active = still_active

    @kernel
    def backward(indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, grad_z, last_step):
        runs, max_steps, num_nodes = grad_z.shape[0], grad_z.shape[1] - 1, grad_z.shape[2]
        grad_total, grad_scaled_z = np.empty(width, np.float32), np.zeros((num_nodes, width), np.float32)
        for run in range(runs):
            run_last = last_step[run]
            for k in range(max_steps - 1, -1, -1):
                weights = edge_weights[run % len(edge_weights), k % edge_weights.shape[1]]
                scale = deg_inv_sqrt[run % len(deg_inv_sqrt), k % deg_inv_sqrt.shape[1]]
                grad_after, grad_z0, any_gradient = grad_z[run, k + 1], grad_z[run, 0], False
                for node in range(num_nodes):
                    if run_last[node] <= k:
                        continue
                    gradient, grad_norm = grad_after[node], ZERO
                    for c in range(width):
                        grad_norm += abs(gradient[c])
                    if grad_norm == ZERO:
                        continue
                    any_gradient = True
                    axpby(width, adjacency_weight * scale[node], gradient, ZERO, gradient, grad_total)
                    scatter(
                        width, prefetch, weights, indices, indptr[node], indptr[node + 1], grad_scaled_z, grad_total
                    )  # fmt: skip
                    if z0_weight != ZERO:
                        axpby(width, z0_weight, gradient, ONE, grad_z0[node], grad_z0[node])
                if any_gradient:
                    for node in range(num_nodes):
                        grad_before = grad_z[run, min(k, run_last[node]), node]
                        axpby(width, scale[node], grad_scaled_z[node], ONE, grad_before, grad_before)
                    grad_scaled_z[:] = ZERO

    return forward, backward
