"""Which device does a name mean, is it here, and what does it have?"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from apgcn.errors import InvalidInput, MissingDevice


def named(name: str) -> torch.device:
    """The device called `cpu`, `cuda` or `cuda:N`, on whatever machine."""
    if not re.fullmatch(r"cpu|cuda(:(0|[1-9][0-9]?))?", name):
        raise InvalidInput(f"device must be cpu, cuda or cuda:N, got {name!r}.")
    return torch.device(name)


def resolve(name: str) -> torch.device:
    """The device of this machine called `cpu`, `cuda` or `cuda:N`."""
    device = named(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MissingDevice(
            f"device {name} needs a CUDA GPU, but PyTorch sees {torch.cuda.device_count()} here; try cpu."
        )
    return device


def hardware(device: torch.device) -> str:
    """The model of the GPU or processor, as it calls itself."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def memory_of(device: torch.device) -> int:
    """Bytes of memory: what is free on a GPU, or kept free by this process; beside a processor all that we may use."""
    if device.type == "cuda":
        ours = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + ours
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), _limit_of_the_container())


def _limit_of_the_container() -> int:
    """The most bytes that a control group allows, without one a number beyond all memory."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return 2**63


def peak_memory() -> int:
    """The most bytes beside the processor that this process has ever had."""
    import resource  # which Windows does not have

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def return_free_memory() -> None:
    """Hand memory that holds no tensor any more back to the system, where the C library can be asked to (Linux).

    Tensors of an epoch come and go in many sizes. The library keeps their places for others that seldom fit, and the
    process grows from epoch to epoch.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
