"""The work of one process: train a planned run batch, or time its epochs, on a graph that is loaded once.

`cleaned_graph` caches the benchmark's graphs per process. `train_planned_batch` turns a planned run batch into records,
and `time_epoch` measures an epoch for Table 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from apgcn._utils.validation import check_int
from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.records import PlannedBatch, Record, TimingRecord, timing_key
from apgcn.benchmark.store import Store
from apgcn.data import dataset_info, load_prepared, published_splits
from apgcn.data.graph import Graph
from apgcn.data.splits import PUBLISHED_SPLITS, Split, split_for_test, split_for_validation
from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import hardware, resolve_device
from apgcn.ops.threads import kernel_threads, resolve_threads
from apgcn.training.batching import make_batches
from apgcn.training.config import TrainingConfig
from apgcn.training.cuda_graphs import measure_ms, side_stream
from apgcn.training.outputs import versions
from apgcn.training.runs import Run, RunResult
from apgcn.training.trainer import BatchedTrainer, Progress, train_batch

WARM_UP_EPOCHS, TIMED_EPOCHS = 5, 30

_received: dict[str, tuple[Graph, tuple[Split, ...]]] = {}  # that another machine has sent


def cleaned_graph(name: str) -> Graph:
    """A graph of the registry as the benchmark uses it, see `load_prepared`, loaded once per process."""
    return _received[name][0] if name in _received else load_cleaned(name)


def file_splits(name: str) -> tuple[Split, ...]:
    """The splits that a graph of the registry is published with, read once per process; none if they are drawn."""
    return _received[name][1] if name in _received else _load_splits(name)


def cache_graph(name: str, graph: Graph, splits: tuple[Split, ...]) -> None:
    """Use a graph and its splits that another process has read, because this one may not have the file."""
    _received[name] = graph, splits


@lru_cache(maxsize=8)
def load_cleaned(name: str) -> Graph:
    """A graph of the registry from its file, cleaned unless it is published with splits."""
    return load_prepared(name)


@lru_cache(maxsize=8)
def _load_splits(name: str) -> tuple[Split, ...]:
    return published_splits(name) if dataset_info(name).has_splits else ()


@lru_cache(maxsize=1)
def _device_graph(dataset: str, device: torch.device) -> DeviceGraph:
    return DeviceGraph.from_graph(cleaned_graph(dataset), device=device)


class TrainedBatch(NamedTuple):
    """A trained run batch: one record per run, and K of shape (runs, nodes)."""

    records: list[Record]
    steps: np.ndarray


def train_planned_batch(
    batch: PlannedBatch, report: Callable[[float], None], *, device: str, command: str
) -> TrainedBatch:
    """Train a planned run batch, with the threads that the executor has chosen by `kernel_threads`.

    Parameters
    ----------
    batch : PlannedBatch
    report : function
        Called with the fraction that is done.
    device : str
    command : str
        Stored in the records as the command that they come from.
    """
    torch_device = resolve_device(device)
    model, training = batch.run_config.configs
    runs = [run_from_key(key) for key in batch.keys]
    threads = resolve_threads()
    with kernel_threads(threads):
        graph = _device_graph(batch.run_config.dataset, torch_device)
        started = time.perf_counter()
        results = _train_by_set_sizes(graph, runs, model, training, report)
        seconds = time.perf_counter() - started
    epochs = sum(result.epochs for result in results)
    origin = provenance(torch_device, command, threads=threads)
    records = [
        Record.from_result(
            key,
            result,
            steps_file=Store.steps_file(batch),
            steps_row=row,
            seconds=seconds * result.epochs / epochs,
            batch_runs=len(runs),
            provenance=origin,
        )
        for row, (key, result) in enumerate(zip(batch.keys, results, strict=True))
    ]
    return TrainedBatch(records, np.stack([result.steps for result in results]))


def _train_by_set_sizes(
    graph: DeviceGraph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    report: Callable[[float], None],
) -> list[RunResult]:
    """The results of runs; those whose sets are equally large train together, which published splits may not be."""
    results: dict[int, RunResult] = {}
    for group in make_batches(runs, max_size=len(runs)):
        done, size = len(results), len(group)

        def report_group(progress: Progress, done: int = done, size: int = size) -> None:
            report((done + size * progress.fraction) / len(runs))

        trained = train_batch(graph, [runs[index] for index in group], model, training, report_group)
        results.update(zip(group, trained, strict=True))
    return [results[index] for index in range(len(runs))]


def run_from_key(key: RunKey) -> Run:
    """The split and the initialisation of a run key."""
    run_config = key.run_config
    if run_config.seed_set == "published":
        check_int("split", key.split, minimum=0, maximum=len(PUBLISHED_SPLITS) - 1)
        return Run(file_splits(run_config.dataset)[key.split], init=key.init, dataset=run_config.dataset)
    draw_split = split_for_test if run_config.seed_set == "test" else split_for_validation
    visible = dataset_info(run_config.dataset).visible
    labels = cleaned_graph(run_config.dataset).labels
    split = draw_split(labels, key.split, visible=visible, train_per_class=run_config.train_per_class)
    return Run(split, init=key.init, dataset=run_config.dataset)


def provenance(device: torch.device, command: str, *, threads: int) -> dict[str, Any]:
    """Device, hardware, threads, versions and command of a record."""
    return {
        "device": str(device),
        "hardware": hardware(device),
        "threads": threads if device.type == "cpu" else None,
        "versions": versions(),
        "command": command,
    }


def time_epoch(run_config: RunConfig, *, device: str, command: str) -> TimingRecord:
    """Measure the epochs of the first run of a run configuration, on one thread of a CPU."""
    torch_device = resolve_device(device)
    model, training = run_config.configs
    with kernel_threads(1), side_stream(torch_device):
        trainer = BatchedTrainer(
            DeviceGraph.from_graph(cleaned_graph(run_config.dataset), device=torch_device),
            [run_from_key(key) for key in run_config.first_runs(1)],
            model,
            training,
        )
        epochs = [_epoch_ms(trainer, torch_device) for _ in range(WARM_UP_EPOCHS + TIMED_EPOCHS)]
    times = np.array(epochs)[WARM_UP_EPOCHS:]  # (epochs, 2)
    low, high = np.percentile(times.sum(axis=1), [25, 75])
    return TimingRecord(
        key=timing_key(run_config, hardware(torch_device)),
        dataset=run_config.dataset,
        model=run_config.model,
        hyperparameters=dict(run_config.hyperparameters),
        batch_runs=1,
        epochs=TIMED_EPOCHS,
        step_ms=float(np.median(times[:, 0])),
        evaluation_ms=float(np.median(times[:, 1])),
        epoch_ms=float(np.median(times.sum(axis=1))),
        epoch_low=float(low),
        epoch_high=float(high),
        **provenance(torch_device, command, threads=1),
    )


def _epoch_ms(trainer: BatchedTrainer, device: torch.device) -> tuple[float, ...]:
    """Milliseconds of the training step and of the evaluation."""
    trainer.begin_epoch()
    return measure_ms(trainer.step, trainer.evaluate_and_snapshot, device=device)
