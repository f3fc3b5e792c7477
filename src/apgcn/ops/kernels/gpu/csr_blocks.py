"""Which rows of a sparse matrix does a program of a GPU take, and what does it find there? What all loops begin with.

A block of rows is handled at once, some entries of each at a time. What the next entries are is asked before what the
present ones point to, because an answer takes long and many can be under way. Entries that were dropped are not
fetched.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import Csr

NONE, FAIR, BYTES = 0, 1, 2  # how coins are packed


class Tossed(NamedTuple):
    """Coins as a kernel reads them."""

    words: Tensor
    per_run: int  # how many there are of each run
    kind: int
    dropped: int
    factor: float

    @classmethod
    def of(cls, mask: PackedMask | None, like: Tensor) -> Tossed:
        if mask is None:
            return cls(like, 0, NONE, 0, 1.0)
        words = mask.words.view(torch.int32 if mask.fair else torch.uint8)
        return cls(words, max(1, words.shape[1]), FAIR if mask.fair else BYTES, mask.dropped_bytes, mask.factor)


class Shares(NamedTuple):
    """How the warps of a GPU share the rows: the heavy ones, which come first in the schedule, one each; others, ROWS.

    A warp has at least as many entries at a time as threads, so that each thread finds out about one.
    """

    heavy: int
    programs: int
    sizes: dict[str, int]

    @classmethod
    def of(cls, rows: Csr, channels: int) -> Shares:
        width = min(64, triton.next_power_of_2(channels))
        if width > 16:
            return cls(len(rows.schedule), len(rows.schedule), {"CHANNELS": width, "ROWS": 1, "ENTRIES": 32})
        many = 128 // width
        sizes = {"CHANNELS": width, "ROWS": many, "ENTRIES": 8 if width <= 4 else 4}
        return cls(rows.heavy, rows.heavy + triton.cdiv(len(rows.schedule) - rows.heavy, many), sizes)


@triton.jit
def tossed(words, per_run, run, place, wanted, KIND: tl.constexpr, dropped):
    """Whether the coin number `place` says to keep; not where it is not wanted."""
    if KIND == 1:
        turn = place // per_run
        word = tl.load(words + run.to(tl.int64) * per_run + (place - turn * per_run), mask=wanted, other=0)
        return ((word >> (30 - turn)) & 1) != 0
    else:
        return tl.load(words + run.to(tl.int64) * per_run + place, mask=wanted, other=0).to(tl.int32) >= dropped


@triton.jit
def rows_at(number, end, pointers, schedule):
    """The rows at some places of the schedule, where their entries begin and where they end."""
    row = tl.load(schedule + number, mask=number < end, other=0)
    first = tl.load(pointers + row, mask=number < end, other=0)
    return row, first, tl.load(pointers + row + 1, mask=number < end, other=0)
