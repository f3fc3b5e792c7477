"""The command `apgcn`, also as `python -m apgcn`: it imports the commands, which takes a moment, and runs one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any, NoReturn

INTERRUPTED = 130


def main() -> None:
    """Run the command and exit with its status; Ctrl-C ends it with one line, also while it is being imported."""
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # in the background
    if not is_ignored:
        signal.signal(signal.SIGINT, _exit_at_once)
    from apgcn.cli import main as run_command

    try:
        if not is_ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command()
    except KeyboardInterrupt:
        _exit_at_once()


def _exit_at_once(*_: Any) -> NoReturn:
    """Exit without a traceback: nothing was begun, and an exception can be lost in the middle of an import."""
    if os.environ.get("LOCAL_RANK", "0") == "0":  # of the ranks on one machine, the first reports
        with suppress(OSError):
            os.write(2, b"apgcn: interrupted.\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
