"""CPU kernels of the random streams.

* `random_bits`: reference `apgcn.ops.rng.RandomStream.random_bits`, compared in `test_random_bits_match_reference`.
* `unpack_mask`: reference `apgcn.ops.rng.PackedMask.unpack`, compared in `test_spmm_matches_reference`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import kernel, to_numpy
from apgcn.ops.rng import GAMMA, MULTIPLIERS, SHIFTS, PackedMask

GAMMA_64 = np.uint64(GAMMA)
MULTIPLIER_1, MULTIPLIER_2 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
SHIFT_1, SHIFT_2, SHIFT_3 = (np.uint64(shift) for shift in SHIFTS)


def random_bits(starts: Tensor, first: int, count: int) -> Tensor:
    """Return numbers `first`, ..., `first + count - 1` of the streams with these starts.

    Shapes
    ------
    starts : (runs, 1)
    returned : int64, (runs, count)
    """
    bits = torch.empty(len(starts), count, dtype=torch.int64)
    starts_array, bits_array = (array.view(np.uint64) for array in to_numpy(starts, bits))
    _splitmix64(starts_array, np.uint64(first), bits_array)
    return bits


@kernel
def _splitmix64(starts, first, bits):
    for run in range(len(bits)):
        start, run_bits = starts[run, 0] + first * GAMMA_64, bits[run]
        for i in range(len(run_bits)):
            number = start + np.uint64(i) * GAMMA_64
            number = (number ^ (number >> SHIFT_1)) * MULTIPLIER_1
            number = (number ^ (number >> SHIFT_2)) * MULTIPLIER_2
            run_bits[i] = number ^ (number >> SHIFT_3)


def unpack_mask(mask: PackedMask) -> Tensor:
    """Return `mask.unpack()`, contiguous; bit-packed masks are unpacked in one pass."""
    if not mask.is_bit_packed:
        return mask.unpack().contiguous()
    unpacked = torch.empty(len(mask.bits), math.prod(mask.shape))
    _unpack_bits(*to_numpy(mask.bits.view(torch.int32), unpacked), np.float32(mask.scale))
    return unpacked.view(len(mask.bits), *mask.shape)


@kernel
def _unpack_bits(bits, unpacked, scale):
    """Fill `unpacked`: value number i is bit 30 - i // n of the 32-bit number i % n, n numbers per run."""
    stride = max(1, bits.shape[1])
    for run in range(len(bits)):
        run_bits, values = bits[run], unpacked[run]
        for start in range(0, len(values), stride):
            block, shift = values[start : start + stride], 30 - start // stride
            for i in range(len(block)):
                block[i] = scale * np.float32((run_bits[i] >> shift) & 1)
