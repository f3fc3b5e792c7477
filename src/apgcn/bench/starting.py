"""How long does it take until one can begin?"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import NamedTuple

TRIES = 3  # the quickest counts


class Starting(NamedTuple):
    """Seconds of `import apgcn`, which imports nothing else before it is used, and of using every name in it."""

    importing: float
    everything: float
    of_which_torch: float


def timed_start() -> Starting:
    """Import in new processes; what an empty one takes is not counted."""
    everything = "import apgcn; [getattr(apgcn, name) for name in apgcn.__all__]"
    empty, *seconds = (_quickest(code) for code in ("", "import apgcn", everything, "import torch"))
    return Starting(*(max(0.0, one - empty) for one in seconds))


def _quickest(code: str) -> float:
    return min(_seconds(code) for _ in range(TRIES))


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started
