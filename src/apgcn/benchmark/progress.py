"""How far is a store? What is done, what is left, and how long that will take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.data import CATALOGUE


@dataclass(frozen=True)
class Part:
    """The runs of one condition. `seconds_left` is for one worker; None while nothing comparable is done."""

    run_config: RunConfig
    planned: int
    done: int
    seconds_left: float | None

    @property
    def left(self) -> int:
        return self.planned - self.done


@dataclass(frozen=True)
class StoreProgress:
    """A store at one moment; `in_training` counts the packs that some process trains right now."""

    parts: tuple[Part, ...]
    in_training: int

    @property
    def planned(self) -> int:
        return sum(part.planned for part in self.parts)

    @property
    def done(self) -> int:
        return sum(part.done for part in self.parts)

    @property
    def seconds_left(self) -> float | None:
        """For one worker; None while some of it cannot be guessed."""
        parts = [part.seconds_left for part in self.parts]
        known = [seconds for seconds in parts if seconds is not None]
        return sum(known) if len(known) == len(parts) else None


def standing(store: Store) -> StoreProgress:
    """Everything that was ever planned for a store, and how much of it is there."""
    records = store.records
    keys = [key for pack in store.planned for key in pack.keys]
    keys += [record.run_key for record in records.values()]
    devices = {pack.run_config: pack.device for pack in store.planned}  # where it was planned last
    parts = []
    for run_config, members in group_by_config(keys).items():
        left = store.missing(members)
        there = [record for record in records.values() if record.device.startswith(devices.get(run_config, ""))]
        parts.append(Part(run_config, len(members), len(members) - len(left), seconds_for(left, there)))
    return StoreProgress(tuple(parts), len(store.in_training))


def seconds_for(keys: list[RunKey], records: Iterable[Record]) -> float | None:
    """What runs of one condition will take: as long as those recorded on the same graph, or else as those of the same
    model on other graphs, by the size of the graphs. None where there is nothing to go by.
    """
    if not keys:
        return 0.0
    run_config = keys[0].run_config
    alike = [record for record in records if record.model == run_config.model]
    same = [record.seconds for record in alike if record.dataset == run_config.dataset]
    if same:
        return len(keys) * sum(same) / len(same)
    scaled = [record.seconds / size(record.dataset) for record in alike if size(record.dataset)]
    if not scaled or not size(run_config.dataset):
        return None
    return len(keys) * size(run_config.dataset) * sum(scaled) / len(scaled)


def size(dataset: str) -> float:
    """Of a graph, to compare the work on it with that on others: nodes and directed edges. 0 for one nobody knows."""
    graph = CATALOGUE.get(dataset)
    return graph.nodes + 2 * graph.edges if graph else 0.0
