"""Division of a sparse matrix' rows among GPU programs, and reading of packed masks.

A program handles a block of rows at once, some entries of each at a time. It loads the indices of the next entries
before the rows to which the present ones point, because memory has a long latency and serves many requests at a time.
Rows of dropped entries are not loaded.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRIndex

NO_MASK, BIT_MASK, BYTE_MASK = 0, 1, 2  # how a mask is packed


class MaskArguments(NamedTuple):
    """A packed mask as kernel arguments.

    Attributes
    ----------
    bits : Tensor of shape (runs, stride)
        32-bit numbers of a bit mask, or bytes; any tensor where there is no mask.
    stride : int
        Elements of `bits` per run.
    kind : int
        `NO_MASK`, `BIT_MASK` or `BYTE_MASK`.
    dropped_bytes : int
        Smallest random byte with which a value is kept.
    scale : float
        Factor for the values that are kept.
    """

    bits: Tensor
    stride: int
    kind: int
    drop_threshold: int
    scale: float

    @classmethod
    def from_mask(cls, mask: PackedMask | None, placeholder: Tensor) -> MaskArguments:
        """Convert a mask; without one, the kernel gets `placeholder` as its bits."""
        if mask is None:
            return cls(placeholder, 0, NO_MASK, 0, 1.0)
        bits = mask.bits.view(torch.int32 if mask.is_bit_packed else torch.uint8)
        kind = BIT_MASK if mask.is_bit_packed else BYTE_MASK
        return cls(bits, max(1, bits.shape[1]), kind, mask.drop_threshold, mask.scale)


class RowBlocks(NamedTuple):
    """Blocks of rows for programs of one warp each.

    A long row is a block of its own; of the other rows, ROWS form a block. A warp loads at least as many entries at a
    time as it has threads.

    Attributes
    ----------
    long_rows : int
        How many rows, the first ones of `CSRIndex.row_order`, are blocks of their own.
    blocks : int
    sizes : dict
        The kernels' constants CHANNELS, ROWS and ENTRIES: channels, rows and entries per row that a program handles at
        a time.
    """

    long_rows: int
    blocks: int
    sizes: dict[str, int]

    @classmethod
    def from_csr(cls, csr: CSRIndex, channels: int) -> RowBlocks:
        num_rows = len(csr.row_order)
        width = min(64, triton.next_power_of_2(channels))
        if width > 16:
            return cls(num_rows, num_rows, {"CHANNELS": width, "ROWS": 1, "ENTRIES": 32})
        rows = 128 // width
        sizes = {"CHANNELS": width, "ROWS": rows, "ENTRIES": 8 if width <= 4 else 4}
        return cls(csr.long_rows, csr.long_rows + triton.cdiv(num_rows - csr.long_rows, rows), sizes)


@triton.jit
def is_kept(bits, stride, run, position, valid, KIND: tl.constexpr, drop_threshold):
    """Whether a mask keeps the values at these positions; meaningless where not `valid`."""
    if KIND == 1:  # BIT_MASK
        shift = position // stride
        number = tl.load(bits + run.to(tl.int64) * stride + (position - shift * stride), mask=valid, other=0)
        return ((number >> (30 - shift)) & 1) != 0
    else:
        return tl.load(bits + run.to(tl.int64) * stride + position, mask=valid, other=0).to(tl.int32) >= drop_threshold


@triton.jit
def load_rows(position, end, indptr, row_order):
    """The rows at some positions of `row_order`, and where their entries begin and end."""
    row = tl.load(row_order + position, mask=position < end, other=0)
    first = tl.load(indptr + row, mask=position < end, other=0)
    return row, first, tl.load(indptr + row + 1, mask=position < end, other=0)
