"""How does a planned pack become records?"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from apgcn.benchmark.config import RunKey
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.records import PlannedBatch, Record
from apgcn.benchmark.store import Store
from apgcn.data import describe
from apgcn.data.splits import split_for_test, split_for_validation
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import hardware, one_thread, resolve
from apgcn.training.config import split_config
from apgcn.training.outputs import versions
from apgcn.training.runs import Run
from apgcn.training.trainer import train_batch


class Trained(NamedTuple):
    """A pack that is done: a record per run, and K of shape (runs, nodes)."""

    records: list[Record]
    steps: np.ndarray


def train_planned(pack: PlannedBatch, report: Callable[[float], None], *, device: str, command: str) -> Trained:
    """Train a pack; `report` hears what share of it is done, `command` is what the records say they come from."""
    place = resolve(device)
    model, training = split_config(pack.run_config.model, dict(pack.run_config.hyperparameters))
    runs = [run_of(key) for key in pack.keys]
    with one_thread():
        graph = _tensors(pack.run_config.dataset, place)
        started = time.perf_counter()
        results = train_batch(graph, runs, model, training, lambda at: report(at.share))
        seconds = time.perf_counter() - started
    epochs = sum(result.epochs for result in results)
    records = [
        Record.of_result(
            key,
            result,
            steps_file=Store.steps_file(pack),
            steps_row=row,
            seconds=seconds * result.epochs / epochs,
            batch_runs=len(runs),
            origin=origin(place, command),
        )
        for row, (key, result) in enumerate(zip(pack.keys, results, strict=True))
    ]
    return Trained(records, np.stack([result.steps for result in results]))


def run_of(key: RunKey) -> Run:
    """The run that a key means."""
    run_config = key.run_config
    draw = split_for_test if run_config.seed_set == "test" else split_for_validation
    visible = describe(run_config.dataset).visible
    labels = cleaned(run_config.dataset).labels
    split = draw(labels, key.split, visible=visible, train_per_class=run_config.train_per_class)
    return Run(split, init=key.init, dataset=run_config.dataset)


def origin(device: torch.device, command: str) -> dict[str, Any]:
    """Where a number comes from."""
    return {"device": str(device), "hardware": hardware(device), "versions": versions(), "command": command}


@lru_cache(maxsize=1)
def _tensors(dataset: str, device: torch.device) -> DeviceGraph:
    return DeviceGraph.of(cleaned(dataset), device=device)
