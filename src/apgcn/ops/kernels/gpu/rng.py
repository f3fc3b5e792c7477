"""How does a GPU read the tapes of `rng.RandomStream`? In one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.rng import GAMMA, MULTIPLIERS, SHIFTS

BLOCK = 1024  # words that a program reads


def random_bits(starts: Tensor, first: int, count: int) -> Tensor:
    """Words number `first` and the `count` - 1 after it of the tapes that start at `starts` (runs, 1)."""
    drawn = torch.empty(len(starts), count, dtype=torch.int64, device=starts.device)
    if count:
        _read[triton.cdiv(count, BLOCK), len(starts)](
            starts, first, drawn, count,
            BLOCK=BLOCK, GAMMA=GAMMA, FIRST=MULTIPLIERS[0], SECOND=MULTIPLIERS[1],
            DOWN=SHIFTS[0], FURTHER=SHIFTS[1], LAST=SHIFTS[2],
        )  # fmt: skip
    return drawn


@triton.jit(do_not_specialize=["first", "count"])
def _read(
    starts, first, drawn, count,
    BLOCK: tl.constexpr, GAMMA: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    DOWN: tl.constexpr, FURTHER: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(starts + run).to(tl.uint64, bitcast=True)
    word = start + (first + place).to(tl.uint64) * GAMMA
    word = (word ^ (word >> DOWN)) * FIRST
    word = (word ^ (word >> FURTHER)) * SECOND
    word = word ^ (word >> LAST)
    tl.store(drawn + run.to(tl.int64) * count + place, word.to(tl.int64, bitcast=True), mask=place < count)
