"""The command `apgcn`: what a user types, and what a mistake costs them (one sentence, exit status 2)."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from apgcn import __version__
from apgcn.cli.datasets import datasets
from apgcn.cli.train import train
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
app.command()(datasets)


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
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to end: clean up as after Ctrl-C
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command with these arguments; returns the exit status."""
    try:
        status = app(arguments or ["--help"], prog_name="apgcn", standalone_mode=False) or 0
        if status == INTERRUPTED:  # some versions of typer turn Ctrl-C into this
            raise KeyboardInterrupt
        return status
    except ApgcnError as error:
        return _complain(str(error), error.exit_status)
    except UsageError as error:
        return _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted; nothing was written.", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left
        sys.stderr.close()
        return 0


def _complain(sentence: str, status: int) -> int:
    print(f"apgcn: {' '.join(sentence.split())}", file=sys.stderr)
    return status
