"""GPU kernel of the random streams: all runs in one launch.

The reference is `apgcn.ops.rng.RandomStream.random_bits`, compared in `test_random_bits_match_reference`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.rng import GAMMA, MULTIPLIERS, SHIFTS

BLOCK = 1024  # 64-bit numbers per program


def random_bits(starts: Tensor, first: int, count: int) -> Tensor:
    """Return numbers `first`, ..., `first + count - 1` of the streams with these starts.

    Shapes
    ------
    starts : (runs, 1)
    returned : int64, (runs, count)
    """
    bits = torch.empty(len(starts), count, dtype=torch.int64, device=starts.device)
    if count:
        _splitmix64[triton.cdiv(count, BLOCK), len(starts)](
            starts, first, bits, count,
            BLOCK=BLOCK, GAMMA=GAMMA, MULTIPLIER_1=MULTIPLIERS[0], MULTIPLIER_2=MULTIPLIERS[1],
            SHIFT_1=SHIFTS[0], SHIFT_2=SHIFTS[1], SHIFT_3=SHIFTS[2],
        )  # fmt: skip
    return bits


@triton.jit(do_not_specialize=["first", "count"])
def _splitmix64(
    starts, first, bits, count,
    BLOCK: tl.constexpr, GAMMA: tl.constexpr, MULTIPLIER_1: tl.constexpr, MULTIPLIER_2: tl.constexpr,
    SHIFT_1: tl.constexpr, SHIFT_2: tl.constexpr, SHIFT_3: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(starts + run).to(tl.uint64, bitcast=True)
    number = start + (first + i).to(tl.uint64) * GAMMA
    number = (number ^ (number >> SHIFT_1)) * MULTIPLIER_1
    number = (number ^ (number >> SHIFT_2)) * MULTIPLIER_2
    number = number ^ (number >> SHIFT_3)
    tl.store(bits + run.to(tl.int64) * count + i, number.to(tl.int64, bitcast=True), mask=i < count)
