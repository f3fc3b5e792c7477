"""The few exceptions a user can meet.

Each message is one sentence: what must hold, what came, what to try. The command line prints it and leaves with
`exit_status`; in Python they are ordinary exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_NAMED = 40  # names in a message


class ApgcnError(Exception):
    """Something that the user can put right."""

    exit_status = 2
    quiet = False  # whether another process says it


class InvalidInput(ApgcnError, ValueError):
    """A value, an array or a file does not say what it must."""


class UnknownName(ApgcnError, ValueError):
    """A name that no catalogue knows."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = list(known)
        typed = str(name).lower().replace("-", "_")
        near = get_close_matches(typed, known, n=1, cutoff=0.6 if len(typed) < 6 else 0.8)  # long names share parts
        more = f" and {len(known) - MAX_NAMED:,} more" if len(known) > MAX_NAMED else ""
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known[:MAX_NAMED])}{more}."
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class MissingFile(ApgcnError, FileNotFoundError):
    """A benchmark file is neither here nor to be had."""


class BrokenFile(ApgcnError, ValueError):
    """A file is not what was once written: a benchmark file, a record, an archive."""


class MissingPackage(ApgcnError, ImportError):
    """An optional package is needed; the message says what to install."""


class MissingDevice(ApgcnError, RuntimeError):
    """The asked-for device is not on this machine."""


class NoCluster(ApgcnError, ConnectionError):
    """Nobody answers where a cluster should be."""


class RankDied(ApgcnError, RuntimeError):
    """A process that trains with us has ended, or cannot be reached."""

    exit_status = 1


class WorkerDied(ApgcnError, RuntimeError):
    """A process that trained for us has ended before its work was done."""

    exit_status = 1
