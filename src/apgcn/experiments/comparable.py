"""Which records may be compared? Those of the same runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from apgcn.experiments.record import Record

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
    return record.split, record.initialisation
