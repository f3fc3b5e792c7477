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
        return cls(words, max(1, words.shape[1]), FAIR if coins.fair else BYTES, coins.dropped_bytes, coins.factor)


class Part(NamedTuple):
    """Rows that are alike in length, from `first` to before `last` in the schedule, and how programs share them."""

    first: int
    last: int
    sizes: dict[str, int]

    @property
    def programs(self) -> int:
        return triton.cdiv(self.last - self.first, self.sizes["ROWS"])


def parts_of(pattern: Pattern, channels: int, *, turned: bool = False) -> list[Part]:
    """All rows, or where there are few channels, the heavy ones and the others.

    A program has as many entries at a time as threads, so that each thread finds out about one.
    """
    csr = pattern.turned if turned else pattern.straight
    rows = len(csr.schedule)
    width = min(64, triton.next_power_of_2(channels))
    if width > 16:
        return [Part(0, rows, {"ROWS": 1, "ENTRIES": 32, "num_warps": 1, "CHANNELS": width})]
    heavy = Part(0, csr.heavy, {"ROWS": 1, "ENTRIES": 128, "num_warps": 4, "CHANNELS": width})
    light = Part(csr.heavy, rows, {"ROWS": max(4, 64 // width), "ENTRIES": 8, "num_warps": 1, "CHANNELS": width})
    return [part for part in (heavy, light) if part.first < part.last]


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
