"""How does numba compile here, and what does it get?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from torch import Tensor

from apgcn._utils.process import uninterrupted
from apgcn.ops.sparse import CSRStructure

# Sums may be reordered, so that they fill the processor's lanes; NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz", "arcp"}, "error_model": "numpy"}

ZERO, ONE = np.float32(0), np.float32(1)


def compiled(function: Callable) -> Callable:
    """The function, compiled on its first call; where a folder can be written to, once for all processes.

    What a function calls is compiled into it: after a change in `rows.py`, delete the `__pycache__` beside it.
    """
    kernel = part(function)

    def call(*arguments: Any) -> None:
        if kernel.overloads:
            kernel(*arguments)
        else:
            with uninterrupted():
                kernel(*arguments)

    return call


def part(function: Callable) -> Any:
    """The function, to be called by compiled ones."""
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in
        return njit(**OPTIONS)(function)


def arrays_of(*tensors: Tensor) -> list[np.ndarray]:
    """The same memory, as numpy sees it; what is to be filled must be contiguous already."""
    return [one.detach().contiguous().numpy() for one in tensors]


def rows_of(structure: CSRStructure) -> list[np.ndarray]:
    """Pointers and columns as numbers without a sign, for which no loop has to look whether one is negative."""
    return [one.numpy().view(f"u{one.element_size()}") for one in structure.straight[:2]]
