"""Where does a run's randomness come from? From a tape of its own, which only its key decides.

Word number i of the tape that starts at s is `mix(s + i * GAMMA)`, the SplitMix64 generator of Steele, Lea and Flood
(2014): any stretch of it can be computed at once, on any device, whatever other runs are in the pack. Epoch e reads
from word e * 2^32 on; epoch 0 is the initial weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from apgcn.ops.dispatch import kernels_for_device

GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
WORDS_PER_EPOCH = 2**32
TWO_FLOATS = 0x4000000040000000  # two float32 side by side, each with bit 30 alone: 2.0


def derive_seed(*parts: object) -> int:
    """64 bits that depend on all parts: the start of a tape."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class RandomStream:
    """The tapes of a pack of runs, read side by side.

    Parameters
    ----------
    seeds : sequence of int
        One start per run, see `derive_seed`.

    Examples
    --------
    >>> together, alone = RandomStream([7, 8]), RandomStream([8])
    >>> bool((together.uniform(3)[1] == alone.uniform(3)[0]).all())
    True
    """

    def __init__(self, z0: Sequence[int], *, device: torch.device | str = "cpu"):
        self._starts = torch.tensor([_signed(seed) for seed in z0], device=device)[:, None]  # (runs, 1)
        self._epoch = self._starts.clone()  # where the present epoch begins
        self._ramp = self._starts.new_empty(0)
        self._position = 0  # how many words of the epoch were read

    @property
    def runs(self) -> int:
        return len(self._starts)

    @property
    def device(self) -> torch.device:
        return self._starts.device

    def seek(self, epoch: int) -> None:
        """Go to where an epoch begins."""
        torch.add(self._starts, _signed(epoch * WORDS_PER_EPOCH * GAMMA), out=self._epoch)
        self._position = 0

    def rewind(self) -> None:
        """Go back to where the present epoch begins."""
        self._position = 0

    def select(self, runs: Tensor) -> None:
        """Go on with some of the runs, given by their positions in the pack."""
        self._starts, self._epoch = self._starts[runs], self._epoch[runs]

    def random_bits(self, count: int) -> Tensor:
        """The next random 64-bit words, of shape (runs, count)."""
        first, self._position = self._position, self._position + count
        if kernels := kernels_for_device(self.device):
            return kernels.random_bits(self._epoch, first, count)
        if len(self._ramp) < count:
            self._ramp = torch.arange(count, device=self.device) * _signed(GAMMA)
        return _mix(self._epoch + _signed(first * GAMMA) + self._ramp[:count])

    def uniform(self, *shape: int) -> Tensor:
        """Numbers from [0, 1), multiples of 2^-24, of shape (runs, *shape)."""
        words = self.random_bits(math.prod(shape))
        return ((words >> 40) & 0xFFFFFF).float().mul_(2.0**-24).view(self.runs, *shape)

    def dropout_mask(self, *shape: int, rate: float) -> Tensor:
        """What dropout multiplies with: 0 with probability `rate`, else 1 / (1 - rate); shape (runs, *shape)."""
        return self.packed_dropout_mask(*shape, rate=rate).factors()

    def packed_dropout_mask(self, *shape: int, rate: float) -> PackedMask:
        """The same, not yet unpacked."""
        per_word = 62 if rate == 0.5 else 8
        return PackedMask(self.random_bits(-(-math.prod(shape) // per_word)), shape, rate)


@dataclass(frozen=True, eq=False)
class PackedMask:
    """Which values a dropout keeps, packed as they were drawn.

    A fair coin costs one bit, any other one byte: other rates are rounded to multiples of 1/256, and the factor with
    them.

    Attributes
    ----------
    words : Tensor of shape (runs, words)
    shape : what each run tosses for
    rate : how often a value is dropped
    """

    words: Tensor
    shape: tuple[int, ...]
    rate: float

    @property
    def fair(self) -> bool:
        return self.rate == 0.5

    @property
    def dropped_bytes(self) -> int:
        """How many of the 256 bytes mean: drop."""
        return _dropped_bytes(self.rate)

    @property
    def factor(self) -> float:
        """What the values that stay are multiplied with."""
        return dropout_scale(self.rate)

    def factors(self) -> Tensor:
        """0 or the factor, of shape (runs, *shape).

        Of fair coins: 2.0 is the float with bit 30 alone, so 31 shifts of a random word, each masked with that bit of
        both its halves, are 62 such floats: no comparison, no conversion.
        """
        count = math.prod(self.shape)
        if self.fair:
            shifts = torch.arange(31, device=self.words.device)[:, None]
            floats = ((self.words[:, None, :] << shifts) & TWO_FLOATS).view(torch.float32)  # (runs, 31, 2 words)
            kept = floats.view(len(floats), -1)[:, :count]
        else:
            drawn = self.words.view(torch.uint8)[:, :count]
            kept = (drawn >= self.dropped_bytes).float().mul_(self.factor)
        return kept.view(len(self.words), *self.shape)


def dropout_scale(rate: float) -> float:
    """What `RandomStream.keep` gives the values that stay, so that the expectation stays: 1 / (1 - rate), rate as rounded."""
    return 256 / (256 - _dropped_bytes(rate))


def _dropped_bytes(rate: float) -> int:
    """How many of the 256 bytes mean: drop. Never all of them."""
    return min(round(rate * 256), 255)


def _mix(words: Tensor) -> Tensor:
    """Spread every bit of a word over all of them; `>>` on signed words, so the copies of the sign are masked."""
    *shifts, last = SHIFTS
    for shift, multiplier in zip(shifts, MULTIPLIERS, strict=True):
        words = (words ^ ((words >> shift) & (2 ** (64 - shift) - 1))) * _signed(multiplier)
    return words ^ ((words >> last) & (2 ** (64 - last) - 1))


def _signed(word: int) -> int:
    """The same 64 bits as a signed number."""
    word %= 2**64
    return word - 2**64 if word >= 2**63 else word
