"""What do the commands that fill a store have in common? Their options, checked, and the filling."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from apgcn.cli.progress import say, watching
from apgcn.errors import InvalidInput, UnknownName

EXECUTORS = ("local", "ray")


EXECUTOR = Annotated[str, typer.Option(help="Who trains: local, processes of this machine; or ray, a Ray cluster.")]
ADDRESS = Annotated[
    str | None, typer.Option(help="Of the Ray cluster, auto or host:port; default: one that is started here.")
]
WORKERS = Annotated[
    int | None,
    typer.Option(help="How many processes train at once, with one thread each; default: 1, or what Ray has."),
]


def check_options(
    *, runs: int, device: str, workers: int | None, executor: str = "local", address: str | None = None
) -> None:
    """Whether so many runs can be trained there by so many workers, in words if not."""
    from apgcn._utils.validation import check_int
    from apgcn.ops.devices import named, resolve
    from apgcn.training.runs import MAX_RUNS

    check_int("runs", runs, most=MAX_RUNS)
    if executor not in EXECUTORS:
        raise UnknownName("executor", executor, EXECUTORS)
    if address is not None and executor != "ray":
        raise InvalidInput(f"--address must come with --executor ray, got --executor {executor}.")
    there = address or (os.environ.get("RAY_ADDRESS") if executor == "ray" else None)
    if there and workers is not None:
        raise InvalidInput(
            f"--workers must not come with a cluster's address ({there}): it knows its own processors; leave one out."
        )
    if workers is not None:
        check_int("workers", workers, most=1024)
    (resolve if executor == "local" else named)(device)


@contextmanager
def executor_for(name: str, *, device: str, workers: int | None, address: str | None = None) -> Iterator[Any]:
    """Who trains, as long as the block lasts."""
    from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor

    if name == "local":
        yield SerialExecutor() if workers in (None, 1) else ProcessExecutor(workers)
        return
    from apgcn.benchmark.ray_executor import RayExecutor

    with RayExecutor(address, device=device, processors=workers) as cluster:
        say(f"Ray: {cluster}")
        yield cluster


def fill_and_show(
    store: Any, plan: Sequence[Any], *, device: str, executor: Any, command: str, label: str = ""
) -> None:
    """Train what a store lacks of a plan, with a bar; an interruption is told what it leaves behind."""
    from apgcn.benchmark.runner import fill

    if not store.missing(plan):
        return
    try:
        with watching(len(plan), lambda: len(store.missing(plan)), label=label) as watch:
            fill(store, plan, device=device, executor=executor, command=command, watch=watch)
    except KeyboardInterrupt:
        done = len(plan) - len(store.missing(plan))
        say(f"{done} of {len(plan)} runs are kept; the same command goes on with the rest.")
        raise


def names(text: str | None) -> list[str] | None:
    """What stands between commas.

    >>> names("apgcn, gcn"), names(None)
    (['apgcn', 'gcn'], None)
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def typed(*words: str, **options: str | int | None) -> str:
    """The command as records remember it: without the folder, which is the user's business.

    >>> typed("reproduce", "table2", models=None, runs=20, device="cuda", workers=1, executor="local")
    'apgcn reproduce table2 --runs 20 --device cuda'
    """
    usual = {"device": "cpu", "workers": 1, "executor": "local"}
    options = {name: value for name, value in options.items() if value is not None}
    others = [(f"--{name}", str(value)) for name, value in options.items() if value != usual.get(name)]
    return shlex.join(["apgcn", *words, *(word for pair in others for word in pair)])
