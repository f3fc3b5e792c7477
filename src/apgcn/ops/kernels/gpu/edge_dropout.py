"""GPU kernels of edge dropout: which edges each step keeps, and the degrees of what is left, for all steps and runs.

The reference is `step_matrices` of `nn.operators`; `test_adaptive_propagation_matches_reference` and its neighbours
compare the two. The mask bits of an edge, one for each step, are collected in 32-bit numbers in the order of the edges,
so that each step reads them as it reads the edges, forward and, after one permutation, backward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.kernels.autograd import PropagationMatrices
from apgcn.ops.kernels.gpu.csr_blocks import MaskArguments, load_rows

STEPS_PER_NUMBER = 32  # mask bits in a 32-bit number
BLOCK = 1024  # edges whose mask bits a program collects
ROWS = 8  # rows, unless long, whose degrees a program computes


class EdgeMasks(NamedTuple):
    """The edges that each step keeps, and `deg_inv_sqrt`, the diagonal of D_k^-1/2.

    Attributes
    ----------
    bits : int32 Tensor of shape (runs, numbers, nnz), or None if nothing is dropped
        Bit k of an entry's numbers tells whether step k keeps it.
    deg_inv_sqrt : Tensor of shape (1 or runs, 1 or steps, nodes)
    column_shift : int
        The bits of a number from here on are the entry's column, so that one load reads both; 0 if there is no room.
    """

    bits: Tensor | None
    deg_inv_sqrt: Tensor
    column_shift: int

    def transpose(self, matrices: PropagationMatrices) -> EdgeMasks:
        """Return the same for the transposed matrix."""
        if self.bits is None:
            return self
        structure = matrices.structure
        runs, numbers, nnz = self.bits.shape
        bits = torch.empty_like(self.bits)
        _transpose_bits[triton.cdiv(nnz, BLOCK), runs * numbers](
            self.bits, structure.transpose_permutation, structure.csr_transposed.indices, bits, nnz, self.column_shift,
            BLOCK=BLOCK,
        )  # fmt: skip
        return self._replace(bits=bits)

    def step_bits(self, k: int) -> tuple[Tensor, int, int]:
        """Return the numbers that hold step k, their stride between runs, and the position of the bit."""
        if self.bits is None:
            return self.deg_inv_sqrt, 0, 0
        return self.bits[:, k // STEPS_PER_NUMBER], self.bits.stride(0), k % STEPS_PER_NUMBER

    def step_deg_inv_sqrt(self, k: int) -> Tensor:
        return self.deg_inv_sqrt[:, k % self.deg_inv_sqrt.shape[1]]

    @property
    def deg_strides(self) -> tuple[int, int]:
        """Strides of `deg_inv_sqrt` between runs and between steps."""
        runs, steps, nodes = self.deg_inv_sqrt.shape
        return 0 if runs == 1 else steps * nodes, 0 if steps == 1 else nodes


def edge_column_shift(matrices: PropagationMatrices, steps: int) -> int:
    """Return `EdgeMasks.column_shift`: the number of steps if a column fits beside their bits, else 0."""
    return steps if steps + matrices.structure.shape[1].bit_length() <= STEPS_PER_NUMBER else 0


def drop_edges(matrices: PropagationMatrices, steps: int) -> EdgeMasks:
    """Collect the mask bits and, where the matrices are renormalised, compute the degrees."""
    structure, weights = matrices.structure, matrices.weights
    bits, runs, mask_steps, column_shift = None, 1, 1, 0
    if matrices.mask is not None:
        mask = MaskArguments.from_mask(matrices.mask, weights)
        runs, mask_steps = len(mask.bits), steps
        numbers = triton.cdiv(steps, STEPS_PER_NUMBER)
        column_shift = edge_column_shift(matrices, steps)
        bits = torch.empty(runs, numbers, structure.nnz, dtype=torch.int32, device=weights.device)
        _collect_bits[triton.cdiv(structure.nnz, BLOCK), numbers, runs](
            structure.row, structure.col, bits, structure.nnz, steps, column_shift,
            mask.bits, mask.stride, mask.drop_threshold, MASK_KIND=mask.kind, KEEP_SELF_LOOPS=matrices.keep_self_loops,
            BLOCK=BLOCK, STEPS_PER_NUMBER=STEPS_PER_NUMBER,
        )  # fmt: skip
    if not matrices.renormalize:
        return EdgeMasks(bits, weights.new_ones(1, 1, structure.shape[0]), column_shift)
    deg_inv_sqrt = weights.new_empty(runs, mask_steps, structure.shape[0])
    edge_masks = EdgeMasks(bits, deg_inv_sqrt, column_shift)
    csr = structure.csr
    for k in range(0, mask_steps, STEPS_PER_NUMBER):
        _degrees[csr.long_rows + triton.cdiv(structure.shape[0] - csr.long_rows, ROWS), runs](
            csr.indptr, csr.row_order, csr.long_rows, weights, *edge_masks.step_bits(k)[:2], deg_inv_sqrt[:, k:],
            structure.shape[0], mask_steps, min(mask_steps - k, STEPS_PER_NUMBER), matrices.mask_scale,
            HAS_MASK=bits is not None, ROWS=ROWS,
            STEPS=min(STEPS_PER_NUMBER, triton.next_power_of_2(mask_steps)), num_warps=2,
        )  # fmt: skip
    return edge_masks


@triton.jit(do_not_specialize=["column_shift"])
def _transpose_bits(bits, permutation, columns, transposed, nnz, column_shift, BLOCK: tl.constexpr):
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = entry < nnz
    offset = tl.program_id(1).to(tl.int64) * nnz
    number = tl.load(bits + offset + tl.load(permutation + entry, mask=valid, other=0), mask=valid, other=0)
    if column_shift > 0:
        column = tl.load(columns + entry, mask=valid, other=0)
        number = (number & ((1 << column_shift) - 1)) | (column << column_shift)
    tl.store(transposed + offset + entry, number, mask=valid)


@triton.jit(do_not_specialize=["column_shift"])
def _collect_bits(
    row, col, bits, nnz, steps, column_shift, mask_bits, mask_stride, drop_threshold,
    MASK_KIND: tl.constexpr, KEEP_SELF_LOOPS: tl.constexpr, BLOCK: tl.constexpr, STEPS_PER_NUMBER: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(2)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = entry < nnz
    number = tl.zeros((BLOCK,), tl.int32)
    first = tl.program_id(1) * STEPS_PER_NUMBER
    position = first.to(tl.int64) * nnz + entry
    mask_bits += run.to(tl.int64) * mask_stride
    if MASK_KIND == 1:  # BIT_MASK: as in `is_kept`, but a 64-bit division for each step would take longest
        shift = position // mask_stride
        offset = position - shift * mask_stride
        next_shift = nnz // mask_stride
        next_offset = nnz - next_shift * mask_stride
        for k in range(0, min(STEPS_PER_NUMBER, steps - first)):
            word = tl.load(mask_bits + offset, mask=valid, other=0)
            number |= ((word >> (30 - shift).to(tl.int32)) & 1) << k
            offset += next_offset
            carry = offset >= mask_stride
            offset = tl.where(carry, offset - mask_stride, offset)
            shift += next_shift + carry.to(tl.int64)
    else:
        for k in range(0, min(STEPS_PER_NUMBER, steps - first)):
            kept = tl.load(mask_bits + position, mask=valid, other=0).to(tl.int32) >= drop_threshold
            number |= kept.to(tl.int32) << k
            position += nnz
    if KEEP_SELF_LOOPS:
        self_loop = tl.load(row + entry, mask=valid, other=0) == tl.load(col + entry, mask=valid, other=1)
        number = tl.where(self_loop, -1, number)
    if column_shift > 0:
        column = tl.load(col + entry, mask=valid, other=0).to(tl.int32)
        number = (number & ((1 << column_shift) - 1)) | (column << column_shift)
    bits += (run.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * nnz
    tl.store(bits + entry, number, mask=valid)


@triton.jit(do_not_specialize=["long_rows", "steps"])
def _degrees(
    indptr, row_order, long_rows, weights, bits, bits_stride, deg_inv_sqrt, nodes, all_steps, steps, mask_scale,
    HAS_MASK: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    bits += run * bits_stride
    deg_inv_sqrt += run * all_steps * nodes
    if block < long_rows:
        _row_degrees(
            block + tl.arange(0, 1), long_rows, indptr, row_order, weights, bits, deg_inv_sqrt, nodes, steps,
            mask_scale, HAS_MASK, 1, 64, STEPS,
        )  # fmt: skip
    else:
        _row_degrees(
            long_rows + (block - long_rows) * ROWS + tl.arange(0, ROWS), nodes, indptr, row_order, weights, bits,
            deg_inv_sqrt, nodes, steps, mask_scale, HAS_MASK, ROWS, 4, STEPS,
        )  # fmt: skip


@triton.jit
def _row_degrees(
    position, end, indptr, row_order, weights, bits, deg_inv_sqrt, nodes, steps, mask_scale,
    HAS_MASK: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Compute `deg_inv_sqrt` of the nodes at some positions of `row_order`, for all steps at once."""
    node, first, last = load_rows(position, end, indptr, row_order)
    step = tl.arange(0, STEPS)
    total = tl.zeros((ROWS, ENTRIES, STEPS), tl.float32)
    for start in range(0, tl.max(last - first), ENTRIES):
        entry = first[:, None] + start + tl.arange(0, ENTRIES)[None, :]
        valid_entry = entry < last[:, None]
        weight = tl.load(weights + entry, mask=valid_entry, other=0.0)
        if HAS_MASK:
            number = tl.load(bits + entry, mask=valid_entry, other=0)
            total += tl.where(((number[:, :, None] >> step[None, None, :]) & 1) != 0, weight[:, :, None], 0.0)
        else:
            total += weight[:, :, None]
    valid = (position < end)[:, None] & (step < steps)[None, :]
    degree = tl.where(valid, mask_scale * tl.sum(total, axis=1), 1.0)
    tl.store(deg_inv_sqrt + step[None, :] * nodes + node[:, None], 1.0 / tl.sqrt(degree), mask=valid)
