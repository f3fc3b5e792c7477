"""Is there a Ray cluster? Connect to one, or start one on this machine, or say in words why not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apgcn.errors import MissingPackage, NoCluster
from apgcn.experiments.ray_head import greets


def first_line(error: Exception) -> str:
    """What an error says first, for a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].split(". ")[0].rstrip(".") if lines else type(error).__name__


def imported_ray() -> Any:
    """The package, if it is installed; it is told not to report its use, and to leave standard output to results."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray

        ray.init  # noqa: B018 - any folder of that name can be imported
    except Exception as error:
        raise MissingPackage('--executor ray needs Ray: pip install "apgcn[ray]"') from error
    ray._private.worker._worker_logs_enabled = False  # else it is told there who died, in many lines
    return ray


def connect(ray: Any, address: str | None, processors: int | None) -> bool:
    """Connect to a cluster or start one; says whether this did it, and not somebody before."""
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    looked = _look(address) if address else False
    started: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": processors}
    before = signal.getsignal(signal.SIGTERM)
    dashboard = None if address else False
    try:
        with _silence():
            ray.init(**started, logging_level="ERROR", log_to_driver=False, include_dashboard=dashboard)
    except ValueError as error:
        raise NoCluster(f"--address must be auto or host:port, got {address!r} ({first_line(error)}).") from error
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise NoCluster((_mute if looked else _nobody)(address or "this machine", error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray takes it
    return True


@contextmanager
def _silence() -> Iterator[None]:
    """Nothing reaches standard error, whoever writes it: what goes wrong is said in a sentence afterwards."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _look(address: str) -> bool:
    """Whether somebody listens there, if that can be seen: Ray itself would wait for a minute and more."""
    if "://" in address or ":" not in address:
        return False
    try:
        speaks = greets(address)
    except ValueError as error:
        raise NoCluster(f"--address must be auto or host:port, got {address!r} ({first_line(error)}).") from error
    except (OSError, OverflowError) as error:
        raise NoCluster(_nobody(address, error)) from error
    if not speaks and "RAY_USE_TLS" not in os.environ:
        raise NoCluster(_mute(address, ConnectionError("it does not speak gRPC")))
    return True


def _mute(address: str, error: Exception) -> str:
    return (
        f"there must be a Ray cluster at {address}, but who listens there does not talk with us ({first_line(error)}); "
        "if it is one, it may want RAY_AUTH_MODE=token and the token that `ray get-auth-token` shows there, or have "
        "another version of Ray."
    )


def _nobody(address: str, error: Exception) -> str:
    return (
        f"there must be a Ray cluster at {address}, but nobody answers ({first_line(error)}); "
        "start one with `ray start --head`, or leave --address and RAY_ADDRESS out to use this machine alone."
    )
