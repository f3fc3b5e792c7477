"""Checks of arguments, each with a message that states what must hold and what was given."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from apgcn.errors import InvalidInput

MAX_INT32 = 2**31 - 1

Config = TypeVar("Config", bound=Any)


def check_int(name: str, value: Any, *, minimum: int = 1, maximum: int = MAX_INT32) -> None:
    """Check that a value is an integer between two bounds, both included."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be an integer, got {value!r}.")
    if value < minimum:
        raise InvalidInput(f"{name} must be >= {minimum}, got {_short(value)}.")
    if value > maximum:
        raise InvalidInput(f"{name} must be <= {maximum}, got {_short(value)}.")


def check_number(name: str, value: Any, *, positive: bool = False) -> None:
    """Check that a value is a finite number >= 0, or > 0 if `positive`."""
    _check_real(name, value)
    if not _is_finite(value):
        raise InvalidInput(f"{name} must be finite, got {_short(value)}.")
    if value < 0 or (positive and value == 0):
        raise InvalidInput(f"{name} must be {'>' if positive else '>='} 0, got {_short(value)}.")


def check_fraction(name: str, value: Any) -> None:
    """Check that a value is a number in [0, 1)."""
    _check_real(name, value)
    if not 0 <= value < 1:
        raise InvalidInput(f"{name} must be in [0, 1), got {_short(value)}.")


def check_bool(name: str, value: Any) -> None:
    """Check that a value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {value!r}.")


def as_node_indices(nodes: Any, *, num_nodes: int) -> np.ndarray:
    """Check that `nodes` are distinct node indices of a graph with `num_nodes` nodes, and return them as int64."""
    indices = np.asarray(nodes)
    if indices.ndim != 1 or (indices.dtype.kind not in "iu" and indices.size):
        raise InvalidInput(
            f"nodes must be a list of integers, got {indices.dtype} of shape {indices.shape}; try np.flatnonzero."
        )
    indices = indices.astype(np.int64)
    if len(indices) and not 0 <= indices.min() <= indices.max() < num_nodes:
        out_of_range = indices.min() if indices.min() < 0 else indices.max()
        raise InvalidInput(f"nodes must be numbers from 0 to {num_nodes - 1}, got {out_of_range}.")
    seen = np.zeros(num_nodes, dtype=bool)
    seen[indices] = True
    if seen.sum() < len(indices):
        raise InvalidInput("nodes must be distinct, but some are named twice.")
    return indices


def _check_real(name: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a number, got {value!r}.")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of a float
        return False


def config_to_python(config: Config) -> Config:
    """Return the same config with Python numbers in place of those of numpy or another library."""
    return replace(config, **{name: to_python(value) for name, value in vars(config).items()})


def to_python(value: Any) -> Any:
    """Convert a bool or number of numpy or another library to Python's; return anything else unchanged."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, int | np.integer) and abs(value) <= MAX_INT32 else float(value)


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"a number of {int(math.log10(abs(value))) + 1} digits"  # Python does not print very long ones
    return str(value)
