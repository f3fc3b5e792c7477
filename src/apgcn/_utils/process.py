"""When must a signal wait? While an exception that it raises would be lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that ask us to end are heard when the block is done.

    An import or a compiler loses an exception that comes while it works: it falls into a callback, which has nobody to
    tell.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, Any]] = []
    names = (getattr(signal, name, None) for name in ENDING)
    handlers = {number: signal.getsignal(number) for number in names if number and callable(signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in waiting:
            handlers[signal.Signals(number)](number, frame)  # type: ignore[misc, operator]


_at_once = False


def leave_at_once() -> None:
    """From now on the command ends without waiting for anybody."""
    global _at_once
    _at_once = True


def leaves_at_once() -> bool:
    """Whether that was said."""
    return _at_once
