"""Number of threads of the CPU kernels.

The kernels divide the rows of a graph among threads; the sum of each row has one order, so that the number of threads
does not change a bit of any result. PyTorch's own operations use one thread meanwhile: their sums may depend on it, and
two pools of threads would compete for the cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_num_threads = 1


def get_num_threads() -> int:
    """The number of threads that CPU kernels may use at present."""
    return _num_threads


@contextmanager
def kernel_threads(threads: int) -> Iterator[None]:
    """Let CPU kernels use so many threads inside the block, and PyTorch one."""
    global _num_threads
    before, torch_before = _num_threads, torch.get_num_threads()
    _num_threads = threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _num_threads = before
        torch.set_num_threads(torch_before)
