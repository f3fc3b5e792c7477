"""Fake records, for tests of tables, figures and reports that need no training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.records import PlannedBatch, Record
from apgcn.benchmark.store import Store

PROVENANCE = {
    "device": "cpu",
    "hardware": "a made-up CPU",
    "versions": {"apgcn": "0", "torch": "0"},
    "command": "apgcn reproduce nothing",
}


def fake_record(key: RunKey, test: float | None, steps: Sequence[int], *, row: int = 0, file: str = "", **fields):
    """A record with this test accuracy and these steps of its nodes."""
    run_config = key.run_config
    hyperparameters = dict(run_config.hyperparameters)
    max_steps, first_step = hyperparameters.get("max_steps", 10), min(hyperparameters.get("min_steps", 1), 1)
    values = {
        "key": key.text,
        "dataset": run_config.dataset,
        "model": run_config.model,
        "hyperparameters": hyperparameters,
        "train_per_class": run_config.train_per_class,
        "seed_set": run_config.seed_set,
        "split": key.split,
        "init": key.init,
        "train_accuracy": 1.0,
        "stopping_accuracy": 0.9,
        "validation_accuracy": 0.8,
        "test_accuracy": test,
        "steps_mean": float(np.mean(steps)),
        "steps_histogram": tuple(np.bincount(steps, minlength=max_steps + 1)[first_step:].tolist()),
        "steps_file": file,
        "steps_row": row,
        "best_epoch": 10,
        "epochs": 20,
        "seconds": 2.0,
        "batch_runs": 1,
        **PROVENANCE,
    }
    return Record(**{**values, **fields})


def add_fake_records(
    store: Store, run_config: RunConfig, accuracies: Sequence[float | None], steps=None, **fields
) -> list[Record]:
    """Add fake records of the first runs of a run config to a store; `steps` has shape (runs, nodes)."""
    keys = run_config.first_runs(len(accuracies))
    steps = np.full((len(keys), 4), 3) if steps is None else np.asarray(steps)
    batch = PlannedBatch.from_keys(keys, "cpu")
    records = [
        fake_record(key, accuracy, steps[row], row=row, file=Store.steps_file(batch), **fields)
        for row, (key, accuracy) in enumerate(zip(keys, accuracies, strict=True))
    ]
    store.add_records(batch, records, steps)
    return records


def results_without_times(store: Store | Path) -> dict[str, dict]:
    """The records of a store as JSON values, without the times and the threads, which depend on the executor."""
    records = (store if isinstance(store, Store) else Store(store)).records
    return {key: {**record.to_json(), "seconds": None, "threads": None} for key, record in records.items()}
