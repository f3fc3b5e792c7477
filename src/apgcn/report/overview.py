"""Everything that a store holds, one line per condition, whether or not a table of the paper asks for it."""

from __future__ import annotations

from apgcn.experiments.columns import GRAPH, MODEL, RUNS, STEPS, VALIDATION
from apgcn.experiments.exhibit import Column, Exhibit, Row, Table
from apgcn.experiments.keys import by_condition
from apgcn.experiments.mean import Mean
from apgcn.experiments.store import Store
from apgcn.experiments.words import plus_minus, settings_text

NOTES = (
    "Accuracies in percent. “Validation” are runs on the validation seeds, made to choose settings: there are no test "
    "nodes in them.",
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
    Column("other than default", lambda row: row["settings"], words=True),
)


def overview(store: Store) -> Exhibit:
    """The conditions in the order in which they were first recorded."""
    rows: list[Row] = []
    for condition in by_condition(record.run_key for record in store.records.values()):
        mean = Mean.of(store.of(condition))
        rows.append(
            {
                "dataset": condition.dataset,
                "model": condition.model,
                "purpose": condition.purpose,
                "labels": condition.per_class,
                **mean.row,
                "settings": settings_text(condition.chosen),
            }
        )
    title = "everything in the store"
    return Exhibit("overview", title, Table(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(store.records.values()))
