"""Helpers for processes that tests start."""

import subprocess


def shell_status(process: subprocess.Popen) -> int:
    """The exit status as a shell shows it: 128 plus the signal, for a process that a signal ended.

    An interrupted Python can end either way, with 130 or by SIGINT: where the interruption falls into an `exec`, as
    when a namedtuple is created during an import, Python ends itself by SIGINT although the exception was handled.
    """
    return 128 - process.returncode if process.returncode < 0 else process.returncode
