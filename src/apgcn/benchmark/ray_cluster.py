"""Connection to a Ray cluster: connect to one or start one on this machine, and detect the loss of its head.

Three things here go below Ray's public API. `speaks_grpc` sends an HTTP/2 preface before `ray.init` is called, because
`ray.init` keeps retrying for minutes at a port where something else answers. And `import_ray` sets a private flag,
because Ray prints the death of workers on standard output even with `log_to_driver=False`, where only results may be.
`_loopback_only` sets the flag with which Ray takes the loopback address for its own, as it does on macOS and Windows.
"""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from apgcn._utils.process import request_immediate_exit
from apgcn.errors import MissingPackage, NoCluster

CONNECT_SECONDS = 5.0  # after which an address counts as unreachable
PROBE_SECONDS = 2.0  # between two connections to the head
HEAD_LOST_SECONDS = 20.0  # without a connection, after which the head counts as lost
INTERRUPT_SECONDS = 10.0  # after which an interruption counts as ignored

MIN_LOCAL_VERSION = (2, 59)  # of Ray: `ray.init` starts clusters that require a token

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with an empty SETTINGS frame
SETTINGS_FRAME = b"\4"


def first_line(error: Exception) -> str:
    """First sentence of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0].split(". ")[0].rstrip(".") if lines else type(error).__name__


def import_ray() -> Any:
    """The package `ray`, with its usage report and its messages on standard output switched off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray

        ray.init  # noqa: B018 - any folder of that name can be imported
    except Exception as error:
        raise MissingPackage('--executor ray needs Ray: pip install "apgcn[ray]"') from error
    ray._private.worker._worker_logs_enabled = False
    return ray


def connect(ray: Any, address: str | None, cpus: int | None) -> bool:
    """Connect to a cluster or start one; returns whether this call did it, or a connection existed before."""
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    was_reachable = _check_reachable(address) if address else False
    options: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": cpus}
    if not address:
        _check_version(ray)
    handler = signal.getsignal(signal.SIGTERM)
    dashboard = None if address else False
    try:
        with _stderr_to_null(), nullcontext() if address else _loopback_only(ray):
            ray.init(**options, logging_level="ERROR", log_to_driver=False, include_dashboard=dashboard)
    except ValueError as error:
        raise NoCluster(f"--address must be auto or host:port, got {address!r} ({first_line(error)}).") from error
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        message = _not_a_cluster if was_reachable else _unreachable
        raise NoCluster(message(address or "this machine", error)) from error
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray replaces it
    return True


def _check_version(ray: Any) -> None:
    """Raise unless Ray starts clusters that other users of this machine cannot use."""
    version = tuple(int(number) for number in ray.__version__.split(".")[:2])
    if version < MIN_LOCAL_VERSION:
        minimum = ".".join(map(str, MIN_LOCAL_VERSION))
        raise MissingPackage(
            f"--executor ray without --address needs Ray {minimum} or later, whose clusters require a token, got "
            f'{ray.__version__}: pip install "ray>={minimum}", or use --executor local.'
        )


@contextmanager
def _loopback_only(ray: Any) -> Iterator[None]:
    """Let a cluster that is started in the block bind to 127.0.0.1; otherwise it would bind to all addresses."""
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _stderr_to_null() -> Iterator[None]:
    """Discard standard error, also that of C++ code and child processes: what fails is reported in one sentence."""
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def _check_reachable(address: str) -> bool:
    """Whether a server answers at host:port; False for other forms of address, which only Ray can resolve."""
    if "://" in address or ":" not in address:
        return False
    try:
        is_grpc = speaks_grpc(address)
    except ValueError as error:
        raise NoCluster(f"--address must be auto or host:port, got {address!r} ({first_line(error)}).") from error
    except (OSError, OverflowError) as error:
        raise NoCluster(_unreachable(address, error)) from error
    if not is_grpc and "RAY_USE_TLS" not in os.environ:
        raise NoCluster(_not_a_cluster(address, ConnectionError("it does not speak gRPC")))
    return True


def _not_a_cluster(address: str, error: Exception) -> str:
    return (
        f"there must be a Ray cluster at {address}, but the server there refuses the connection ({first_line(error)}); "
        "if it is one, it may need RAY_AUTH_MODE=token and the token that `ray get-auth-token` prints there, or have "
        "another version of Ray."
    )


def _unreachable(address: str, error: Exception) -> str:
    return (
        f"there must be a Ray cluster at {address}, but nothing answers ({first_line(error)}); "
        "start one with `ray start --head`, or leave --address and RAY_ADDRESS out to use this machine alone."
    )


def speaks_grpc(address: str) -> bool:
    """Whether the server at host:port answers an HTTP/2 preface with a SETTINGS frame, as gRPC does."""
    with _connection(address) as connection:
        connection.sendall(HTTP2_PREFACE)
        try:
            return connection.recv(9)[3:4] == SETTINGS_FRAME
        except OSError:
            return False


def is_reachable(address: str) -> bool:
    """Whether a server accepts connections at host:port."""
    try:
        with _connection(address):
            return True
    except OSError:
        return False


def _connection(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS)


class HeadMonitor:
    """A thread that watches the head of a cluster.

    If the head does not answer for some time, `is_lost` becomes true and this process is interrupted, as by Ctrl-C, or
    ended if it does not react: otherwise Ray would wait, and abort the process after a minute.
    """

    def __init__(self, address: str):
        self.address, self.is_lost = address, False
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def message(self) -> str:
        """Error message for a lost head."""
        return (
            f"the head of the Ray cluster at {self.address} must answer, but does not any more; finished runs are "
            "stored: when there is one, run the same command again to continue."
        )

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _watch(self) -> None:
        last_contact = time.monotonic()
        while not self._stopped.wait(PROBE_SECONDS):
            if is_reachable(self.address):
                last_contact = time.monotonic()
            elif time.monotonic() - last_contact > HEAD_LOST_SECONDS:
                self.is_lost = True
                request_immediate_exit()  # Ray's threads would block the exit
                _thread.interrupt_main()
                if not self._stopped.wait(INTERRUPT_SECONDS):  # some calls of Ray ignore it
                    print(f"apgcn: {self.message}", file=sys.stderr, flush=True)
                    os._exit(NoCluster.exit_status)
                return
