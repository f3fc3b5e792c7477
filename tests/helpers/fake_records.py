"""Records without a training, for tests of what is computed from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apgcn.benchmark.config import Condition, RunKey
from apgcn.benchmark.records import Record
from apgcn.benchmark.scheduler import PlannedPack
from apgcn.benchmark.store import Store

ORIGIN = {
    "device": "cpu",
    "hardware": "a made-up processor",
    "versions": {"apgcn": "0", "torch": "0"},
    "command": "apgcn reproduce nothing",
}


def made_record(key: RunKey, test: float | None, steps: Sequence[int], *, row: int = 0, file: str = "", **fields):
    """A record with this test accuracy and these steps of its nodes."""
    condition = key.condition
    longest = dict(condition.settings).get("max_steps", 10)
    values = {
        "key": key.text,
        "dataset": condition.dataset,
        "model": condition.model,
        "settings": dict(condition.settings),
        "per_class": condition.per_class,
        "purpose": condition.purpose,
        "split": key.split,
        "initialisation": key.initialisation,
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
        "pack_runs": 1,
        **ORIGIN,
    }
    return Record(**{**values, **fields})


def keep(store: Store, condition: Condition, accuracies: Sequence[float | None], steps=None, **fields) -> list[Record]:
    """Put records of the first runs of a condition into a store; `steps` has shape (runs, nodes)."""
    keys = condition.first_runs(len(accuracies))
    steps = np.full((len(keys), 4), 3) if steps is None else np.asarray(steps)
    pack = PlannedPack.of(keys, "cpu")
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
