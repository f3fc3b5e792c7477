"""Progress on standard error: lines of a log, and the bar of a plan of runs (in a log file: a line per run batch)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


def log(line: str) -> None:
    """Print a line on standard error; a closed stream is ignored."""
    if sys.stderr:
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def log_all(lines: Sequence[str]) -> None:
    """Print several lines on standard error."""
    for line in lines:
        log(line)


@contextmanager
def make_executor(
    name: str, *, device: str, workers: int | None, threads: int | None, address: str | None = None
) -> Iterator[Any]:
    """The executor of --executor, as a context; a cluster that it starts ends with the block."""
    from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor

    if name == "local":
        yield SerialExecutor(threads=threads) if workers in (None, 1) else ProcessExecutor(workers, threads=threads)
        return
    from apgcn.benchmark.ray_executor import RayExecutor

    with RayExecutor(address, device=device, cpus=workers, threads=threads) as cluster:
        log(f"Ray: {cluster}")
        yield cluster


def run_with_progress(
    store: Any, plan: Sequence[Any], *, device: str, executor: Any, command: str, label: str = ""
) -> None:
    """Train the runs of a plan that the store lacks, with a progress bar; after Ctrl-C, log what is stored."""
    from apgcn.benchmark.progress import relative_time
    from apgcn.benchmark.runner import run_plan

    if not store.missing(plan):
        return
    try:
        estimate = partial(relative_time, records=[*store.records.values()])
        with plan_progress(len(plan), lambda: len(store.missing(plan)), estimate=estimate, label=label) as callback:
            run_plan(store, plan, device=device, executor=executor, command=command, progress=callback)
    except KeyboardInterrupt:
        done = len(plan) - len(store.missing(plan))
        log(f"{done} of {len(plan)} runs are stored; run the same command again to continue.")
        raise


@contextmanager
def plan_progress(
    planned: int, missing: Callable[[], int], *, estimate: Callable[[Any], float], label: str = ""
) -> Iterator[PlanProgress]:
    """The progress callback of a plan.

    `missing` counts the runs that are left, whichever process trains them; `estimate` is the relative time of a batch.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[done]}/{task.fields[planned]} runs, about"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, planned=planned, done=planned - missing())
        yield PlanProgress(bar, task, planned=planned, missing=missing, estimate=estimate, label=label)


class PlanProgress:
    """A `ProgressCallback` that draws a bar, on which each run batch is as long as its estimated time."""

    def __init__(
        self,
        bar: Progress,
        task: TaskID,
        *,
        planned: int,
        missing: Callable[[], int],
        estimate: Callable[[Any], float],
        label: str,
    ):
        self.label, self.estimate = f"{label}, " if label else "", estimate
        self.bar, self.task, self.runs, self.missing = bar, task, planned, missing
        self.done = planned - missing()
        self.has_waited = False
        self.costs: dict[str, float] = {}  # of every run batch, by its key
        self.fractions: dict[str, float] = {}  # that are done of it

    def on_planned(self, batches: Sequence[Any]) -> None:
        first = not self.costs  # later calls only repeat what is left
        for batch in batches:
            self.costs[batch.key] = self.estimate(batch)
        self._update("starting")
        if self.bar.disable and first:
            log(f"{self.label}{self.done}/{self.runs} runs: run batches to train: {len(batches)}")

    def on_progress(self, batch: Any, fraction: float) -> None:
        self.fractions[batch.key] = fraction
        self._update(_describe(batch))

    def on_finished(self, batch: Any) -> None:
        self.fractions[batch.key] = 1.0
        self.done = self.runs - self.missing()
        self._update(_describe(batch))
        if self.bar.disable:
            log(f"{self.label}{self.done}/{self.runs} runs: {_describe(batch)}")

    def on_waiting(self) -> None:
        self.done = self.runs - self.missing()
        self._update("waiting for another process")
        if self.bar.disable and not self.has_waited:
            log(
                f"{self.label}{self.done}/{self.runs} runs: waiting for another process that plans or trains the others"
            )
        self.has_waited = True

    def _update(self, text: str) -> None:
        completed = sum(self.costs[key] * fraction for key, fraction in self.fractions.items())
        self.bar.update(
            self.task,
            description=escape(self.label + text),
            total=sum(self.costs.values()),
            completed=completed,
            done=self.done,
        )


def _describe(batch: Any) -> str:
    run_config = batch.run_config
    return f"{run_config.dataset} {run_config.model}, batch of {len(batch.runs)}"
