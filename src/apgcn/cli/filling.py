"""What do the commands that fill a store have in common? Their options, checked, and the filling."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from apgcn.cli.watching import say, watching


def check_options(*, runs: int, device: str, workers: int) -> None:
    """Whether so many runs can be trained there by so many workers, in words if not."""
    from apgcn.checks import check_whole
    from apgcn.devices import resolve
    from apgcn.training.runs import MOST_RUNS

    check_whole("runs", runs, most=MOST_RUNS)
    check_whole("workers", workers, most=1024)
    resolve(device)


def fill_and_show(store: Any, plan: Sequence[Any], *, device: str, workers: int, command: str, label: str = "") -> None:
    """Train what a store lacks of a plan, with a bar; an interruption is told what it leaves behind."""
    from apgcn.experiments.executors import InProcess, Processes
    from apgcn.experiments.fill import fill

    if not store.missing(plan):
        return
    executor = InProcess() if workers == 1 else Processes(workers)
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

    >>> typed("reproduce", "table2", models=None, runs=20, device="cuda", workers=1)
    'apgcn reproduce table2 --runs 20 --device cuda'
    """
    usual = {"device": "cpu", "workers": 1}
    others = [(f"--{name}", str(value)) for name, value in options.items() if value != usual.get(name)]
    return shlex.join(["apgcn", *words, *(word for pair in others for word in pair)])
