"""CPU kernels of the random streams and of dropout masks.

* `random_bits`: reference `apgcn.ops.rng.RandomStream.random_bits`, compared in `test_random_bits_match_reference`.
* `unpack_mask`: reference `apgcn.ops.rng.PackedMask.unpack`, compared in `test_spmm_matches_reference`.
* `fill_mask`, `collect_bits`: the same for a part of a mask, for the kernels that apply dropout as they go.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ZERO, kernel_helper, to_numpy
from apgcn.ops.kernels.cpu.parallel import choose_threads, parallel_kernel, thread_range
from apgcn.ops.rng import GAMMA, MULTIPLIERS, SHIFTS, PackedMask

GAMMA_64 = np.uint64(GAMMA)
MULTIPLIER_1, MULTIPLIER_2 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
SHIFT_1, SHIFT_2, SHIFT_3 = (np.uint64(shift) for shift in SHIFTS)

NO_MASK, BIT_MASK, BYTE_MASK = 0, 1, 2  # how a mask is packed
MaskArrays = tuple[int, np.ndarray, np.ndarray, np.uint8, np.float32]


def random_bits(starts: Tensor, first: int, count: int) -> Tensor:
    """Return numbers `first`, ..., `first + count - 1` of the streams with these starts.

    Shapes
    ------
    starts : (runs, 1)
    returned : int64, (runs, count)
    """
    bits = torch.empty(len(starts), count, dtype=torch.int64)
    starts_array, bits_array = (array.view(np.uint64) for array in to_numpy(starts, bits))
    _splitmix64(choose_threads(bits.numel()), starts_array, np.uint64(first), bits_array)
    return bits


@parallel_kernel
def _splitmix64(starts, first, bits, thread, threads, sync):
    begin, end = thread_range(bits.shape[1], thread, threads)
    for run in range(len(bits)):
        start, run_bits = starts[run, 0] + first * GAMMA_64, bits[run]
        for i in range(begin, end):
            number = start + np.uint64(i) * GAMMA_64
            number = (number ^ (number >> SHIFT_1)) * MULTIPLIER_1
            number = (number ^ (number >> SHIFT_2)) * MULTIPLIER_2
            run_bits[i] = number ^ (number >> SHIFT_3)


def mask_arrays(mask: PackedMask | None, runs: int) -> MaskArrays:
    """A mask as the arguments of `fill_mask` and `collect_bits`.

    They are how it is packed; its random numbers as 32-bit numbers and as bytes, each (runs, numbers); the smallest
    byte with which a value is kept; and the factor of the values that are kept.
    """
    if mask is None:
        return NO_MASK, np.zeros((runs, 1), np.uint32), np.zeros((runs, 1), np.uint8), np.uint8(0), np.float32(1)
    numbers = mask.bits.numpy()
    kind = BIT_MASK if mask.is_bit_packed else BYTE_MASK
    return kind, numbers.view(np.uint32), numbers.view(np.uint8), np.uint8(mask.drop_threshold), np.float32(mask.scale)


@kernel_helper
def fill_mask(kind, numbers, random_bytes, threshold, scale, first, last, values):
    """Set values[: last - first] to the values of a run's mask at positions first, ..., last - 1.

    In a bit mask value number i is bit 30 - i // n of the 32-bit number i % n, of n numbers.
    """
    if kind == NO_MASK:
        for i in range(last - first):
            values[np.uint64(i)] = scale
    elif kind == BYTE_MASK:
        for i in range(last - first):
            values[np.uint64(i)] = scale if random_bytes[np.uint64(first + i)] >= threshold else ZERO
    else:
        stride, position = len(numbers), first
        while position < last:
            quotient = position // stride
            end, shift, start = min(last, (quotient + 1) * stride), np.uint32(30 - quotient), quotient * stride
            for i in range(position, end):
                bit = (numbers[np.uint64(i - start)] >> shift) & np.uint32(1)
                values[np.uint64(i - first)] = scale * np.float32(np.int32(bit))
            position = end


@kernel_helper
def collect_bits(kind, numbers, random_bytes, threshold, offset, first, last, bit, bits):
    """Set bit number `bit` of bits[i], for first <= i < last, where a run's mask keeps the value at offset + i.

    The bit must be unset before.
    """
    if kind == BYTE_MASK:
        for i in range(first, last):
            bits[np.uint64(i)] |= np.uint32(random_bytes[np.uint64(offset + i)] >= threshold) << bit
        return
    stride, position = len(numbers), first
    while position < last:
        quotient = (offset + position) // stride
        start = quotient * stride - offset
        end, shift = min(last, start + stride), np.uint32(30 - quotient)
        for i in range(position, end):
            bits[np.uint64(i)] |= ((numbers[np.uint64(i - start)] >> shift) & np.uint32(1)) << bit
        position = end


def unpack_mask(mask: PackedMask) -> Tensor:
    """Return `mask.unpack()`, contiguous."""
    unpacked = torch.empty(len(mask.bits), math.prod(mask.shape))
    _unpack_mask(choose_threads(unpacked.numel() / 4), *mask_arrays(mask, len(unpacked)), *to_numpy(unpacked))
    return unpacked.view(len(mask.bits), *mask.shape)


@parallel_kernel
def _unpack_mask(kind, numbers, random_bytes, threshold, scale, unpacked, thread, threads, sync):
    first, last = thread_range(unpacked.shape[1], thread, threads)
    for run in range(len(unpacked)):
        values = unpacked[run, first:last]
        fill_mask(kind, numbers[run], random_bytes[run], threshold, scale, first, last, values)
