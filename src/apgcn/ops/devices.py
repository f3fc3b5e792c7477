"""Devices: parsing their names, what hardware they are, and memory."""

from __future__ import annotations

import ctypes
import platform
import re
import sys
import time
from pathlib import Path

import torch

from apgcn._utils.limits import memory_limit
from apgcn.errors import InvalidInput, MissingDevice

MAX_RETURN_FRACTION = 0.01  # of the time may be spent on returning free memory


def parse_device(name: str) -> torch.device:
    """Parse `cpu`, `cuda` or `cuda:N`; the device need not exist on this machine."""
    if not re.fullmatch(r"cpu|cuda(:(0|[1-9][0-9]?))?", name):
        raise InvalidInput(f"device must be cpu, cuda or cuda:N, got {name!r}.")
    return torch.device(name)


def resolve_device(name: str) -> torch.device:
    """Parse `cpu`, `cuda` or `cuda:N` and check that this machine has the device."""
    device = parse_device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MissingDevice(
            f"device {name} needs a CUDA GPU, but PyTorch sees {torch.cuda.device_count()} here; try cpu."
        )
    return device


def hardware(device: torch.device) -> str:
    """Return the model name of the GPU or CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def available_memory(device: torch.device) -> int:
    """Return the memory that this process may use, in bytes.

    On a GPU: what is free, and what PyTorch's allocator has reserved and does not use. On a CPU: all of the machine's
    memory, or the limit of this process, see `memory_limit`.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    return memory_limit()


def peak_memory() -> int:
    """Return the largest resident memory that this process has had, in bytes."""
    import resource  # not available on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


_next_return = 0.0  # by `time.monotonic`


def return_free_memory() -> None:
    """Return freed heap memory to the operating system, where the C library can (`malloc_trim`, Linux).

    The tensors of an epoch have many sizes. The C library keeps their freed memory for later tensors, which seldom fit
    into it, so that without this the process grows from epoch to epoch. In a process with a large heap, such as a
    notebook's, it takes a tenth of a second and more: a call does nothing until it has taken at most
    `MAX_RETURN_FRACTION` of the time since the last.
    """
    global _next_return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    started = time.monotonic()
    if trim is None or started < _next_return:
        return
    trim(0)
    finished = time.monotonic()
    _next_return = finished + (finished - started) / MAX_RETURN_FRACTION
