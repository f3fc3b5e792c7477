"""Execution of a plan: the runs that the store lacks are trained, batch by batch, until none is missing.

Everything that trains a list of run keys goes through `run_plan`; executors decide where the run batches train.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from typing import Protocol

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.executors import Executor, SerialExecutor
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.scheduler import is_superseded, plan_batches
from apgcn.benchmark.store import Claim, Store
from apgcn.benchmark.worker import cleaned_graph, train_planned_batch
from apgcn.ops.devices import parse_device, resolve_device
from apgcn.training.batching import batch_size

POLL_SECONDS = 0.5  # between two looks at what other processes have done


class ProgressCallback(Protocol):
    """Receiver of the progress of a plan."""

    def on_planned(self, batches: Sequence[PlannedBatch]) -> None:
        """These run batches are to be trained, by this process or another one."""

    def on_progress(self, batch: PlannedBatch, fraction: float) -> None:
        """A fraction of the run batch is done."""

    def on_finished(self, batch: PlannedBatch) -> None:
        """The records of the run batch are in the store."""

    def on_waiting(self) -> None:
        """Other processes train what is left, or hold the lock under which run batches are planned."""


class NullProgress:
    """A `ProgressCallback` that does nothing."""

    def on_planned(self, batches: Sequence[PlannedBatch]) -> None: ...

    def on_progress(self, batch: PlannedBatch, fraction: float) -> None: ...

    def on_finished(self, batch: PlannedBatch) -> None: ...

    def on_waiting(self) -> None: ...


def run_plan(
    store: Store,
    plan: Sequence[RunKey],
    *,
    device: str = "cpu",
    executor: Executor = SerialExecutor(),
    command: str = "",
    progress: ProgressCallback = NullProgress(),
) -> None:
    """Train the runs of a plan that the store lacks; returns when every key has a record.

    After an interruption of any kind a second call continues with what is missing, and the records are those of an
    undisturbed call. Other processes may run plans on the same store meanwhile: what one of them trains is waited for.

    Parameters
    ----------
    store : Store
    plan : sequence of RunKey
        See `RunConfig.first_runs`.
    device : "cpu" or "cuda"
    executor : Executor
        `SerialExecutor()`, `ProcessExecutor(workers)` or `RayExecutor(address)`.
    command : str
        Stored in the records as the command that they come from.
    progress : ProgressCallback
    """
    device_type = parse_device(device).type
    max_batch = lru_cache(maxsize=None)(partial(executor.call, _max_batch, device=device, workers=executor.workers))
    claims: dict[str, Claim] = {}
    missing = store.missing(plan)
    for run_config in group_by_config(missing):
        max_batch(run_config)  # a graph that is missing or too large is reported before anything is written
    try:
        while missing:
            batches = plan_batches(store, plan, device=device_type, max_batch=max_batch, on_waiting=progress.on_waiting)
            progress.on_planned(batches)
            train = partial(train_planned_batch, device=device, command=command)
            is_idle = True
            with closing(executor.run(train, _claim_each(store, batches, claims), progress.on_progress)) as outcomes:
                for batch, trained in outcomes:
                    store.add_records(batch, trained.records, trained.steps)
                    claims.pop(batch.key).release(done=True)
                    progress.on_finished(batch)
                    is_idle = False
            if is_idle:
                progress.on_waiting()
                time.sleep(POLL_SECONDS)
            missing = store.missing(plan)
    finally:
        for claim in claims.values():
            claim.release()


def _claim_each(store: Store, batches: Iterable[PlannedBatch], claims: dict[str, Claim]) -> Iterator[PlannedBatch]:
    """The run batches that no other process trains, each claimed when the executor takes it."""
    for batch in batches:
        claim = store.claim(batch)
        if claim is None:
            continue
        missing = store.missing(batch.keys)
        if not missing:  # another process has finished it meanwhile
            claim.release(done=True)
            continue
        if is_superseded(store, batch, missing):
            claim.release()
            continue
        claims[batch.key] = claim
        yield batch


def _max_batch(run_config: RunConfig, *, device: str, workers: int) -> int:
    """Maximum number of runs of a run configuration that train together."""
    model, training = run_config.configs
    graph = cleaned_graph(run_config.dataset)
    return batch_size(graph, model, resolve_device(device), workers=workers, passes=training.passes)
