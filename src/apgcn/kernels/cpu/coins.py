"""How does a processor unpack coins?"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from apgcn.kernels.cpu.compiling import arrays_of, compiled
from apgcn.noise import Coins


def factors(coins: Coins) -> Tensor:
    """`Coins.factors`, of fair coins in one pass; contiguous."""
    if not coins.fair:
        return coins.factors().contiguous()
    unpacked = torch.empty(len(coins.words), math.prod(coins.shape))
    _unpack(*arrays_of(coins.words.view(torch.int32), unpacked), np.float32(coins.factor))
    return unpacked.view(len(coins.words), *coins.shape)


@compiled
def _unpack(words, unpacked, factor):
    turn = max(1, words.shape[1])
    for run in range(len(words)):
        mine, into = words[run], unpacked[run]
        for start in range(0, len(into), turn):
            part, shift = into[start : start + turn], 30 - start // turn
            for place in range(len(part)):
                part[place] = factor * np.float32((mine[place] >> shift) & 1)
