"""Executors: run a function on every item, in this process or in several; see `ray_executor` for other machines.

An executor yields the outcomes in the order in which the items finish. It takes an item only when it can begin with it,
because taking one may claim it. It also chooses the number of threads of an item, by `kernel_threads` around the call.

`ProcessExecutor` starts its own processes instead of using `concurrent.futures.ProcessPoolExecutor` or loky. Neither
reports the progress of an item, and the former names neither the exit status of a worker that died nor, before Python
3.14, a public way to kill workers that are busy when Ctrl-C arrives; loky would be one more package for that alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

from apgcn._utils.process import TERMINATION_SIGNALS
from apgcn.benchmark.config import RunConfig
from apgcn.errors import ApgcnError, WorkerDied
from apgcn.ops.threads import kernel_threads, resolve_threads

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
ReportProgress = Callable[[float], None]  # called with the fraction of an item that is done

REPORT_SECONDS = 0.2  # at least, between two progress reports of a worker
SIGNALS = tuple(getattr(signal, name) for name in TERMINATION_SIGNALS if hasattr(signal, name))


class Executor(Protocol):
    """Interface that `run_plan` needs. `workers` is the number of items that share the memory of a machine."""

    @property
    def workers(self) -> int: ...

    def call(self, function: Callable[..., Outcome], run_config: RunConfig, **arguments: Any) -> Outcome:
        """Call a function with a run configuration on a machine that would train it."""
        ...

    def run(
        self,
        function: Callable[[Item, ReportProgress], Outcome],
        items: Iterable[Item],
        on_progress: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call a function with every item; `on_progress` is called with the fraction of an item that is done."""
        ...


class SerialExecutor:
    """One item after the other, in this process.

    Parameters
    ----------
    threads : int, optional
        See `apgcn.train`.
    """

    workers = 1

    def __init__(self, *, threads: int | None = None):
        self._threads = threads

    def call(self, function: Callable[..., Outcome], run_config: RunConfig, **arguments: Any) -> Outcome:
        """Call a function with a run configuration."""
        return function(run_config, **arguments)

    def run(
        self,
        function: Callable[[Item, ReportProgress], Outcome],
        items: Iterable[Item],
        on_progress: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call a function with every item; `on_progress` is called with the fraction of an item that is done."""
        for item in items:
            with kernel_threads(resolve_threads(self._threads)):
                outcome = function(item, lambda fraction, item=item: on_progress(item, fraction))  # type: ignore[misc]
            yield item, outcome


class ProcessExecutor:
    """Several items at once, in worker processes of this machine that live until the last item is done.

    The processes end when this one does, even if it is killed.

    Parameters
    ----------
    workers : int
        Number of processes.
    threads : int, optional
        Number of threads of each; default: the cores that this process may use, divided by the workers.
    """

    def __init__(self, workers: int, *, threads: int | None = None):
        self.workers = workers
        self._threads = threads

    def call(self, function: Callable[..., Outcome], run_config: RunConfig, **arguments: Any) -> Outcome:
        """Call a function with a run configuration, in this process."""
        return function(run_config, **arguments)

    def run(
        self,
        function: Callable[[Item, ReportProgress], Outcome],
        items: Iterable[Item],
        on_progress: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call a function, which must be importable by name, with every item; see `Executor.run`."""
        waiting, threads = iter(items), resolve_threads(self._threads, workers=self.workers)
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, Item]] = {}
        try:
            while True:
                while len(busy) < self.workers and (item := next(waiting, None)) is not None:
                    with _defer_signals():  # no worker is started that nobody would end
                        worker = idle.pop() if idle else _Worker(function, threads)
                        busy[worker.pipe] = worker, item
                    worker.send(item)
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    worker, item = busy[pipe]  # type: ignore[index]
                    kind, value = worker.receive()
                    if kind == "progress":
                        on_progress(item, value)
                    else:
                        del busy[pipe]  # type: ignore[arg-type]
                        idle.append(worker)
                        yield item, value
        finally:
            with _defer_signals():  # a second Ctrl-C must not leave some of them
                for worker in [*idle, *(worker for worker, _ in busy.values())]:
                    worker.kill()


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, function: Callable[[Any, ReportProgress], Any], threads: int):
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of PyTorch and CUDA
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, threads, child_pipe), daemon=True)
        self.process.start()
        child_pipe.close()

    def send(self, item: Any) -> None:
        """Send the next item."""
        with self._report_death():
            self.pipe.send(item)

    def receive(self) -> tuple[str, Any]:
        """The next message, ("progress", fraction) or ("outcome", value); raises the errors of the function."""
        with self._report_death():
            kind, value = self.pipe.recv()
        if kind == "user error":
            raise ApgcnError(value)
        if kind == "exception":
            raise RuntimeError(f"in a worker process:\n{value}")
        return kind, value

    @contextmanager
    def _report_death(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            self.process.join()
            raise WorkerDied(
                f"a worker process must not end before its work, but one did (status {self.process.exitcode}; "
                "was there enough memory?); finished runs are stored: start again with fewer --workers."
            ) from None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Defer termination signals to the end of the block, also those of a process that is started in it.

    `apgcn._utils.process.defer_signals` does so for Python's handlers only; a new process inherits the blocked signals.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock them while it starts
    pending: list[int] = []
    handlers = {number: signal.signal(number, lambda number, frame: pending.append(number)) for number in SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # which the new process inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in pending:
            signal.raise_signal(number)


def _serve(function: Callable[[Any, ReportProgress], Any], threads: int, pipe: Connection) -> None:
    """Main loop of a worker process: receive an item, send its outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which kills its workers
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            with kernel_threads(threads):
                outcome = "outcome", function(item, rate_limited(lambda fraction: pipe.send(("progress", fraction))))
        except (ApgcnError, OSError) as error:
            outcome = "user error", str(error)
        except Exception:
            outcome = "exception", traceback.format_exc()
        pipe.send(outcome)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def rate_limited(report: ReportProgress) -> ReportProgress:
    """The same function, without the calls that follow another within `REPORT_SECONDS`."""
    last_call = [0.0]

    def limited(fraction: float) -> None:
        if time.monotonic() - last_call[0] >= REPORT_SECONDS:
            last_call[0] = time.monotonic()
            report(fraction)

    return limited
