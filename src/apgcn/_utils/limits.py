"""Limits of this process: the control groups around it, and how much memory it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from apgcn.errors import InvalidInput

CONTROL_GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")  # of a control group, in version 2 and 1
NO_LIMIT = 2**63


def control_groups(controller: str, folders: Sequence[str]) -> Iterator[Path]:
    """Folders of the control groups that may limit this process: its own and those around it, of version 2 and 1.

    In a container the paths of the process may be those of the host, of which only the root is visible here.

    Parameters
    ----------
    controller : str
        Such as "cpu" or "memory".
    folders : sequence of str
        Names that the folder of the controller may have in version 1.
    """
    yield from (CONTROL_GROUPS, *(CONTROL_GROUPS / name for name in folders))
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers or controller in controllers.split(","):  # version 2 has no names of controllers
            names = [name for name in path.split("/") if name]
            for depth in range(1, len(names) + 1):
                yield CONTROL_GROUPS.joinpath(controllers, *names[:depth])


def memory_limit() -> int:
    """The memory that this process may use, in bytes.

    It is that of the machine, the smallest limit of the control groups, or what is left of the address space
    (`ulimit -v`), whichever is least.
    """
    groups = (_group_limit(folder / name) for folder in control_groups("memory", ["memory"]) for name in MEMORY_FILES)
    return min(_machine_memory(), _free_address_space(), *groups)


def check_decompressed_size(path: Path, size: int) -> None:
    """Raise unless the content of a compressed file, of so many bytes, fits into half of the memory.

    The other half is for the copies that are made of it while a graph is built.

    Raises
    ------
    InvalidInput
    """
    limit = memory_limit() // 2
    if size > limit:
        raise InvalidInput(
            f"{path} must have at most {limit:,} bytes when it is decompressed, half of the memory that this process "
            f"may use, got {size:,}; use a machine with more memory, or a higher limit, if you trust the file."
        )


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return NO_LIMIT


def _group_limit(file: Path) -> int:
    try:
        text = file.read_text().strip()
    except OSError:
        return NO_LIMIT
    return int(text) if text.isdecimal() else NO_LIMIT  # "max"


def _free_address_space() -> int:
    """The limit of the address space (RLIMIT_AS) without what is in use."""
    try:
        import resource
    except ImportError:  # Windows
        return NO_LIMIT
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return NO_LIMIT
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        used = 0
    return max(0, limit - used)
