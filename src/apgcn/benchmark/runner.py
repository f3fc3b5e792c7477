"""How does a plan become records? What the store lacks is trained, pack by pack, until nothing is missing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from typing import Protocol

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.executors import Executor, SerialExecutor
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.scheduler import packs_for, replaced
from apgcn.benchmark.store import Claim, Store
from apgcn.benchmark.worker import train_planned
from apgcn.ops.devices import named, resolve
from apgcn.training.batching import pack_size
from apgcn.training.config import split_config

PAUSE = 0.5  # seconds between two looks at what other processes have done


class Watch(Protocol):
    """What somebody who looks on can hear."""

    def planned(self, packs: Sequence[PlannedBatch]) -> None:
        """These are to be trained, here or by another process."""

    def progress(self, pack: PlannedBatch, share: float) -> None:
        """A share of the pack is done."""

    def finished(self, pack: PlannedBatch) -> None:
        """The records of the pack are in the store."""

    def waiting(self) -> None:
        """Others train what is left."""


class NullProgress:
    """Looks away."""

    def planned(self, packs: Sequence[PlannedBatch]) -> None: ...

    def progress(self, pack: PlannedBatch, share: float) -> None: ...

    def finished(self, pack: PlannedBatch) -> None: ...

    def waiting(self) -> None: ...


def fill(
    store: Store,
    plan: Sequence[RunKey],
    *,
    device: str = "cpu",
    executor: Executor = SerialExecutor(),
    command: str = "",
    watch: Watch = NullProgress(),
) -> None:
    """Train what the store lacks of a plan; returns when every key has a record.

    Whatever ends it, calling it again goes on with what is missing, and the records are those of an undisturbed call.
    Other processes may fill the same store meanwhile: what one of them trains is waited for.

    Parameters
    ----------
    plan : keys of runs
        See `RunConfig.first_runs`.
    device : "cpu" or "cuda"
    executor : Executor
        `SerialExecutor()`, `ProcessExecutor(workers)` or `RayExecutor(address)`.
    command : str
        What the records say they come from.
    """
    kind = named(device).type
    most = lru_cache(maxsize=None)(partial(executor.ask, _most, device=device, workers=executor.at_once))
    held: dict[str, Claim] = {}
    for run_config in group_by_config(store.missing(plan)):
        most(run_config)  # what is wrong with a graph or too large for the machine is said before anything is written
    try:
        while store.missing(plan):
            packs = packs_for(store, plan, device=kind, most=most)
            watch.planned(packs)
            work = partial(train_planned, device=device, command=command)
            worked = False
            with closing(executor.run(work, _claimed(store, packs, held), watch.progress)) as outcomes:
                for pack, trained in outcomes:
                    store.keep(pack, trained.records, trained.steps)
                    held.pop(pack.key).give_back(done=True)
                    watch.finished(pack)
                    worked = True
            if not worked:
                watch.waiting()
                time.sleep(PAUSE)
    finally:
        for claim in held.values():
            claim.give_back()


def _claimed(store: Store, packs: Iterable[PlannedBatch], held: dict[str, Claim]) -> Iterator[PlannedBatch]:
    """Those packs that nobody else trains, each claimed when it is asked for."""
    for pack in packs:
        claim = store.claim(pack)
        if claim is None:
            continue
        if not store.missing(pack.keys):  # somebody has finished it meanwhile
            claim.give_back(done=True)
            continue
        if replaced(store, pack):
            claim.give_back()
            continue
        held[pack.key] = claim
        yield pack


def _most(run_config: RunConfig, *, device: str, workers: int) -> int:
    """How many runs of a condition may train together."""
    model, _ = split_config(run_config.model, dict(run_config.hyperparameters))
    return pack_size(cleaned(run_config.dataset), model, resolve(device), workers=workers)
