"""Exceptions for mistakes that a user can correct.

Each message is one sentence: what must hold, what was given, what to try. The command line prints the message and exits
with `exit_status`; in Python these are ordinary exceptions. All derive from `ApgcnError`, and each also from the
built-in exception that fits it best.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

__all__ = [
    "ApgcnError",
    "BrokenFile",
    "InvalidInput",
    "MissingDevice",
    "MissingFile",
    "MissingPackage",
    "NoCluster",
    "RankDied",
    "UnknownName",
    "WorkerDied",
]

MAX_LISTED = 40  # names in a message

# Hyperparameters of version 0.1, for the message about an unknown name.
RENAMED = {
    "hidden": "hidden_channels",
    "watch": "monitor",
    "stop_on": "early_stop_mode",
    "seed_dropout": "z0_dropout",
    "halting_every": "halting_interval",
    "least_power": "min_power",
    "most_power": "max_power",
}


class ApgcnError(Exception):
    """Base class of the exceptions in this module."""

    exit_status = 2
    quiet = False  # True if another process reports the error


class InvalidInput(ApgcnError, ValueError):
    """A value, an array or the content of a file is not valid."""


class UnknownName(ApgcnError, ValueError):
    """A name that is not in its registry; the message suggests the new or the nearest one, or lists those that are."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = list(known)
        normalized = str(name).lower().replace("-", "_")
        cutoff = 0.6 if len(normalized) < 6 else 0.8  # long names share parts
        renamed = RENAMED.get(str(name))
        near = [renamed] if renamed in known else get_close_matches(normalized, known, cutoff=cutoff)
        near.sort(key=lambda name: (-SequenceMatcher(None, name, normalized).ratio(), name[:1] != normalized[:1]))
        more = f" and {len(known) - MAX_LISTED:,} more" if len(known) > MAX_LISTED else ""
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known[:MAX_LISTED])}{more}."
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class MissingFile(ApgcnError, FileNotFoundError):
    """A file does not exist, and could not be downloaded."""


class BrokenFile(ApgcnError, ValueError):
    """A file is damaged, or is not the published one: a benchmark file, a record, an archive."""


class MissingPackage(ApgcnError, ImportError):
    """An optional package is needed; the message names what to install."""


class MissingDevice(ApgcnError, RuntimeError):
    """The requested device is not available on this machine."""


class NoCluster(ApgcnError, ConnectionError):
    """No Ray cluster answers at the given address."""


class FitWarning(UserWarning):
    """Something about a fit that should be changed; the fitted model works."""


class RankDied(ApgcnError, RuntimeError):
    """Another rank of a distributed training has exited or cannot be reached."""

    exit_status = 1


class WorkerDied(ApgcnError, RuntimeError):
    """A worker process has exited before its runs were finished."""

    exit_status = 1
