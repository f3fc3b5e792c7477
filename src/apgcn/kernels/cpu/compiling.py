"""How does numba compile here, and what does it get?"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from apgcn.pattern import Pattern

# Sums may be reordered, so that they fill the processor's lanes; NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz", "arcp"}, "error_model": "numpy", "cache": True}

ZERO, ONE = np.float32(0), np.float32(1)


def arrays_of(*tensors: Tensor) -> list[np.ndarray]:
    """The same memory, as numpy sees it; what is to be filled must be contiguous already."""
    return [one.detach().contiguous().numpy() for one in tensors]


def rows_of(pattern: Pattern) -> list[np.ndarray]:
    """Pointers and columns as numbers without a sign, for which no loop has to look whether one is negative."""
    return [one.numpy().view(f"u{one.element_size()}") for one in pattern.straight[:2]]
