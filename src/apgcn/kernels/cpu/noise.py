"""How does a processor read the tapes of `noise.Noise`? In one pass."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from apgcn.kernels.cpu.compiling import arrays_of, compiled
from apgcn.noise import GAMMA, MULTIPLIERS, SHIFTS

STEP = np.uint64(GAMMA)
FIRST, SECOND = (np.uint64(one) for one in MULTIPLIERS)
DOWN, FURTHER, LAST = (np.uint64(one) for one in SHIFTS)


def words(starts: Tensor, first: int, count: int) -> Tensor:
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
