"""How does a processor read the tapes of `rng.RandomStream`? In one pass."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import arrays_of, compiled
from apgcn.ops.rng import GAMMA, MULTIPLIERS, SHIFTS, PackedMask

STEP = np.uint64(GAMMA)
FIRST, SECOND = (np.uint64(one) for one in MULTIPLIERS)
DOWN, FURTHER, LAST = (np.uint64(one) for one in SHIFTS)


def random_bits(starts: Tensor, first: int, count: int) -> Tensor:
    """Words number `first` and the `count` - 1 after it of the tapes that start at `starts` (runs, 1)."""
    drawn = torch.empty(len(starts), count, dtype=torch.int64)
    tapes, into = (one.view(np.uint64) for one in arrays_of(starts, drawn))
    _read(tapes, np.uint64(first), into)
    return drawn


@compiled
def _read(starts, first, drawn):
    for run in range(len(drawn)):
        start, mine = starts[run, 0] + first * STEP, drawn[run]
        for place in range(len(mine)):
            word = start + np.uint64(place) * STEP
            word = (word ^ (word >> DOWN)) * FIRST
            word = (word ^ (word >> FURTHER)) * SECOND
            mine[place] = word ^ (word >> LAST)


def factors(mask: PackedMask) -> Tensor:
    """`PackedMask.factors`, of fair coins in one pass; contiguous."""
    if not mask.fair:
        return mask.factors().contiguous()
    unpacked = torch.empty(len(mask.words), math.prod(mask.shape))
    _unpack(*arrays_of(mask.words.view(torch.int32), unpacked), np.float32(mask.factor))
    return unpacked.view(len(mask.words), *mask.shape)


@compiled
def _unpack(words, unpacked, factor):
    turn = max(1, words.shape[1])
    for run in range(len(words)):
        mine, into = words[run], unpacked[run]
        for start in range(0, len(into), turn):
            part, shift = into[start : start + turn], 30 - start // turn
            for place in range(len(part)):
                part[place] = factor * np.float32((mine[place] >> shift) & 1)
