"""Is there a Ray cluster? Connect to one, or start one on this machine, or say in words why not."""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apgcn._utils.process import leave_at_once
from apgcn.errors import MissingPackage, NoCluster


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


ANSWERS_WITHIN = 5.0  # seconds, or nobody does
KNOCK_EVERY = 2.0  # seconds
HEARD_WITHIN = 10.0  # seconds, or an interruption was not
BACK_WITHIN = 20.0  # seconds, or a head that was there is lost


def greets(address: str) -> bool:
    """Whether who listens there greets as gRPC does, which is HTTP/2: with settings, the fourth kind of frame."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            return line.recv(9)[3:4] == b"\4"
        except OSError:
            return False


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    try:
        greets(address)
    except OSError:
        return False
    return True


class Head:
    """The machine that a cluster hangs on, from now on kept in sight.

    If it does not answer for some time, `lost` is true and this process is interrupted, as by Ctrl-C, or ended where it
    does not hear that: else Ray would wait, and abort it after a minute.
    """

    def __init__(self, address: str):
        self.address, self.lost = address, False
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def sentence(self) -> str:
        """What is to be said when it is lost."""
        return (
            f"the head of the Ray cluster at {self.address} must answer, but does not any more; what is done is kept: "
            "when there is one, the same command goes on."
        )

    def forget(self) -> None:
        """It may go."""
        self._over.set()

    def _watch(self) -> None:
        heard = time.monotonic()
        while not self._over.wait(KNOCK_EVERY):
            if answers(self.address):
                heard = time.monotonic()
            elif time.monotonic() - heard > BACK_WITHIN:
                self.lost = True
                leave_at_once()  # Ray's threads would not let us go
                _thread.interrupt_main()
                if not self._over.wait(HEARD_WITHIN):  # some calls of Ray do not hear it
                    print(f"apgcn: {self.sentence}", file=sys.stderr, flush=True)
                    os._exit(NoCluster.exit_status)
                return
