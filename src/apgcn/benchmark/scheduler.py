"""Division of a plan into run batches, which the store records, so that an interruption does not change them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from filelock import FileLock, Timeout

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.store import Store
from apgcn.training.batching import split_evenly

CLAIM_RETRY_SECONDS = 0.05
LOCKED_SECONDS = 2.0


def plan_batches(
    store: Store,
    keys: Sequence[RunKey],
    *,
    device: str,
    max_batch: Callable[[RunConfig], int],
    on_waiting: Callable[[], None] = lambda: None,
) -> list[PlannedBatch]:
    """The run batches with all keys that have no record; new ones are added to the store's plan.

    Parameters
    ----------
    store : Store
    keys : sequence of RunKey
    device : str
        "cpu" or "cuda". A run batch that nobody has begun is planned anew for another kind of device, or if it is now
        too large.
    max_batch : function
        Maximum number of runs of a run configuration that may train together.
    on_waiting : function
        Called if another process holds the lock of the plan for longer than `LOCKED_SECONDS`.
    """
    with _acquired(store.planning_lock(), on_waiting):
        recorded = store.records  # read once per planning
        todo = {key.text: key for key in keys if key.text not in recorded}
        reused = []
        for batch in reversed(store.planned_batches if todo else []):  # a later one may have superseded earlier ones
            batch_keys = [key.text for key in batch.keys]
            wanted_keys = [key for key in batch_keys if key in todo]
            if wanted_keys:
                has_records = any(key in recorded for key in batch_keys)
                fits = batch.device == device and len(batch_keys) <= max_batch(batch.run_config)
                if has_records or fits or _is_claimed(store, batch) or _has_new_records(store, batch):
                    reused.append(batch)
                    for key in wanted_keys:
                        del todo[key]
        new = []
        for run_config, members in group_by_config(keys).items():
            if any(key.text in todo for key in members):
                # All runs are divided, so that the division does not depend on which are done.
                for part in split_evenly(members, max_size=max_batch(run_config)):
                    left = [key for key in part if key.text in todo]
                    new += [PlannedBatch.from_keys(left, device)] if left else []
        store.add_planned(new)
    return [*reversed(reused), *new]


@contextmanager
def _acquired(lock: FileLock, on_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock, which is waited for."""
    try:
        lock.acquire(timeout=LOCKED_SECONDS)
    except Timeout:
        on_waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_claimed(store: Store, batch: PlannedBatch) -> bool:
    """Whether a process trains the run batch."""
    claim = store.claim(batch)
    if claim is None:  # a process trains it, or has only tested whether one does
        time.sleep(CLAIM_RETRY_SECONDS)
        claim = store.claim(batch)
    if claim is None:
        return True
    claim.release()
    return False


def _has_new_records(store: Store, batch: PlannedBatch) -> bool:
    """Whether records were added since the look-up, by a process that had claimed the run batch until now."""
    return len(store.missing(batch.keys)) < len(batch.keys)


def is_superseded(store: Store, batch: PlannedBatch, missing: Collection[RunKey]) -> bool:
    """Whether missing runs of a run batch were planned anew, by a process that came later."""
    planned = store.planned_batches
    return any(not set(missing).isdisjoint(later.keys) for later in planned[planned.index(batch) + 1 :])
