"""CPU kernels of adaptive propagation in distributed training, with a halo exchange at every step.

The same equations as in `propagation`. Each row is scaled by its owner before it is sent, so that nothing but rows is
exchanged. All processes take the same number of steps: until all nodes whose output is needed have halted, in every
process. The reference is training in one process, compared in `tests/distributed/test_train.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.autograd import HaltingParameters, PropagationMatrices
from apgcn.ops.kernels.cpu.jit import ONE, ZERO, csr_arrays, kernel, to_numpy
from apgcn.ops.kernels.cpu.rng import unpack_mask
from apgcn.ops.kernels.cpu.simd_rows import PREFETCH_SIZE, axpby, gather, scatter

# Added to the budget when propagation ends early: h is computed once more for the output, with other rounding, and the
# nodes must have halted by that computation, too.
HALTING_TOLERANCE = 1e-5

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
        *csr_arrays(matrices.structure.csr),
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


def propagate_halo(
    matrices: PropagationMatrices,
    z0: Tensor,
    halting_weight: Tensor,
    halting_bias: Tensor,
    nodes: Tensor | None,
    halting: HaltingParameters,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return z^0, ..., z^T and h^1, ..., h^T of local nodes, and the tensors that `propagate_halo_backward` needs.

    After the last step that is taken, z and h are zero.

    Shapes
    ------
    z0 : (runs, local nodes, channels)
    halting_weight : (runs, channels), Q
    halting_bias : (runs,), q
    nodes : (runs, m), the nodes whose output is needed; all where None
    returned : (runs, T + 1, local nodes, padded channels), (runs, T, local nodes)
    """
    halo = matrices.halo
    runs, num_nodes, _ = z0.shape
    width = -(-z0.shape[2] // SIMD_WIDTH) * SIMD_WIDTH
    z = z0.new_zeros(runs, halting.max_steps + 1, num_nodes, width)
    z[:, 0, :, : z0.shape[2]] = z0
    edge_weights, deg_inv_sqrt = _edge_weights(matrices)
    scaled_z = z.new_zeros(runs, matrices.structure.shape[1], width)  # local nodes, then halo nodes
    h, halting_sum = z.new_zeros(runs, halting.max_steps, num_nodes), z.new_zeros(runs, num_nodes)
    last_step = torch.zeros(runs, num_nodes, dtype=torch.int32)
    nodes = torch.arange(num_nodes)[None] if nodes is None else nodes
    scale_kernel, step_kernel, _, _ = _kernels(width, prefetch=scaled_z.shape[1] * width > PREFETCH_SIZE)
    coefficients = np.float32(matrices.adjacency_weight), np.float32(matrices.z0_weight)
    channels = halting_weight.shape[-1]  # the padding is zero, and not sent
    halting_weight = functional.pad(halting_weight, (0, width - channels))
    freeze = halting.freeze_halted
    budget = halting.budget if freeze else halting.budget + HALTING_TOLERANCE
    csr, halting_unit = csr_arrays(matrices.structure.csr), to_numpy(halting_weight, halting_bias)
    z_array, scaled_array, *halting_arrays = to_numpy(z, scaled_z, h, halting_sum, last_step)
    steps_taken = 0
    for k in range(halting.max_steps):
        weights, scale = (to_numpy(tensor[:, k % tensor.shape[1]])[0] for tensor in (edge_weights, deg_inv_sqrt))
        scale_kernel(k, freeze, scale, z_array, halting_arrays[-1], scaled_array)
        scaled_z[:, num_nodes:, :channels] = halo.exchange_rows(scaled_z[:, :num_nodes, :channels])
        step_kernel(
            k,
            freeze,
            *csr,
            weights,
            scale,
            *coefficients,
            np.float32(budget),
            *halting_unit,
            z_array,
            scaled_array,
            *halting_arrays,
        )
        steps_taken = k + 1
        if steps_taken < halting.max_steps:
            any_active = bool((halting_sum.gather(1, nodes.expand(runs, -1)) < budget).any())
            if not halo.any_rank(any_active):
                break
    return z, h, (edge_weights, deg_inv_sqrt, last_step, torch.tensor([steps_taken, int(freeze), channels]))


def propagate_halo_backward(matrices: PropagationMatrices, saved: tuple[Tensor, ...], grad_z: Tensor) -> None:
    """Add the gradients of z^1, ..., z^T to those of the states before them, down to z^0, in place."""
    edge_weights, deg_inv_sqrt, last_step, scalars = saved
    steps_taken, freeze, channels = scalars.tolist()
    runs, _, num_nodes, width = grad_z.shape
    grad_scaled_z = grad_z.new_empty(runs, matrices.structure.shape[1], width)
    _, _, step_kernel, scale_kernel = _kernels(width, prefetch=grad_scaled_z.shape[1] * width > PREFETCH_SIZE)
    coefficients = np.float32(matrices.adjacency_weight), np.float32(matrices.z0_weight)
    csr, arrays = csr_arrays(matrices.structure.csr), to_numpy(grad_z, grad_scaled_z, last_step)
    for k in range(steps_taken - 1, -1, -1):
        weights, scale = (to_numpy(tensor[:, k % tensor.shape[1]])[0] for tensor in (edge_weights, deg_inv_sqrt))
        grad_scaled_z.zero_()
        step_kernel(k, bool(freeze), *csr, weights, scale, *coefficients, *arrays)
        grad_scaled_z[:, :num_nodes, :channels] += matrices.halo.exchange_gradients(
            grad_scaled_z[:, num_nodes:, :channels], num_nodes
        )
        scale_kernel(k, bool(freeze), scale, *arrays)


@cache
def _kernels(width: int, *, prefetch: bool) -> tuple[Callable, Callable, Callable, Callable]:
    """Return the kernels of one step: scaling and propagation, forward and, in reverse order, backward.

    Where `freeze`, the current state of node i is z^k with k = last_step[i].
    """

    @kernel
    def scale_forward(k, freeze, deg_inv_sqrt, z, last_step, scaled_z):
        for run in range(len(z)):
            scale = deg_inv_sqrt[run % len(deg_inv_sqrt)]
            for node in range(len(scale)):
                state = z[run, last_step[run, node] if freeze else k, node]
                axpby(width, scale[node], state, ZERO, state, scaled_z[run, node])

    @kernel
    def step_forward(
        k, freeze, indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, budget, halting_weight,
        halting_bias, z, scaled_z, h, halting_sum, last_step,
    ):  # fmt: skip
        total = np.empty(width, np.float32)
        for run in range(len(z)):
            weights, scale = edge_weights[run % len(edge_weights)], deg_inv_sqrt[run % len(deg_inv_sqrt)]
            after, z0, run_weight = z[run, k + 1], z[run, 0], halting_weight[run]
            for node in range(len(scale)):
                if freeze and not halting_sum[run, node] < budget:
                    continue
                gather(width, prefetch, weights, indices, indptr[node], indptr[node + 1], scaled_z[run], total)
                axpby(width, adjacency_weight * scale[node], total, z0_weight, z0[node], after[node])
                logit, new = halting_bias[run], after[node]
                for c in range(width):
                    logit += new[c] * run_weight[c]
                h[run, k, node] = ONE / (ONE + np.exp(-logit))
                halting_sum[run, node] += h[run, k, node]
                last_step[run, node] = k + 1

    @kernel
    def step_backward(
        k, freeze, indptr, indices, edge_weights, deg_inv_sqrt, adjacency_weight, z0_weight, grad_z, grad_scaled_z,
        last_step,
    ):  # fmt: skip
        grad_total = np.empty(width, np.float32)
        for run in range(len(grad_z)):
            weights, scale = edge_weights[run % len(edge_weights)], deg_inv_sqrt[run % len(deg_inv_sqrt)]
            grad_after, grad_z0 = grad_z[run, k + 1], grad_z[run, 0]
            for node in range(len(scale)):
                if freeze and last_step[run, node] <= k:
                    continue
                gradient, grad_norm = grad_after[node], ZERO
                for c in range(width):
                    grad_norm += abs(gradient[c])
                if grad_norm == ZERO:
                    continue
                axpby(width, adjacency_weight * scale[node], gradient, ZERO, gradient, grad_total)
                scatter(
                    width, prefetch, weights, indices, indptr[node], indptr[node + 1], grad_scaled_z[run], grad_total
                )  # fmt: skip
                if z0_weight != ZERO:
                    axpby(width, z0_weight, gradient, ONE, grad_z0[node], grad_z0[node])

    @kernel
    def scale_backward(k, freeze, deg_inv_sqrt, grad_z, grad_scaled_z, last_step):
        for run in range(len(grad_z)):
            scale = deg_inv_sqrt[run % len(deg_inv_sqrt)]
            for node in range(len(scale)):
                grad_before = grad_z[run, min(k, last_step[run, node]) if freeze else k, node]
                axpby(width, scale[node], grad_scaled_z[run, node], ONE, grad_before, grad_before)

    return scale_forward, step_forward, step_backward, scale_backward
