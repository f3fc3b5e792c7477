"""What are the entries of a few rows of a sparse matrix, after dropout? What all loops of a GPU begin with.

A block of rows is handled at once, some entries of each at a time. Entries that were dropped are not fetched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.noise import Coins
from apgcn.pattern import Pattern

NONE, FAIR, BYTES = 0, 1, 2  # how coins are packed


class Tossed(NamedTuple):
    """Coins as a kernel reads them."""

    words: Tensor
    per_run: int  # how many there are of each run
    kind: int
    dropped: int
    factor: float

    @classmethod
    def of(cls, coins: Coins | None, like: Tensor) -> Tossed:
        if coins is None:
            return cls(like, 0, NONE, 0, 1.0)
        words = coins.words.view(torch.int32 if coins.fair else torch.uint8)
        return cls(words, words.shape[1], FAIR if coins.fair else BYTES, coins.dropped_bytes, coins.factor)


def rows_of(pattern: Pattern, *, turned: bool = False) -> tuple[Any, ...]:
    """Pointers, columns, the rows with the longest first, and where each entry's value is (the columns if in order)."""
    csr = pattern.turned if turned else pattern.straight
    return *csr, pattern.order if turned else csr.columns


def block_sizes(channels: int) -> dict[str, int]:
    """How many rows, entries of each and channels a program handles at a time, and with how many warps."""
    width = min(64, triton.next_power_of_2(channels))
    if width >= 32:
        return {"ROWS": 1, "ENTRIES": 16, "CHANNELS": width, "num_warps": 2}
    return {"ROWS": 64 // width, "ENTRIES": 8, "CHANNELS": width, "num_warps": 2}


@triton.jit
def tossed(words, per_run, run, place, wanted, KIND: tl.constexpr, dropped):
    """1 where the coin number `place` says to keep, 0 where it says to drop or is not wanted."""
    if KIND == 1:
        turn = place // per_run
        word = tl.load(words + run.to(tl.int64) * per_run + (place - turn * per_run), mask=wanted, other=0)
        return (word >> (30 - turn)) & 1
    else:
        drawn = tl.load(words + run.to(tl.int64) * per_run + place, mask=wanted, other=0)
        return (drawn.to(tl.int32) >= dropped).to(tl.int32)


@triton.jit
def entry_weights(
    entry, there, columns, order, values, always, words, per_run, dropped, factor, run, coin_start,
    TURNED: tl.constexpr, KIND: tl.constexpr, LOOPS: tl.constexpr,
):  # fmt: skip
    """The columns of some entries, their values after dropout, and which of them are left."""
    column = tl.load(columns + entry, mask=there, other=0)
    place = tl.load(order + entry, mask=there, other=0) if TURNED else entry
    left = there
    if KIND != 0:
        kept = tossed(words, per_run, run, coin_start + place, there, KIND, dropped) != 0
        if LOOPS:
            kept = kept | (tl.load(always + place, mask=there, other=0.0) != 0.0)
        left = there & kept
    value = tl.load(values + place, mask=left, other=0.0) * factor
    return column, value, left
