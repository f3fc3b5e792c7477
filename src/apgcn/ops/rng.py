"""Counter-based random streams: the random numbers of a run depend on its seed alone.

Number i of the stream with start s is `mix(s + i * GAMMA)`, the SplitMix64 generator of Steele, Lea and Flood (2014):
any part of a stream can be computed at once, on any device, whatever other runs are in the batch. Epoch e reads from
number e * 2^32 on; epoch 0 draws the initial weights. Pass s of an epoch (`repeat`) reads from number s * 2^56 further.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from apgcn.ops.dispatch import kernels_for_device

GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
EPOCH_STRIDE = 2**32  # 64-bit numbers between the first ones of two consecutive epochs
PASS_STRIDE = 2**56  # between those of two passes, more than all epochs read
TWO_FLOATS = 0x4000000040000000  # the float32 2.0, which has bit 30 set alone, in each half of a 64-bit number


def derive_seed(*keys: object) -> int:
    """Return a 64-bit seed that depends on all keys."""
    text = "/".join(str(key) for key in keys)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class RandomStream:
    """The random streams of a batch of runs, read side by side.

    Parameters
    ----------
    seeds : sequence of int
        One 64-bit seed per run, see `derive_seed`.
    device : torch.device or str

    Examples
    --------
    >>> together, alone = RandomStream([7, 8]), RandomStream([8])
    >>> bool((together.uniform(3)[1] == alone.uniform(3)[0]).all())
    True
    """

    def __init__(self, seeds: Sequence[int], *, device: torch.device | str = "cpu"):
        self._starts = torch.tensor([_as_int64(seed) for seed in seeds], device=device)[:, None]  # (runs, 1)
        self._epoch_starts = self._starts.clone()
        self._offsets = self._starts.new_empty(0)  # 0, GAMMA, 2 GAMMA, ...
        self._position = 0  # numbers of the present epoch that were read

    @property
    def runs(self) -> int:
        return len(self._starts)

    @property
    def device(self) -> torch.device:
        return self._starts.device

    def seek(self, epoch: int) -> None:
        """Move to the start of an epoch."""
        torch.add(self._starts, _as_int64(epoch * EPOCH_STRIDE * GAMMA), out=self._epoch_starts)
        self._position = 0

    def rewind(self) -> None:
        """Move back to the start of the present epoch."""
        self._position = 0

    def select(self, runs: Tensor) -> None:
        """Keep the streams of some runs only, given by their positions in the batch."""
        self._starts, self._epoch_starts = self._starts[runs], self._epoch_starts[runs]

    def repeat(self, passes: int) -> RandomStream:
        """Streams for several passes of every run through a model, at the start of the present epoch.

        The passes of a run follow one another; the first is the stream of the run.
        """
        strides = torch.arange(passes, device=self.device) * _as_int64(PASS_STRIDE * GAMMA)
        stream = copy(self)
        stream._starts = (self._starts + strides).reshape(-1, 1)
        stream._epoch_starts = (self._epoch_starts + strides).reshape(-1, 1)
        stream._position = 0
        return stream

    def random_bits(self, count: int) -> Tensor:
        """Draw `count` random 64-bit numbers per run, as an int64 tensor of shape (runs, count)."""
        first, self._position = self._position, self._position + count
        if kernels := kernels_for_device(self.device):
            return kernels.random_bits(self._epoch_starts, first, count)
        if len(self._offsets) < count:
            self._offsets = torch.arange(count, device=self.device) * _as_int64(GAMMA)
        return _mix(self._epoch_starts + _as_int64(first * GAMMA) + self._offsets[:count])

    def uniform(self, *shape: int) -> Tensor:
        """Draw from [0, 1), in multiples of 2^-24; shape (runs, *shape)."""
        bits = self.random_bits(math.prod(shape))
        return ((bits >> 40) & 0xFFFFFF).float().mul_(2.0**-24).view(self.runs, *shape)

    def dropout_mask(self, *shape: int, rate: float) -> Tensor:
        """Draw a dropout mask: 0 with probability `rate`, else 1 / (1 - rate); shape (runs, *shape)."""
        return self.packed_dropout_mask(*shape, rate=rate).unpack()

    def packed_dropout_mask(self, *shape: int, rate: float) -> PackedMask:
        """Draw the same mask as `dropout_mask`, in packed form."""
        values_per_number = 62 if rate == 0.5 else 8
        return PackedMask(self.random_bits(-(-math.prod(shape) // values_per_number)), shape, rate)


@dataclass(frozen=True, eq=False)
class PackedMask:
    """A dropout mask in packed form: one bit per value at rate 0.5, one byte at other rates.

    Other rates are therefore rounded to multiples of 1/256, and the scale with them.

    Attributes
    ----------
    bits : int64 Tensor of shape (runs, numbers)
        The random numbers as drawn.
    shape : tuple of int
        Shape of the mask of one run.
    rate : float
        Dropout probability.
    """

    bits: Tensor
    shape: tuple[int, ...]
    rate: float

    @property
    def is_bit_packed(self) -> bool:
        """Whether a value takes one bit, which is so at rate 0.5."""
        return self.rate == 0.5

    @property
    def drop_threshold(self) -> int:
        """Smallest random byte, from 0 to 255, with which a value is kept."""
        return _drop_threshold(self.rate)

    @property
    def scale(self) -> float:
        """Factor for the values that are kept, see `dropout_scale`."""
        return dropout_scale(self.rate)

    def unpack(self) -> Tensor:
        """Return the mask as float32, 0 or `scale`, of shape (runs, *shape).

        At rate 0.5: 2.0 is the float with bit 30 alone, so 31 shifts of a 64-bit number, each masked with that bit of
        both its halves, are 62 such floats, without comparison or conversion.
        """
        count = math.prod(self.shape)
        if self.is_bit_packed:
            shifts = torch.arange(31, device=self.bits.device)[:, None]
            floats = ((self.bits[:, None, :] << shifts) & TWO_FLOATS).view(torch.float32)  # (runs, 31, 2 numbers)
            mask = floats.view(len(floats), -1)[:, :count]
        else:
            random_bytes = self.bits.view(torch.uint8)[:, :count]
            mask = (random_bytes >= self.drop_threshold).float().mul_(self.scale)
        return mask.view(len(self.bits), *self.shape)


def dropout_scale(rate: float) -> float:
    """Return the factor that dropout gives the values it keeps: 1 / (1 - rate), with the rate rounded to 1/256.

    It leaves the expectation unchanged.
    """
    return 256 / (256 - _drop_threshold(rate))


def _drop_threshold(rate: float) -> int:
    """Smallest random byte with which dropout keeps a value; the rate times 256, rounded, at most 255."""
    return min(round(rate * 256), 255)


def _mix(bits: Tensor) -> Tensor:
    """Apply SplitMix64's output function; `>>` on int64 copies the sign bit, so the copies are masked out."""
    *shifts, last = SHIFTS
    for shift, multiplier in zip(shifts, MULTIPLIERS, strict=True):
        bits = (bits ^ ((bits >> shift) & (2 ** (64 - shift) - 1))) * _as_int64(multiplier)
    return bits ^ ((bits >> last) & (2 ** (64 - last) - 1))


def _as_int64(number: int) -> int:
    """Reinterpret the low 64 bits of a number as a signed integer."""
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number
