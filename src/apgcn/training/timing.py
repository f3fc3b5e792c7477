"""How long does a part of an epoch take?"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import torch


def milliseconds(*parts: Callable[[], object], device: torch.device) -> tuple[float, ...]:
    """Do one part after the other, and say how long each took."""
    moments = [now(device)]
    for part in parts:
        part()
        moments.append(now(device))
    return tuple(1000 * (later - earlier) for earlier, later in pairwise(moments))


def now(device: torch.device) -> float:
    """The time when all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
