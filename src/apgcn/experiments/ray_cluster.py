"""Is there a Ray cluster? Connect to one, or start one on this machine, or say in words why not."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

from apgcn.errors import MissingPackage, NoCluster

ANSWERS_WITHIN = 5.0  # seconds, or there is no cluster


def first_line(error: Exception) -> str:
    """What an error says first, for a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def imported_ray() -> Any:
    """The package, if it is installed; it is told not to report its use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingPackage('--executor ray needs Ray: pip install "apgcn[ray]"') from error
    return ray


def connect(ray: Any, address: str | None, processors: int | None) -> bool:
    """Connect to a cluster or start one; says whether this did it, and not somebody before."""
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        _look(address)
    started: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": processors}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            **started, logging_level="ERROR", log_to_driver=False, include_dashboard=False if not address else None
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise NoCluster(_nobody(address or "this machine", error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray takes it
    return True


def _look(address: str) -> None:
    """Whether somebody listens there: Ray itself would wait for a minute and more."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise NoCluster(_nobody(address, error)) from error


def _nobody(address: str, error: Exception) -> str:
    return (
        f"there must be a Ray cluster at {address}, but nobody answers ({first_line(error)}); "
        "start one with `ray start --head`, or leave --address out to use this machine alone."
    )
