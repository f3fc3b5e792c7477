"""The command `apgcn`: what a user types, and what a mistake costs them (one sentence, exit status 2)."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from apgcn import __version__
from apgcn._utils.formatting import printable
from apgcn._utils.process import leaves_at_once
from apgcn.cli.bench import bench
from apgcn.cli.datasets import datasets
from apgcn.cli.explain import explain
from apgcn.cli.export import export
from apgcn.cli.models import models
from apgcn.cli.predict import predict
from apgcn.cli.report import report
from apgcn.cli.reproduce import reproduce
from apgcn.cli.status import status
from apgcn.cli.train import train
from apgcn.cli.tune import tune
from apgcn.errors import ApgcnError

INTERRUPTED = 130
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # click's, wherever this typer keeps its click

app = typer.Typer(
    name="apgcn",
    help="Graph networks in which every node decides for itself how far to listen.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command()(predict)
app.command()(explain)
app.command()(export)
app.command()(reproduce)
app.command()(status)
app.command()(report)
app.command()(tune)
app.command()(models)
app.command()(datasets)
app.command()(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"apgcn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Graph networks in which every node decides for itself how far to listen."""


def main() -> None:
    """Run the command and leave with its exit status."""
    for ending in ("SIGTERM", "SIGHUP"):  # asked to end, or the terminal is gone: clean up as after Ctrl-C
        number = getattr(signal, ending, None)
        if number and signal.getsignal(number) != signal.SIG_IGN:  # nohup: go on
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a question mark rather than no answer
    status = run(sys.argv[1:])
    if leaves_at_once():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command with these arguments; returns the exit status."""
    try:
        status = app(arguments or ["--help"], prog_name="apgcn", standalone_mode=False) or 0
        if sys.stdout:
            sys.stdout.flush()
        if status == INTERRUPTED:  # some versions of typer turn Ctrl-C into this
            raise KeyboardInterrupt
        return status
    except ApgcnError as error:
        quiet = error.quiet or (_another_says_it(arguments) and not _was_a_rank())
        return error.exit_status if quiet else _complain(str(error), error.exit_status)
    except UsageError as error:
        return 2 if _another_says_it(arguments) else _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED if _another_says_it(arguments) else _complain("interrupted.", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left; what is buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (OSError, UnicodeError) as error:
        return _complain(f"{error}; check the path, its permissions and the space left.", 2)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        return _complain("there is not enough memory; train a smaller graph, fewer steps or fewer hidden units.", 2)


def _was_a_rank() -> bool:
    """Whether this process has met other ranks of a training."""
    ranks = sys.modules.get("apgcn.distributed.communication")
    return bool(ranks and ranks.was_there())


def _another_says_it(arguments: list[str]) -> bool:
    """Whether the first rank of this machine, which was told the same, has the word."""
    started_together = "--distributed" in arguments or "TORCHELASTIC_RUN_ID" in os.environ
    return started_together and os.environ.get("LOCAL_RANK", "0") != "0"


def _complain(sentence: str, status: int) -> int:
    if sys.stderr:
        with suppress(OSError):  # nobody can be told
            print(f"apgcn: {printable(' '.join(sentence.split()))}", file=sys.stderr)
    return status
