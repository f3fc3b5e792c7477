"""Progress of a store: the runs that are done, those that are left, and an estimate of the time they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.records import PlannedBatch, Record
from apgcn.benchmark.store import Store
from apgcn.data import DATASETS


@dataclass(frozen=True)
class RunConfigProgress:
    """Progress of one run configuration. `seconds_left` is for one worker; None while nothing similar is done."""

    run_config: RunConfig
    planned: int
    done: int
    seconds_left: float | None

    @property
    def left(self) -> int:
        return self.planned - self.done


@dataclass(frozen=True)
class StoreProgress:
    """Progress of a store; `in_training` counts the run batches that some process trains right now."""

    run_configs: tuple[RunConfigProgress, ...]
    in_training: int

    @property
    def planned(self) -> int:
        return sum(part.planned for part in self.run_configs)

    @property
    def done(self) -> int:
        return sum(part.done for part in self.run_configs)

    @property
    def seconds_left(self) -> float | None:
        """For one worker; None while a part of it cannot be estimated."""
        estimates = [part.seconds_left for part in self.run_configs]
        known = [seconds for seconds in estimates if seconds is not None]
        return sum(known) if len(known) == len(estimates) else None


def store_progress(store: Store) -> StoreProgress:
    """Progress of everything that was ever planned for a store."""
    records = store.records
    planned = [key for batch in store.planned_batches for key in batch.keys]
    recorded = dict.fromkeys(record.run_key for record in records.values())  # the text of a recorded key may differ
    devices = {batch.run_config: batch.device for batch in store.planned_batches}  # where it was planned last
    run_configs = []
    for run_config, members in group_by_config([*planned, *recorded]).items():
        left = [key for key in members if key not in recorded]
        same_device = [record for record in records.values() if record.device.startswith(devices.get(run_config, ""))]
        done = len(members) - len(left)
        run_configs.append(RunConfigProgress(run_config, len(members), done, estimate_seconds(left, same_device)))
    return StoreProgress(tuple(run_configs), len(store.batches_in_training))


def estimate_seconds(keys: list[RunKey], records: Iterable[Record]) -> float | None:
    """Time that runs of one run configuration will take, from the recorded runs of the same model.

    The mean time on the same graph, or else the mean on other graphs, scaled by the size of the graphs. None if there
    are no such records.
    """
    if not keys:
        return 0.0
    run_config = keys[0].run_config
    same_model = [record for record in records if record.model == run_config.model]
    same_graph = [record.seconds for record in same_model if record.dataset == run_config.dataset]
    if same_graph:
        return len(keys) * sum(same_graph) / len(same_graph)
    scaled = [record.seconds / graph_size(record.dataset) for record in same_model if graph_size(record.dataset)]
    if not scaled or not graph_size(run_config.dataset):
        return None
    return len(keys) * graph_size(run_config.dataset) * sum(scaled) / len(scaled)


def relative_time(batch: PlannedBatch, *, records: Iterable[Record]) -> float:
    """The time of a run batch, relative to others with the same records.

    In seconds where runs were recorded on its device, of the model or else of any; without them by the graph's size.
    """
    same_device = [record for record in records if record.device.startswith(batch.device)]
    seconds = estimate_seconds(list(batch.keys), same_device)
    if seconds:
        return seconds
    ratios = [record.seconds / graph_size(record.dataset) for record in same_device if graph_size(record.dataset)]
    scale = sum(ratios) / len(ratios) if any(ratios) else 1.0
    return len(batch.runs) * (graph_size(batch.run_config.dataset) or 1.0) * scale


def graph_size(dataset: str) -> float:
    """Nodes and directed edges of a graph, to which the cost of training is proportional; 0 for an unknown graph."""
    graph = DATASETS.get(dataset)
    return graph.nodes + 2 * graph.edges if graph else 0.0
