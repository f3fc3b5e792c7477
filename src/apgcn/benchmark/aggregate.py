"""Means over the runs of one run configuration, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from apgcn._utils.significance import bootstrap_half_width, cluster_bootstrap_half_width
from apgcn.benchmark.records import Record


@dataclass(frozen=True)
class Summary:
    """Means over runs, accuracies in percent.

    Intervals are half-widths of 95 % bootstrap confidence intervals. `interval` is the paper's: runs are resampled as
    if they were independent, and the larger side counts. `split_interval` resamples whole splits. Both are None where
    there are too few runs to resample.
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
        """The values that tables show."""
        shown = ("runs", "accuracy", "interval", "split_interval", "validation_accuracy", "validation_interval")
        return {name: getattr(self, name) for name in (*shown, "steps", "steps_interval")}

    @classmethod
    def from_records(cls, records: Sequence[Record]) -> Summary:
        """Summary of the records of one run configuration."""
        accuracies, with_accuracy = _percent(records, lambda record: record.test_accuracy)
        validation, _ = _percent(records, lambda record: record.validation_accuracy)
        steps = [record.steps_mean for record in records]
        return cls(
            runs=len(records),
            accuracy=_mean(accuracies),
            interval=bootstrap_half_width(accuracies),
            split_interval=cluster_bootstrap_half_width(accuracies, [record.split for record in with_accuracy]),
            validation_accuracy=_mean(validation),
            validation_interval=bootstrap_half_width(validation),
            steps=_mean(steps),
            steps_interval=bootstrap_half_width(steps),
            epochs=_mean([record.epochs for record in records]),
            seconds=sum(record.seconds for record in records),
            diverged=sum(record.best_epoch == 0 for record in records),
        )


def _percent(records: Sequence[Record], accuracy: Callable[[Record], float | None]) -> tuple[list[float], list[Record]]:
    """An accuracy in percent of the records that have it, and these records."""
    with_accuracy = [record for record in records if accuracy(record) is not None]
    return [100 * (accuracy(record) or 0.0) for record in with_accuracy], with_accuracy


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


Name = TypeVar("Name")


def restrict_to_common_runs(records: Mapping[Name, Sequence[Record]]) -> dict[Name, list[Record]]:
    """The records of the runs that all run configurations have, so that their means are over the same runs.

    A run configuration that has no run in common with those that have more, because it is not trained yet, is left out.

    Parameters
    ----------
    records : mapping
        Records by a name of their run configuration.
    """
    by_run = {name: {_run(record): record for record in members} for name, members in records.items()}
    shared: set[tuple[int, int]] = set()
    compared: list[Name] = []
    for name in sorted(by_run, key=lambda name: -len(by_run[name])):
        common = shared & by_run[name].keys() if compared else set(by_run[name])
        if common:
            shared, compared = common, [*compared, name]
    return {
        name: [record for run, record in by_run[name].items() if run in shared] for name in records if name in compared
    }


def paired_difference(first: Sequence[Record], second: Sequence[Record]) -> tuple[float | None, float | None]:
    """Mean of the first's test accuracy less the second's, in percentage points, over the runs that both have.

    Returns
    -------
    The mean, and the half-width of its 95 % interval by resampling whole splits; None where there are too few runs
    """
    accuracies, reference = (
        {_run(record): 100 * record.test_accuracy for record in records if record.test_accuracy is not None}
        for records in (first, second)
    )
    differences = {run: accuracies[run] - reference[run] for run in accuracies if run in reference}
    half_width = cluster_bootstrap_half_width(list(differences.values()), [split for split, _ in differences])
    return _mean([*differences.values()]), half_width


def _run(record: Record) -> tuple[int, int]:
    return record.split, record.init
