"""Number of threads of the CPU kernels.

The kernels divide the rows of a graph among threads; the sum of each row has one order, so that the number of threads
does not change a bit of any result. PyTorch's own operations use one thread meanwhile: their sums may depend on it, and
two pools of threads would compete for the cores.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apgcn._utils.limits import control_groups
from apgcn.errors import InvalidInput

VARIABLE = "APGCN_THREADS"

CPU_CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")  # names of the folder in version 1


# --- how many ---


def resolve_threads(threads: int | None = None, *, workers: int = 1) -> int:
    """The number of threads for each of so many workers that share the cores of this process.

    Parameters
    ----------
    threads : int, optional
        The number that the user requests for each worker. More than there are cores would only slow each other down,
        so a larger number than `available_cores() // workers` gives that one, and at least 1. Default: the number of
        the enclosing `kernel_threads`, divided by the workers; without one, the variable APGCN_THREADS, which is
        treated as `threads` is; without it, `available_cores() // workers`, and at most OMP_NUM_THREADS, by which
        joblib, Ray and job schedulers limit the threads of a process. (torchrun's value of it is ignored: it is 1,
        however many cores a rank has.)
    workers : int
        Number of workers.

    Raises
    ------
    InvalidInput
        If `threads` or APGCN_THREADS is not an integer >= 1.
    """
    if threads is None and _this_thread.blocks:
        return max(1, get_num_threads() // workers)
    limit = max(1, available_cores() // workers)
    requested = requested_threads(threads)
    return int(min(limit, _openmp_limit() if requested is None else requested))


def requested_threads(threads: int | None = None) -> int | None:
    """The number of threads that the user requests by an argument or by APGCN_THREADS, or None; raises if invalid."""
    if threads is not None:
        if not isinstance(threads, int | np.integer) or isinstance(threads, bool) or threads < 1:
            raise InvalidInput(_invalid("threads", threads, "leave it out"))
        return int(threads)
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    number = _parse(text)
    if number is None:
        raise InvalidInput(_invalid(VARIABLE, text, "unset it"))
    return number


def _invalid(name: str, value: Any, remedy: str) -> str:
    cores = available_cores()
    default = "the core" if cores == 1 else f"the {cores} cores"
    return f"{name} must be an integer >= 1, got {value!r}; {remedy} to use {default} that this process may use."


def _parse(text: str) -> int | None:
    """The integer >= 1 that a text consists of, or None."""
    try:
        return int(text) if text.isdecimal() and int(text) >= 1 else None
    except ValueError:  # thousands of digits
        return None


def _openmp_limit() -> float:
    """OMP_NUM_THREADS, of which the first number counts; infinite without a valid one, and in ranks of torchrun."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return math.inf
    return _parse(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()) or math.inf


def available_cores() -> int:
    """The number of CPU cores that this process may use: its affinity, and the CPU quota of its container."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        cores = os.process_cpu_count() or 1
    elif hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota >= cores else max(1, math.ceil(quota))


@lru_cache(maxsize=1)  # read once: a prediction for one node takes less time than a few files
def cpu_quota() -> float:
    """The CPU time that the control groups of this process may use per time, infinite without a limit."""
    return min((_quota(folder) for folder in control_groups("cpu", CPU_CONTROLLERS)), default=math.inf)


def _quota(folder: Path) -> float:
    """The quota of one control group: cpu.max in version 2, cpu.cfs_quota_us and cpu.cfs_period_us in version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf  # -1: no limit
    except (OSError, ValueError, ZeroDivisionError):  # no such group, or "max"
        return math.inf


# --- the number in use ---


class _ThisThread(threading.local):
    """What `kernel_threads` holds for each Python thread."""

    def __init__(self) -> None:
        self.blocks: list[list[int]] = []  # a number for each block, the innermost last
        self.torch_threads = 1  # outside the blocks


_this_thread = _ThisThread()
_lock = threading.Lock()
_threads_inside = 0  # Python threads that are in a block
_torch_threads_outside = 1  # of the first of them


def get_num_threads() -> int:
    """The number of threads that CPU kernels may use at present: 1 outside `kernel_threads`."""
    blocks = _this_thread.blocks
    return blocks[-1][0] if blocks else 1


@contextmanager
def kernel_threads(threads: int) -> Iterator[None]:
    """Let CPU kernels use so many threads inside the block, and PyTorch one.

    The block counts for the Python thread that enters it. Blocks may be nested; the innermost counts. When the thread
    has left all of them, in any order, PyTorch has as many threads as before.
    """
    state, block = _this_thread, [threads]
    if not state.blocks:
        state.torch_threads = _enter()
    state.blocks.append(block)
    try:
        yield
    finally:
        state.blocks = [other for other in state.blocks if other is not block]
        if not state.blocks:
            _leave(state.torch_threads)


def _enter() -> int:
    """Limit PyTorch to one thread; returns how many it had.

    The number is one of each Python thread: a thread gets the number that any thread has set last, when it first uses
    PyTorch, and keeps it. So a thread that begins while another one is in a block gets the block's 1, and leaves with
    the number that the other had outside.
    """
    global _threads_inside, _torch_threads_outside
    with _lock:
        before = torch.get_num_threads()
        if not _threads_inside:
            _torch_threads_outside = before
        elif before == 1:
            before = _torch_threads_outside
        _threads_inside += 1
        torch.set_num_threads(1)
        return before


def _leave(torch_threads: int) -> None:
    global _threads_inside
    with _lock:
        _threads_inside -= 1
        torch.set_num_threads(torch_threads)
