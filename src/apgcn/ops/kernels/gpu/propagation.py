"""GPU kernel of adaptive propagation: one launch per step, forward and backward.

The equations are in `kernels.autograd.FusedAdaptivePropagation`. The reference is the PyTorch path of
`nn.propagation.AdaptivePropagation`; `test_adaptive_propagation_matches_reference`,
`test_adaptive_propagation_with_frozen_states_matches_reference` and their neighbours in `tests/ops/test_kernels.py`
compare both directions.

A step reads `scaled_z`, the states times `deg_inv_sqrt`, which the step before computed once per node.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from apgcn.ops.dense import axis_sums
from apgcn.ops.kernels.autograd import HaltingParameters, PropagationMatrices
from apgcn.ops.kernels.gpu.csr_blocks import RowBlocks, load_rows
from apgcn.ops.kernels.gpu.edge_dropout import EdgeMasks, drop_edges, edge_column_shift

# Programs in a launch, of all runs and of each run. More programs cost time in launches of runs that have ended.
MAX_PROGRAMS, MIN_PROGRAMS_PER_RUN = 32768, 64


def propagate(
    matrices: PropagationMatrices,
    z0: Tensor,
    halting_weight: Tensor,
    halting_bias: Tensor,
    nodes: Tensor | None,
    halting: HaltingParameters,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return z^0, ..., z^T, h^1, ..., h^T and the tensors that `propagate_backward` needs.

    Shapes as in `kernels.cpu.propagation.propagate`. The tensors for the backward pass are `deg_inv_sqrt`, `active`
    (runs, T + 1), which tells whether any node of a run takes each step, `last_step` (runs, nodes), the steps that each
    node takes with `freeze_halted`, otherwise empty, and the mask bits. The launches of a run without active nodes
    return at once; its z and h stay 0. With `freeze_halted` all nodes count as needed, because only active nodes are
    updated.
    """
    runs, num_nodes, channels = z0.shape
    max_steps, budget = halting.max_steps, halting.budget
    width = triton.next_power_of_2(channels)
    z, h = z0.new_zeros(runs, max_steps + 1, num_nodes, width), z0.new_zeros(runs, max_steps, num_nodes)
    z[:, 0, :, :channels] = z0
    halting_weight = functional.pad(halting_weight, (0, width - channels))
    halting_sum = z0.new_zeros(runs, num_nodes)
    if nodes is not None and not halting.freeze_halted:
        halting_sum.fill_(budget).scatter_(1, nodes, 0)  # other nodes need no step
    active = torch.zeros(runs, max_steps + 1, dtype=torch.int32, device=z0.device)
    active[:, 0] = 1
    frozen_nodes = num_nodes if halting.freeze_halted else 0
    last_step = torch.zeros(runs, frozen_nodes, dtype=torch.int32, device=z0.device)
    edge_masks = drop_edges(matrices, max_steps)
    scaled_z = _scaled_buffers(z[:, 0], edge_masks, 0)
    for k in range(max_steps):
        unit = halting_weight, halting_bias, h[:, k], halting_sum
        _step(matrices, edge_masks, z, scaled_z, active, last_step, k, transposed=False, unit=unit, budget=budget)
    bits = () if edge_masks.bits is None else (edge_masks.bits,)
    return z, h, (edge_masks.deg_inv_sqrt, active, last_step, *bits)


def propagate_backward(
    matrices: PropagationMatrices, saved: tuple[Tensor, ...], grad_z: Tensor, *, channels: int
) -> Tensor:
    """Return the gradient of z^0, (runs, nodes, channels).

    `saved` are the tensors that `propagate` returned; grad_z, of the shape of z, becomes the gradient of all.
    """
    deg_inv_sqrt, active, last_step, *bits = saved
    column_shift = edge_column_shift(matrices, grad_z.shape[1] - 1) if bits else 0
    edge_masks = EdgeMasks(bits[0] if bits else None, deg_inv_sqrt, column_shift).transpose(matrices)
    if not matrices.unit_weights:
        permutation = matrices.structure.transpose_permutation
        matrices = matrices._replace(weights=matrices.weights.index_select(0, permutation))
    last = grad_z.shape[1] - 2
    scaled_grad = _scaled_buffers(grad_z[:, last + 1], edge_masks, last)
    freeze = last_step.shape[1] > 0
    if freeze:
        scaled_grad[0] *= (last_step > last)[..., None]
    for k in range(last, -1, -1):
        _step(matrices, edge_masks, grad_z, scaled_grad, active, last_step, k, transposed=True, unit=(grad_z,) * 4)
    if matrices.z0_weight:
        grad_steps = grad_z[:, 1:]
        if freeze:  # a frozen node did not add z^0 again
            took_step = last_step[:, None] > torch.arange(last + 1, device=last_step.device)[:, None]
            grad_steps = grad_steps * took_step[..., None]
        grad_z[:, 0].add_(axis_sums(grad_steps, 1), alpha=matrices.z0_weight)
    return grad_z[:, 0, :, :channels]


