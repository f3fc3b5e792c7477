"""Records without a training, for tests of what is computed from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.records import PlannedBatch, Record
from apgcn.benchmark.store import Store

ORIGIN = {
    "device": "cpu",
    "hardware": "a made-up processor",
    "versions": {"apgcn": "0", "torch": "0"},
    "command": "apgcn reproduce nothing",
}


def made_record(key: RunKey, test: float | None, steps: Sequence[int], *, row: int = 0, file: str = "", **fields):
    """A record with this test accuracy and these steps of its nodes."""
    run_config = key.run_config
    longest = dict(run_config.hyperparameters).get("max_steps", 10)
    values = {
        "key": key.text,
        "dataset": run_config.dataset,
        "model": run_config.model,
        "hyperparameters": dict(run_config.hyperparameters),
        "train_per_class": run_config.train_per_class,
        "seed_set": run_config.seed_set,
        "split": key.split,
        "init": key.init,
        "train_accuracy": 1.0,
        "stopping_accuracy": 0.9,
        "validation_accuracy": 0.8,
        "test_accuracy": test,
        "steps_mean": float(np.mean(steps)),
        "steps_histogram": tuple(np.bincount(steps, minlength=longest + 1)[1:].tolist()),
        "steps_file": file,
        "steps_row": row,
        "best_epoch": 10,
        "epochs": 20,
        "seconds": 2.0,
        "batch_runs": 1,
        **ORIGIN,
    }
    return Record(**{**values, **fields})


def keep(store: Store, run_config: RunConfig, accuracies: Sequence[float | None], steps=None, **fields) -> list[Record]:
    """Put records of the first runs of a condition into a store; `steps` has shape (runs, nodes)."""
    keys = run_config.first_runs(len(accuracies))
    steps = np.full((len(keys), 4), 3) if steps is None else np.asarray(steps)
    pack = PlannedBatch.of(keys, "cpu")
    records = [
        made_record(key, accuracy, steps[row], row=row, file=Store.steps_file(pack), **fields)
        for row, (key, accuracy) in enumerate(zip(keys, accuracies, strict=True))
    ]
    store.keep(pack, records, steps)
    return records


def results(store: Store | Path) -> dict[str, dict]:
    """What was found, without how long it took."""
    records = (store if isinstance(store, Store) else Store(store)).records
    return {key: {**record.line, "seconds": None} for key, record in records.items()}
