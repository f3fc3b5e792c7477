"""What is in a report? Every table and figure of the paper, what tuning found, and all there is."""

from __future__ import annotations

from typing import Any

from apgcn.benchmark import tuning_table
from apgcn.benchmark.aggregate import Mean
from apgcn.benchmark.artifacts import Column, Exhibit, Row, Table
from apgcn.benchmark.config import Condition, by_condition
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, VALIDATION, plus_minus, settings_words
from apgcn.benchmark.registry import everything
from apgcn.benchmark.store import Store
from apgcn.data import CATALOGUE


def contents(store: Store) -> list[Exhibit]:
    """The exhibits in the order of the page; those of the paper are there even if nothing was run for them."""
    exhibits = [experiment.content(store, scope) for experiment, scope in everything(store)]
    further = [tuning_table.content(store), overview(store)]
    return [*exhibits, *(exhibit for exhibit in further if exhibit.recorded)]


NOTES = (
    "Accuracies in percent. Runs “for validation” are on the validation seeds, made to choose settings: their splits "
    "have no test nodes.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    Column("for", lambda row: row["purpose"], words=True),
    Column("labels a class", lambda row: str(row["labels"])),
    RUNS,
    Column("on test nodes", lambda row: plus_minus(row["accuracy"], row["interval"])),
    VALIDATION,
    STEPS,
    Column("settings", lambda row: row["settings"], words=True),
)


def overview(store: Store) -> Exhibit:
    """The conditions by graph, model and what was changed."""
    rows: list[Row] = []
    conditions = by_condition(record.run_key for record in store.records.values())
    for condition in sorted(conditions, key=_order):
        mean = Mean.of(store.of(condition))
        rows.append(
            {
                "dataset": condition.dataset,
                "model": condition.model,
                "purpose": condition.purpose,
                "labels": condition.per_class,
                **mean.row,
                "settings": settings_words(condition),
            }
        )
    title = "everything in the store"
    return Exhibit("overview", title, Table(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(store.records.values()))


def _order(condition: Condition) -> tuple[Any, ...]:
    """The catalogue's order of graphs; strangers come last."""
    known = [*CATALOGUE]
    place = known.index(condition.dataset) if condition.dataset in known else len(known)
    changes = [(name, str(type(value)), value) for name, value in condition.changes.items()]
    return place, condition.dataset, condition.model, condition.purpose, condition.per_class, changes