def _scaled_buffers(z: Tensor, edge_masks: EdgeMasks, k: int) -> list[Tensor]:
    """Return the states times `deg_inv_sqrt` of step k, and an empty buffer for those of the next step."""
    scaled_z = z * edge_masks.step_deg_inv_sqrt(k)[..., None]
    return [scaled_z, torch.empty_like(scaled_z)]


def _step(
    matrices: PropagationMatrices,
    edge_masks: EdgeMasks,
    z: Tensor,
    scaled_z: list[Tensor],
    active: Tensor,
    last_step: Tensor,
    k: int,
    *,
    transposed: bool,
    unit: tuple[Tensor, ...],
    budget: float = 0.0,
) -> None:
    """Take step k: compute z[:, k + 1] from z[:, k], or, transposed, add to z[:, k] what flows back from z[:, k + 1].

    `unit` are Q, q, h^(k+1) and the sums of the nodes' halting probabilities. With frozen states, `last_step` is
    written forward and read backward. The two buffers of `scaled_z` change places.
    """
    runs, states, num_nodes, width = z.shape
    csr = matrices.structure.csr_transposed if transposed else matrices.structure.csr
    bits, bits_stride, bit = edge_masks.step_bits(k)
    next_k = max(0, k - 1) if transposed else min(k + 1, states - 2)
    blocks = RowBlocks.from_csr(csr, width)
    _propagate[min(blocks.blocks, max(MIN_PROGRAMS_PER_RUN, MAX_PROGRAMS // runs)), runs](
        csr.indptr, csr.indices, csr.row_order, blocks.long_rows, blocks.blocks, matrices.weights,
        bits, bits_stride, bit, edge_masks.column_shift,
        edge_masks.step_deg_inv_sqrt(k), edge_masks.step_deg_inv_sqrt(next_k), edge_masks.deg_stride,
        *scaled_z, z[:, 0], z[:, k if transposed else k + 1], states, active[:, k],
        active.stride(0), *unit, last_step, k, budget, num_nodes, matrices.adjacency_weight * matrices.mask_scale,
        matrices.z0_weight, FREEZE=last_step.shape[1] > 0, TRANSPOSED=transposed,
        HAS_MASK=edge_masks.bits is not None, HAS_WEIGHTS=not matrices.unit_weights,
        HAS_COLUMNS=edge_masks.column_shift > 0, WIDTH=width, num_warps=1, **blocks.sizes,
    )  # fmt: skip
    scaled_z.reverse()


@triton.jit
def _load_edges(
    entry, last, indices, weights, bits, bit, column_shift,
    HAS_MASK: tl.constexpr, HAS_WEIGHTS: tl.constexpr, HAS_COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sources of some edges, their weights, and whether they exist and are kept."""
    kept = entry < last
    weight = tl.full(entry.shape, 1.0, tl.float32)
    if HAS_WEIGHTS:
        weight = tl.load(weights + entry, mask=kept, other=0.0)
    if HAS_COLUMNS:
        number = tl.load(bits + entry, mask=kept, other=0)
        column = number.to(tl.uint32, bitcast=True) >> column_shift
        kept = kept & (((number >> bit) & 1) != 0)
        return column.to(tl.int32, bitcast=True), weight, kept
    else:
        column = tl.load(indices + entry, mask=kept, other=0)
        if HAS_MASK:
            kept = kept & (((tl.load(bits + entry, mask=kept, other=0) >> bit) & 1) != 0)
        return column, weight, kept


# A stride is 0 for one run, and must not give it a variant of its own.
@triton.jit(do_not_specialize=["long_rows", "blocks", "bits_stride", "bit", "column_shift", "deg_stride", "k"])
def _propagate(
    indptr, indices, row_order, long_rows, blocks, weights, bits, bits_stride, bit, column_shift,
    deg_inv_sqrt, next_deg_inv_sqrt, deg_stride, scaled_z, next_scaled_z, z0, state, states, active, active_stride,
    halting_weight, halting_bias, h,
    halting_sum, last_step, k, budget, num_nodes, adjacency_weight, z0_weight,
    FREEZE: tl.constexpr, TRANSPOSED: tl.constexpr, HAS_MASK: tl.constexpr,
    HAS_WEIGHTS: tl.constexpr, HAS_COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    active += run * active_stride
    inactive = tl.load(active) == 0
    if inactive:
        next_active = tl.load(active - 1) if TRANSPOSED else 0  # whether a gradient flows back in the next step
        if next_active == 0:
            return
    run = run.to(tl.int64)
    z0 += run * states * num_nodes * WIDTH
    state += run * states * num_nodes * WIDTH
    scaled_z += run * num_nodes * WIDTH
    next_scaled_z += run * num_nodes * WIDTH
    deg_inv_sqrt += run * deg_stride
    next_deg_inv_sqrt += run * deg_stride
    bits += run * bits_stride
    halting_weight += run * WIDTH
    halting_bias += run
    h += run * (states - 1) * num_nodes
    halting_sum += run * num_nodes
    last_step += run * num_nodes
    num_active = 0
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        if block < long_rows:
            num_active += _propagate_rows(
                block + tl.arange(0, 1), long_rows, inactive, indptr, indices, row_order, weights, bits, bit,
                column_shift, deg_inv_sqrt, next_deg_inv_sqrt, scaled_z, next_scaled_z, z0, state, halting_weight,
                halting_bias, h,
                halting_sum, last_step, k, budget, num_nodes, adjacency_weight, z0_weight, FREEZE, TRANSPOSED,
                HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS, WIDTH, 1, ENTRIES if ROWS == 1 else 32, CHANNELS,
            )  # fmt: skip
        elif ROWS > 1:
            num_active += _propagate_rows(
                long_rows + (block - long_rows) * ROWS + tl.arange(0, ROWS), num_nodes, inactive, indptr, indices,
                row_order, weights, bits, bit, column_shift, deg_inv_sqrt, next_deg_inv_sqrt, scaled_z, next_scaled_z,
                z0, state, halting_weight, halting_bias, h, halting_sum, last_step, k, budget, num_nodes,
                adjacency_weight,
                z0_weight, FREEZE, TRANSPOSED, HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS, WIDTH, ROWS, ENTRIES, CHANNELS,
            )  # fmt: skip
    if num_active > 0:
        tl.store(active + 1, 1)  # several programs may store it; they store the same value


@triton.jit
def _propagate_rows(
    position, end, inactive, indptr, indices, row_order, weights, bits, bit, column_shift, deg_inv_sqrt,
    next_deg_inv_sqrt, scaled_z, next_scaled_z, z0, state, halting_weight, halting_bias, h, halting_sum, last_step, k,
    budget, num_nodes,
    adjacency_weight, z0_weight,
    FREEZE: tl.constexpr, TRANSPOSED: tl.constexpr, HAS_MASK: tl.constexpr,
    HAS_WEIGHTS: tl.constexpr, HAS_COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Take one step of the nodes at some positions of `row_order`; return how many of them have not halted."""
    node, first, last = load_rows(position, end, indptr, row_order)
    scale = tl.load(deg_inv_sqrt + node, mask=position < end, other=0.0) * adjacency_weight
    next_scale = tl.load(next_deg_inv_sqrt + node, mask=position < end, other=0.0)
    if inactive:  # no gradient flows back in this step, but the next one needs the scaled gradients
        last = first
    frozen = position < 0  # none
    if FREEZE:
        if TRANSPOSED:
            steps = tl.load(last_step + node, mask=position < end, other=0)
            frozen = steps <= k
            next_scale = tl.where(steps >= k, next_scale, 0.0)  # a gradient flows only through a step that was taken
        else:
            frozen = tl.load(halting_sum + node, mask=position < end, other=budget) >= budget
            last = tl.where(frozen, first, last)
    logit = tl.zeros((ROWS,), tl.float32)
    for start in range(0, WIDTH, CHANNELS):
        channel = start + tl.arange(0, CHANNELS)
        total = tl.zeros((ROWS, ENTRIES, CHANNELS), tl.float32)
        entry = first[:, None] + tl.arange(0, ENTRIES)[None, :]
        next_column, next_weight, next_kept = _load_edges(
            entry, last[:, None], indices, weights, bits, bit, column_shift, HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS
        )  # fmt: skip
        for _ in range(0, tl.max(last - first), ENTRIES):
            entry += ENTRIES
            column, weight, kept = next_column, next_weight, next_kept
            next_column, next_weight, next_kept = _load_edges(
                entry, last[:, None], indices, weights, bits, bit, column_shift, HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS
            )  # fmt: skip
            source = column[:, :, None] * WIDTH + channel[None, None, :]
            states = tl.load(scaled_z + source, mask=kept[:, :, None], other=0.0)
            total += weight[:, :, None] * states if HAS_WEIGHTS else states
        new = scale[:, None] * tl.sum(total, axis=1)
        valid = (position < end)[:, None]
        offset = node[:, None] * WIDTH + channel[None, :]
        if TRANSPOSED:
            new += tl.load(state + offset, mask=valid, other=0.0)
            if FREEZE:
                grad_after = state + num_nodes * WIDTH + offset
                new += tl.load(grad_after, mask=valid & frozen[:, None], other=0.0)
        else:
            new += z0_weight * tl.load(z0 + offset, mask=valid, other=0.0)
            if FREEZE:
                before = tl.load(state - num_nodes * WIDTH + offset, mask=valid, other=0.0)
                new = tl.where(frozen[:, None], before, new)
            logit += tl.sum(new * tl.load(halting_weight + channel)[None, :], axis=1)
        tl.store(state + offset, new, mask=valid)
        tl.store(next_scaled_z + offset, next_scale[:, None] * new, mask=valid)
    if TRANSPOSED:
        return 0
    else:
        step_h = 1.0 / (1.0 + tl.exp(-(logit + tl.load(halting_bias))))
        if FREEZE:
            step_h = tl.where(frozen, 0.0, step_h)
            tl.store(last_step + node, k + 1, mask=(position < end) & (frozen == 0))
        tl.store(h + node, step_h, mask=position < end)
        new_sum = tl.load(halting_sum + node, mask=position < end, other=budget) + step_h
        tl.store(halting_sum + node, new_sum, mask=position < end)
        return tl.sum((new_sum < budget).to(tl.int32))
