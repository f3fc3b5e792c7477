"""The command `apgcn`, one module per command; a user's mistake gets one sentence on standard error and exit status 2.

Benchmark graphs: `train`, `tune`, `reproduce`, `status`, `report`. The user's graph: `fit`, `predict`, `explain`,
`export`. Reference: `models`, `datasets`, `bench`. Options that several commands share are in `options`, output to the
terminal is in `render` and `progress`, and `distributed` is the part of `train` and `fit` that runs under torchrun.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from apgcn import __version__
from apgcn._utils.formatting import replace_unprintable
from apgcn._utils.process import immediate_exit_requested
from apgcn.cli.bench import bench
from apgcn.cli.datasets import datasets
from apgcn.cli.explain import explain
from apgcn.cli.export import export
from apgcn.cli.fit import fit
from apgcn.cli.models import models
from apgcn.cli.predict import predict
from apgcn.cli.report import report
from apgcn.cli.reproduce import reproduce
from apgcn.cli.status import status
from apgcn.cli.train import train
from apgcn.cli.tune import tune
from apgcn.errors import ApgcnError

__all__ = ["app", "main", "run"]

INTERRUPTED = 130
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # click's, wherever this version of typer keeps it

# Options of version 0.1 that have another name, or are now options of another command.
RENAMED_OPTIONS = {
    ("train", "--settings"): "--preset",
    ("reproduce", "--settings"): "--preset",
    ("fit", "--settings"): "--set NAME=VALUE for each hyperparameter, because presets are for benchmark graphs",
    ("fit", "--test-share"): "--test-size",
    ("fit", "--words"): "--bag-of-words",
    ("fit", "--runs"): "--ensemble",
    ("bench", "--packs"): "--batch-sizes",
    ("bench", "--rounds"): "--repeats",
    ("train", "--tune"): "the command `apgcn tune DATASET`",
}

KINDS = {"float": "a number", "int": "an integer"}

app = typer.Typer(
    name="apgcn",
    help="Graph neural networks with node-adaptive depth.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for panel, commands in {
    "Benchmark graphs": (train, tune, reproduce, status, report),
    "Your graph": (fit, predict, explain, export),
    "Reference": (models, datasets, bench),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)


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
    """Graph neural networks with node-adaptive depth: each node learns how many propagation steps it needs."""


def main() -> None:
    """Run the command and exit with its status."""
    for signal_name in ("SIGTERM", "SIGHUP"):  # clean up as after Ctrl-C, also when the terminal is closed
        number = getattr(signal, signal_name, None)
        if number and signal.getsignal(number) != signal.SIG_IGN:  # nohup: continue
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print a question mark rather than fail
    status = run(sys.argv[1:])
    if immediate_exit_requested():
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
        quiet = error.quiet or (_is_reported_by_rank_0(arguments) and not _has_connected())
        return error.exit_status if quiet else _report(str(error), error.exit_status)
    except UsageError as error:
        return 2 if _is_reported_by_rank_0(arguments) else _report(_usage_message(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED if _is_reported_by_rank_0(arguments) else _report("interrupted.", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:  # the reader of our output is gone: discard what is buffered
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):  # typer exits on it
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (OSError, UnicodeError) as error:
        return _report(f"{error}; check the path, its permissions and the space left.", 2)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        return _report(
            "not enough memory; use a smaller graph, fewer steps or fewer hidden_channels.",
            2,
        )


def _usage_message(error: Any) -> str:
    """The message of a usage error; for an option of version 0.1, the option or command that replaces it."""
    option = getattr(error, "option_name", None)
    command = error.ctx.info_name if error.ctx else None
    replacement = RENAMED_OPTIONS.get((str(command), str(option)))
    if replacement:
        return f"{command} has no option {option}; use {replacement}."
    if command == "train" and option is not None:
        parameters = error.ctx.parent.command.commands["fit"].params
        options_of_fit = {name for parameter in parameters for name in parameter.opts}
        if option in options_of_fit or ("fit", option) in RENAMED_OPTIONS:
            hint = f"for your own graph use: apgcn fit {RENAMED_OPTIONS.get(('fit', option), option)} ..."
            return f"train is for benchmark graphs and has no option {option}; {hint}"
    details = getattr(error.__cause__, "errors", None)  # of pydantic, which parses the values of options
    if details and getattr(error, "param", None):
        kind, _, _ = details()[0]["type"].partition("_")  # such as int_parsing
        if kind in KINDS:
            return f"{error.param.opts[0]} must be {KINDS[kind]}, got {details()[0]['input']!r}."
    return error.format_message()


def _has_connected() -> bool:
    """Whether this process has been connected with other ranks."""
    communication = sys.modules.get("apgcn.distributed.communication")
    return bool(communication and communication.has_connected())


def _is_reported_by_rank_0(arguments: list[str]) -> bool:
    """Whether the first rank of this machine, which has the same arguments, reports errors for this process."""
    started_by_torchrun = "--distributed" in arguments or "TORCHELASTIC_RUN_ID" in os.environ
    return started_by_torchrun and os.environ.get("LOCAL_RANK", "0") != "0"


def _report(sentence: str, status: int) -> int:
    """Print an error message on standard error, on one line; returns the exit status."""
    if sys.stderr:
        with suppress(OSError):  # standard error is closed or full
            print(f"apgcn: {replace_unprintable(' '.join(sentence.split()))}", file=sys.stderr)
    return status
