"""Everything that a store holds, one line per condition, whether or not a table of the paper asks for it."""

from __future__ import annotations

from typing import Any

from apgcn.datasets import CATALOGUE
from apgcn.experiments.columns import GRAPH, MODEL, RUNS, STEPS, VALIDATION
from apgcn.experiments.exhibit import Column, Exhibit, Row, Table
from apgcn.experiments.keys import Condition, by_condition
from apgcn.experiments.mean import Mean
from apgcn.experiments.store import Store
from apgcn.experiments.words import plus_minus, settings_words

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
