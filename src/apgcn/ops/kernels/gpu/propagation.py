"""GPU kernel of adaptive propagation: one launch per step, forward and backward.

The equations are in `kernels.autograd.FusedAdaptivePropagation`. The reference is the PyTorch path of
`nn.propagation.AdaptivePropagation`; `test_adaptive_propagation_matches_reference`,
`test_adaptive_propagation_with_frozen_states_matches_reference` and their neighbours in `tests/ops/test_kernels.py`
compare both directions.

A step reads `scaled_z`, the states times `deg_inv_sqrt`, which the step before computed once per node. Where some nodes
are requested, the states of those alone are stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from apgcn.ops.kernels.autograd import HaltingParameters, PropagationMatrices
from apgcn.ops.kernels.gpu.csr_blocks import RowBlocks, load_rows
from apgcn.ops.kernels.gpu.edge_dropout import EdgeMasks, drop_edges, edge_column_shift

# Programs in a launch, of all runs and of each run. More programs cost time in launches of runs that have ended.
MAX_PROGRAMS, MAX_PROGRAMS_WITH_DROPOUT, MIN_PROGRAMS_PER_RUN = 32768, 65536, 64


def propagate(
    matrices: PropagationMatrices,
    z0: Tensor,
    halting_weight: Tensor,
    halting_bias: Tensor,
    nodes: Tensor | None,
    halting: HaltingParameters,
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    """Return z^0, ..., z^T and h^1, ..., h^T of some nodes, and the tensors that `propagate_backward` needs.

    Shapes as in `kernels.cpu.propagation.propagate`. The launches of a run without active nodes return at once; its z
    and h stay 0. With `freeze_halted` all nodes count as needed, because only active nodes are updated.
    """
    runs, num_nodes, channels = z0.shape
    max_steps, budget = halting.max_steps, halting.budget
    width = triton.next_power_of_2(channels)
    z0 = functional.pad(z0, (0, width - channels)).contiguous()
    halting_weight = functional.pad(halting_weight, (0, width - channels))
    nodes = torch.arange(num_nodes, device=z0.device).expand(runs, -1) if nodes is None else nodes
    freeze = halting.freeze_halted
    halting_sum = z0.new_full((runs, num_nodes), 0.0 if freeze else budget)
    halting_sum.scatter_(1, nodes, 0)  # other nodes need no step
    stored = num_nodes if freeze else nodes.shape[1]  # the states of frozen nodes are read again
    z, h = z0.new_zeros(runs, max_steps + 1, stored, width), z0.new_zeros(runs, max_steps, stored)
    z[:, 0] = z0 if freeze else z0.gather(1, _index(nodes, width))
    active = torch.zeros(runs, max_steps + 1, dtype=torch.int32, device=z0.device)
    active[:, 0] = 1
    last_step = torch.zeros(runs, num_nodes if freeze else 0, dtype=torch.int32, device=z0.device)
    rows = _rows_of(nodes, num_nodes)
    steps = _Steps(matrices, drop_edges(matrices, max_steps), rows, active, last_step, budget)
    scaled_z = steps.scaled_buffers(z0, 0)
    for k in range(max_steps):
        steps.take(k, z, z0, scaled_z, unit=(halting_weight, halting_bias, h, halting_sum), transposed=False)
    if freeze:
        z = z.gather(2, _index(nodes, width)[:, None].expand(-1, max_steps + 1, -1, -1))
        h = h.gather(2, nodes[:, None].expand(-1, max_steps, -1))
    return z, h, (nodes, rows, active, last_step, steps.edge_masks.deg_inv_sqrt, steps.edge_masks.bits)


def propagate_backward(
    matrices: PropagationMatrices, saved: tuple[Any, ...], grad_z: Tensor, *, channels: int
) -> Tensor:
    """Return the gradient of z^0, (runs, nodes, channels).

    `saved` are the tensors that `propagate` returned; grad_z has the shape of its z.
    """
    nodes, rows, active, last_step, deg_inv_sqrt, bits = saved
    num_nodes, last = matrices.structure.shape[0], grad_z.shape[1] - 2
    column_shift = edge_column_shift(matrices, last + 1) if bits is not None else 0
    edge_masks = EdgeMasks(bits, deg_inv_sqrt, column_shift).transpose(matrices)
    if not matrices.unit_weights:
        permutation = matrices.structure.transpose_permutation
        matrices = matrices._replace(weights=matrices.weights.index_select(0, permutation))
    if last_step.shape[1]:
        grad_z = _scatter(grad_z, nodes, num_nodes)
        grad_last = grad_z[:, -1] * (last_step > last)[..., None]  # a gradient flows only through a step that was taken
    else:
        grad_last = _scatter(grad_z[:, -1:], nodes, num_nodes)[:, 0]
    steps = _Steps(matrices, edge_masks, rows, active, last_step)
    scaled_grad = steps.scaled_buffers(grad_last, last)
    for k in range(last, -1, -1):
        steps.take(k, grad_z, grad_last, scaled_grad, unit=(grad_z,) * 4, transposed=True)
    return scaled_grad[0][..., :channels]


def _index(nodes: Tensor, width: int) -> Tensor:
    """The index of rows of (runs, nodes, width) for `gather` and `scatter`."""
    return nodes[..., None].expand(-1, -1, width)


def _scatter(states: Tensor, nodes: Tensor, num_nodes: int) -> Tensor:
    """The states (runs, steps, m, width) of some nodes among zeros for all others."""
    runs, steps, _, width = states.shape
    index = _index(nodes, width)[:, None].expand(-1, steps, -1, -1)
    return states.new_zeros(runs, steps, num_nodes, width).scatter_(2, index, states)


def _rows_of(nodes: Tensor, num_nodes: int) -> Tensor:
    """The row of every node among some nodes, or -1, (runs, nodes)."""
    runs, count = nodes.shape
    numbers = torch.arange(count, dtype=torch.int32, device=nodes.device).expand(runs, -1)
    return numbers.new_full((runs, num_nodes), -1).scatter_(1, nodes, numbers)


class _Steps(NamedTuple):
    """What all steps of a pass have in common.

    Attributes
    ----------
    matrices : PropagationMatrices
    edge_masks : EdgeMasks
        Of the matrices, or of their transposes in the backward pass.
    rows : int32 Tensor of shape (runs, nodes)
        Which row of the stored states is a node's, or -1 if they are not stored; with `freeze_halted` all are.
    active : int32 Tensor of shape (runs, T + 1)
        Whether any node of a run takes each step.
    last_step : int32 Tensor of shape (runs, nodes), or (runs, 0)
        The steps that each node takes, with `freeze_halted`; written forward and read backward.
    budget : float
    """

    matrices: PropagationMatrices
    edge_masks: EdgeMasks
    rows: Tensor
    active: Tensor
    last_step: Tensor
    budget: float = 0.0

    def scaled_buffers(self, z: Tensor, k: int) -> list[Tensor]:
        """Return the states times `deg_inv_sqrt` of step k, and an empty buffer for those of the next step."""
        scaled_z = z * self.edge_masks.step_deg_inv_sqrt(k)[..., None]
        return [scaled_z, torch.empty_like(scaled_z)]

    def take(
        self, k: int, z: Tensor, z0: Tensor, scaled_z: list[Tensor], *, unit: tuple[Tensor, ...], transposed: bool
    ) -> None:
        """Take step k from one of the buffers `scaled_z` to the other, which change places.

        Forward, it stores z[:, k + 1]; `z0` are the initial states and `unit` are Q, q, h and the sums of the nodes'
        halting probabilities. Transposed, z[:, k] are the gradients of z^k without what flows back from z^(k+1), and
        `z0` is the sum of the gradients of the states that took a share of z^0. The last step, k = 0, leaves the
        gradient of z^0 in the buffer, not scaled.
        """
        edge_masks, structure = self.edge_masks, self.matrices.structure
        runs, states, stored, width = z.shape
        csr = structure.csr_transposed if transposed else structure.csr
        bits, bits_stride, bit = edge_masks.step_bits(k)
        blocks = RowBlocks.from_csr(csr, width)
        programs = MAX_PROGRAMS if edge_masks.bits is None else MAX_PROGRAMS_WITH_DROPOUT
        # Whole tensors and k, not their slices: those begin at other alignments, for which Triton compiles again.
        _propagate[min(blocks.blocks, max(MIN_PROGRAMS_PER_RUN, programs // runs)), runs](
            csr.indptr, csr.indices, csr.row_order, blocks.long_rows, blocks.blocks, self.matrices.weights,
            bits, bits_stride, bit, edge_masks.column_shift, edge_masks.deg_inv_sqrt, *edge_masks.deg_strides,
            *scaled_z, z0, z, states, stored, self.rows, self.active, *unit, self.last_step, k, self.budget,
            structure.shape[0], self.matrices.adjacency_weight * self.matrices.mask_scale, self.matrices.z0_weight,
            FREEZE=self.last_step.shape[1] > 0, TRANSPOSED=transposed, HAS_MASK=edge_masks.bits is not None,
            HAS_WEIGHTS=not self.matrices.unit_weights, HAS_COLUMNS=edge_masks.column_shift > 0, WIDTH=width,
            num_warps=1, **blocks.sizes,
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
@triton.jit(
    do_not_specialize=["long_rows", "blocks", "bits_stride", "bit", "column_shift", "deg_stride", "deg_step", "k"]
)
def _propagate(
    indptr, indices, row_order, long_rows, blocks, weights, bits, bits_stride, bit, column_shift,
    deg_inv_sqrt, deg_stride, deg_step, scaled_z, next_scaled_z, z0, z, states, stored, rows, active, halting_weight,
    halting_bias, h, halting_sum, last_step, k, budget, num_nodes, adjacency_weight,
    z0_weight,
    FREEZE: tl.constexpr, TRANSPOSED: tl.constexpr, HAS_MASK: tl.constexpr,
    HAS_WEIGHTS: tl.constexpr, HAS_COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    active += run * states + k
    inactive = tl.load(active) == 0
    if inactive:
        next_active = tl.load(active - 1) if TRANSPOSED else 0  # whether a gradient flows back in the next step
        if next_active == 0:
            return
    run = run.to(tl.int64)
    z0 += run * num_nodes * WIDTH
    state = z + (run * states + (k if TRANSPOSED else k + 1)) * stored * WIDTH
    rows += run * num_nodes
    scaled_z += run * num_nodes * WIDTH
    next_scaled_z += run * num_nodes * WIDTH
    deg_inv_sqrt += run * deg_stride
    next_deg_inv_sqrt = deg_inv_sqrt + (max(0, k - 1) if TRANSPOSED else min(k + 1, states - 2)) * deg_step
    deg_inv_sqrt += k * deg_step
    bits += run * bits_stride
    halting_weight += run * WIDTH
    halting_bias += run
    h += (run * (states - 1) + k) * stored
    halting_sum += run * num_nodes
    last_step += run * num_nodes
    num_active = 0
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        if block < long_rows:
            num_active += _propagate_rows(
                block + tl.arange(0, 1), long_rows, inactive, indptr, indices, row_order, weights, bits, bit,
                column_shift, deg_inv_sqrt, next_deg_inv_sqrt, scaled_z, next_scaled_z, z0, state, rows, halting_weight,
                halting_bias, h, halting_sum, last_step, k, budget, num_nodes, adjacency_weight, z0_weight, FREEZE,
                TRANSPOSED,
                HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS, WIDTH, 1, ENTRIES if ROWS == 1 else 32, CHANNELS,
            )  # fmt: skip
        elif ROWS > 1:
            num_active += _propagate_rows(
                long_rows + (block - long_rows) * ROWS + tl.arange(0, ROWS), num_nodes, inactive, indptr, indices,
                row_order, weights, bits, bit, column_shift, deg_inv_sqrt, next_deg_inv_sqrt, scaled_z, next_scaled_z,
                z0, state, rows, halting_weight, halting_bias, h, halting_sum, last_step, k, budget, num_nodes,
                adjacency_weight,
                z0_weight, FREEZE, TRANSPOSED, HAS_MASK, HAS_WEIGHTS, HAS_COLUMNS, WIDTH, ROWS, ENTRIES,
                CHANNELS,
            )  # fmt: skip
    if num_active > 0:
        tl.store(active + 1, 1)  # several programs may store it; they store the same value


@triton.jit
def _propagate_rows(
    position, end, inactive, indptr, indices, row_order, weights, bits, bit, column_shift, deg_inv_sqrt,
    next_deg_inv_sqrt, scaled_z, next_scaled_z, z0, state, rows, halting_weight, halting_bias, h, halting_sum,
    last_step, k,
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
    row, is_stored = node, position < end
    if not FREEZE:
        row = tl.load(rows + node, mask=position < end, other=-1)
        is_stored = row >= 0
    frozen, took_step = position < 0, position < end  # none, all
    if FREEZE:
        if TRANSPOSED:
            steps = tl.load(last_step + node, mask=position < end, other=0)
            frozen, took_step = steps <= k, steps >= k
            next_scale = tl.where(took_step, next_scale, 0.0)  # a gradient flows only through a step that was taken
        else:
            frozen = tl.load(halting_sum + node, mask=position < end, other=budget) >= budget
            last = tl.where(frozen, first, last)
    if TRANSPOSED:
        next_scale = tl.where(k == 0, 1.0, next_scale)  # the gradient of z^0 is the result
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
            source_z = tl.load(scaled_z + source, mask=kept[:, :, None], other=0.0)
            total += weight[:, :, None] * source_z if HAS_WEIGHTS else source_z
        new = scale[:, None] * tl.sum(total, axis=1)
        valid = (position < end)[:, None]
        offset = node[:, None] * WIDTH + channel[None, :]
        stored_offset = row[:, None] * WIDTH + channel[None, :]
        if TRANSPOSED:
            new += tl.load(state + stored_offset, mask=is_stored[:, None], other=0.0)
            if FREEZE:
                grad_after = state + num_nodes * WIDTH + offset
                new += tl.load(grad_after, mask=valid & frozen[:, None], other=0.0)
                tl.store(state + offset, new, mask=valid)
            if z0_weight != 0.0:
                teleported = tl.load(z0 + offset, mask=valid, other=0.0)
                if k == 0:
                    new += z0_weight * teleported
                else:
                    tl.store(z0 + offset, teleported + tl.where(took_step[:, None], new, 0.0), mask=valid)
        else:
            new += z0_weight * tl.load(z0 + offset, mask=valid, other=0.0)
            if FREEZE:
                before = tl.load(state - num_nodes * WIDTH + offset, mask=valid, other=0.0)
                new = tl.where(frozen[:, None], before, new)
            logit += tl.sum(new * tl.load(halting_weight + channel)[None, :], axis=1)
            tl.store(state + stored_offset, new, mask=is_stored[:, None])
        tl.store(next_scaled_z + offset, next_scale[:, None] * new, mask=valid)
    if TRANSPOSED:
        return 0
    else:
        step_h = 1.0 / (1.0 + tl.exp(-(logit + tl.load(halting_bias))))
        if FREEZE:
            step_h = tl.where(frozen, 0.0, step_h)
            tl.store(last_step + node, k + 1, mask=(position < end) & (frozen == 0))
        tl.store(h + row, step_h, mask=is_stored)
        new_sum = tl.load(halting_sum + node, mask=position < end, other=budget) + step_h
        tl.store(halting_sum + node, new_sum, mask=position < end)
        return tl.sum((new_sum < budget).to(tl.int32))
