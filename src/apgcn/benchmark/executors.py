"""Who does the work? This process, or several processes of this machine; see `on_ray` for other machines.

An executor calls a function with every item and hands back what it returned, in the order they finish. It takes an item
when it can begin it, not before: taking one may claim it.
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

from apgcn.benchmark.config import RunConfig
from apgcn.errors import ApgcnError, WorkerDied

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Report = Callable[[float], None]  # hears what share of an item is done

BETWEEN_REPORTS = 0.2  # seconds
ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Executor(Protocol):
    """What `fill` needs: `at_once` says how many items share the memory of a machine while they are in work."""

    @property
    def at_once(self) -> int: ...

    def ask(self, function: Callable[..., Outcome], run_config: RunConfig, **given: Any) -> Outcome:
        """What a function says of a condition where it would be worked on."""
        ...

    def run(
        self,
        function: Callable[[Item, Report], Outcome],
        items: Iterable[Item],
        watch: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call the function with every item; `watch` hears how far each is."""
        ...


class Here:
    """Works on this machine, so that questions about it are answered by this process."""

    def ask(self, function: Callable[..., Outcome], run_config: RunConfig, **given: Any) -> Outcome:
        """What a function says of a condition."""
        return function(run_config, **given)


class SerialExecutor(Here):
    """One item after the other, here."""

    at_once = 1

    def run(
        self,
        function: Callable[[Item, Report], Outcome],
        items: Iterable[Item],
        watch: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call the function with every item; `watch` hears how far each is."""
        for item in items:
            yield item, function(item, lambda share, item=item: watch(item, share))  # type: ignore[misc]


class ProcessExecutor(Here):
    """Several items at once, each in a process of its own that lives until the last item is done.

    The processes end when this one does, even if it is killed.
    """

    def __init__(self, workers: int):
        self.at_once = workers

    def run(
        self,
        function: Callable[[Item, Report], Outcome],
        items: Iterable[Item],
        watch: Callable[[Item, float], None],
    ) -> Generator[tuple[Item, Outcome], None, None]:
        """Call the function, which must be importable by name, with every item; `watch` hears how far each is."""
        waiting = iter(items)
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, Item]] = {}
        try:
            while True:
                while len(busy) < self.at_once and (item := next(waiting, None)) is not None:
                    with _uninterrupted():  # no worker is started that nobody would end
                        worker = idle.pop() if idle else _Worker(function)
                        busy[worker.pipe] = worker, item
                    worker.give(item)
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    worker, item = busy[pipe]  # type: ignore[index]
                    kind, value = worker.hear()
                    if kind == "share":
                        watch(item, value)
                    else:
                        del busy[pipe]  # type: ignore[arg-type]
                        idle.append(worker)
                        yield item, value
        finally:
            with _uninterrupted():  # a second Ctrl-C must not leave half of them
                for worker in [*idle, *(worker for worker, _ in busy.values())]:
                    worker.end()


class _Worker:
    """The other end of a process."""

    def __init__(self, function: Callable[[Any, Report], Any]):
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of PyTorch and CUDA
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, item: Any) -> None:
        """Tell the process what to do."""
        with self._said_if_dead():
            self.pipe.send(item)

    def hear(self) -> tuple[str, Any]:
        """What the process says next."""
        with self._said_if_dead():
            kind, value = self.pipe.recv()
        if kind == "mistake":
            raise ApgcnError(value)
        if kind == "failure":
            raise RuntimeError(f"in a worker process:\n{value}")
        return kind, value

    @contextmanager
    def _said_if_dead(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            self.process.join()
            raise WorkerDied(
                f"a worker process must not end before its work, but one did (status {self.process.exitcode}; "
                "was there enough memory?); what is done is kept: start again with fewer --workers."
            ) from None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals that ask us to end are heard when the block is left, and not by a process that is just being started."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock them while it starts
    heard: list[int] = []
    handlers = {ending: signal.signal(ending, lambda number, frame: heard.append(number)) for ending in ENDINGS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # which the new process inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
        for number in heard:
            signal.raise_signal(number)


def _serve(function: Callable[[Any, Report], Any], pipe: Connection) -> None:
    """What a worker process does: item in, outcome out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends us
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            outcome = "outcome", function(item, from_time_to_time(lambda share: pipe.send(("share", share))))
        except (ApgcnError, OSError) as error:
            outcome = "mistake", str(error)
        except Exception:
            outcome = "failure", traceback.format_exc()
        pipe.send(outcome)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def from_time_to_time(report: Report) -> Report:
    """The same, but calls that follow too soon are left out."""
    last = [0.0]

    def reduced(share: float) -> None:
        if time.monotonic() - last[0] >= BETWEEN_REPORTS:
            last[0] = time.monotonic()
            report(share)

    return reduced
