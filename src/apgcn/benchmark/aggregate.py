"""What do the runs of one condition say together?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from apgcn._utils.significance import bootstrap_half_width, split_half_width
from apgcn.benchmark.records import Record


@dataclass(frozen=True)
class Summary:
    """Means over runs, accuracies in percent.

    `interval` is the paper's: 95 %, runs resampled as if independent, the larger side. `split_interval` resamples whole
    splits. Both are None where there is too little to resample.
    """

    runs: int
    accuracy: float | None
    interval: float | None
    split_interval: float | None
    validation_accuracy: float | None
    validation_interval: float | None
    steps: float | None
    steps_interval: float | None
    epochs: float | None
    seconds: float
    diverged: int

    @property
    def row(self) -> dict[str, Any]:
        """What tables show of it."""
        shown = ("runs", "accuracy", "interval", "split_interval", "validation_accuracy", "validation_interval")
        return {name: getattr(self, name) for name in (*shown, "steps", "steps_interval")}

    @classmethod
    def of(cls, records: Sequence[Record]) -> Summary:
        """The mean of records of one condition."""
        accuracies, judged = _percent(records, lambda record: record.test_accuracy)
        validation, _ = _percent(records, lambda record: record.validation_accuracy)
        steps = [record.steps_mean for record in records]
        return cls(
            runs=len(records),
            accuracy=_mean(accuracies),
            interval=bootstrap_half_width(accuracies),
            split_interval=split_half_width(accuracies, [record.split for record in judged]),
            validation_accuracy=_mean(validation),
            validation_interval=bootstrap_half_width(validation),
            steps=_mean(steps),
            steps_interval=bootstrap_half_width(steps),
            epochs=_mean([record.epochs for record in records]),
            seconds=sum(record.seconds for record in records),
            diverged=sum(record.best_epoch == 0 for record in records),
        )


def _percent(records: Sequence[Record], accuracy: Callable[[Record], float | None]) -> tuple[list[float], list[Record]]:
    """An accuracy of those records that have it, in percent, and these records."""
    judged = [record for record in records if accuracy(record) is not None]
    return [100 * (accuracy(record) or 0.0) for record in judged], judged


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


Name = TypeVar("Name")


def comparable(found: Mapping[Name, Sequence[Record]]) -> dict[Name, list[Record]]:
    """The records of those runs that every condition has, so that all means are over the same runs.

    A condition that has none of the runs of those with more, because its training is not done, is left out.
    """
    by_run = {name: {_run(record): record for record in records} for name, records in found.items()}
    shared: set[tuple[int, int]] = set()
    compared: list[Name] = []
    for name in sorted(by_run, key=lambda name: -len(by_run[name])):
        common = shared & by_run[name].keys() if compared else set(by_run[name])
        if common:
            shared, compared = common, [*compared, name]
    return {
        name: [record for run, record in by_run[name].items() if run in shared] for name in found if name in compared
    }


def _run(record: Record) -> tuple[int, int]:
    return record.split, record.init
