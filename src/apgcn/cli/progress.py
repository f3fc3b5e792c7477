"""What does somebody see who waits for a plan to be filled? A bar, or in a log a line for every pack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@contextmanager
def watching(planned: int, missing: Callable[[], int], *, label: str = "") -> Iterator[Watching]:
    """Look on while so many runs are trained; `missing` says how many are left at any time, whoever trains them."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[done]}/{task.fields[planned]} runs, at least"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, planned=planned, done=planned - missing())
        yield Watching(bar, task, planned=planned, missing=missing, label=label)


class Watching:
    """Turns what `fill` says into a bar. The work of a pack is guessed from the size of its graph."""

    def __init__(self, bar: Progress, task: TaskID, *, planned: int, missing: Callable[[], int], label: str):
        self.label = f"{label}, " if label else ""
        self.bar, self.task, self.runs, self.missing = bar, task, planned, missing
        self.done = planned - missing()
        self.work: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    def planned(self, packs: Sequence[Any]) -> None:
        from apgcn.benchmark.progress import size

        first = not self.work  # afterwards it is only asked again what is left
        for pack in packs:
            self.work[pack.key] = len(pack.runs) * size(pack.run_config.dataset)
        self._show("starting")
        if self.bar.disable and first:
            say(f"{self.label}{self.done}/{self.runs} runs: packs to train: {len(packs)}")

    def progress(self, pack: Any, share: float) -> None:
        self.shares[pack.key] = share
        self._show(_about(pack))

    def finished(self, pack: Any) -> None:
        self.shares[pack.key] = 1.0
        self.done = self.runs - self.missing()
        self._show(_about(pack))
        if self.bar.disable:
            say(f"{self.label}{self.done}/{self.runs} runs: {_about(pack)}")

    def waiting(self) -> None:
        self.done = self.runs - self.missing()
        self._show("waiting for another process")

    def _show(self, text: str) -> None:
        done = sum(self.work[key] * share for key, share in self.shares.items())
        self.bar.update(
            self.task,
            description=escape(self.label + text),
            total=sum(self.work.values()),
            completed=done,
            done=self.done,
        )


def say(line: str) -> None:
    """Print a line for whoever reads standard error; that nobody does is no reason to end."""
    if sys.stderr:
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def _about(pack: Any) -> str:
    run_config = pack.run_config
    return f"{run_config.dataset} {run_config.model}, pack of {len(pack.runs)}"
