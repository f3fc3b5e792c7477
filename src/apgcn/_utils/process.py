"""Signals during imports and compilation, and the way a command exits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TERMINATION_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer the handlers of termination signals to the end of the block.

    Python loses an exception that a handler raises while an import or a compiler is at work: it surfaces in a callback,
    which cannot pass it on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, Any]] = []
    numbers = (getattr(signal, name, None) for name in TERMINATION_SIGNALS)
    handlers = {number: signal.getsignal(number) for number in numbers if number and callable(signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, frame: pending.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in pending:
            handlers[signal.Signals(number)](number, frame)  # type: ignore[misc, operator]


_exit_immediately = False


def request_immediate_exit() -> None:
    """From now on let the command exit without waiting for threads or other processes."""
    global _exit_immediately
    _exit_immediately = True


def immediate_exit_requested() -> bool:
    """Whether `request_immediate_exit` was called."""
    return _exit_immediately
