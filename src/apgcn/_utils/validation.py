"""Is a value what it must be? Checks for the door, each with its sentence."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from apgcn.errors import InvalidInput

MOST = 2**31 - 1

Settings = TypeVar("Settings", bound=Any)


def check_int(name: str, value: Any, *, least: int = 1, most: int = MOST) -> None:
    """A whole number between two bounds."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}.")
    if value < least:
        raise InvalidInput(f"{name} must be >= {least}, got {_short(value)}.")
    if value > most:
        raise InvalidInput(f"{name} must be <= {most}, got {_short(value)}.")


def check_number(name: str, value: Any, *, positive: bool = False) -> None:
    """A finite number >= 0, or > 0."""
    _check_real(name, value)
    if not _is_finite(value):
        raise InvalidInput(f"{name} must be finite, got {_short(value)}.")
    if value < 0 or (positive and value == 0):
        raise InvalidInput(f"{name} must be {'>' if positive else '>='} 0, got {_short(value)}.")


def check_fraction(name: str, value: Any) -> None:
    """A number from [0, 1)."""
    _check_real(name, value)
    if not 0 <= value < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {_short(value)}.")


def check_bool(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {value!r}.")


def as_nodes(nodes: Any, *, count: int) -> np.ndarray:
    """Numbers of some of so many nodes, each once."""
    numbers = np.asarray(nodes)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise InvalidInput(
            f"nodes must be a list of whole numbers, got {numbers.dtype} of shape {numbers.shape}; try np.flatnonzero."
        )
    numbers = numbers.astype(np.int64)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        worst = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InvalidInput(f"nodes must be numbers from 0 to {count - 1}, got {worst}.")
    named = np.zeros(count, dtype=bool)
    named[numbers] = True
    if named.sum() < len(numbers):
        raise InvalidInput("every node must be asked for once, but some are named twice.")
    return numbers


def _check_real(name: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a number, got {value!r}.")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return False


def as_plain(settings: Settings) -> Settings:
    """The same settings with Python's own numbers, where those of numpy or another library were given."""
    return replace(settings, **{name: plain(value) for name, value in vars(settings).items()})


def plain(value: Any) -> Any:
    """A number of numpy or of another library as Python's; anything else as it is."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, int | np.integer) and abs(value) <= MOST else float(value)


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"a number of {int(math.log10(abs(value))) + 1} digits"  # Python does not print very long ones
    return str(value)
