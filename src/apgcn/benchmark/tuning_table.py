"""What did tuning find? The settings that were tried on the validation seeds, the best first."""

from __future__ import annotations

from apgcn.benchmark.aggregate import Mean
from apgcn.benchmark.artifacts import Column, Exhibit, Row, Table
from apgcn.benchmark.config import Condition, by_condition
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, VALIDATION, settings_text
from apgcn.benchmark.store import Store

NOTES = (
    "Mean accuracy on validation nodes in percent, over runs on the validation seeds; there are no test nodes in these "
    "splits. The best of many is a little flattered by luck: judge the chosen settings on the test seeds, once. Trials "
    "with fewer runs come last.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    Column("place", lambda row: str(row["place"])),
    RUNS,
    VALIDATION,
    STEPS,
    Column("changed settings", lambda row: row["settings"], words=True),
)


def content(store: Store, *, dataset: str | None = None, model: str | None = None) -> Exhibit:
    """Per graph and model all trials, by their score; or those of one graph or one model alone."""
    records = [
        record
        for record in store.records.values()
        if record.purpose == "validation" and dataset in (None, record.dataset) and model in (None, record.model)
    ]
    groups: dict[tuple[str, str], list[tuple[Condition, Mean]]] = {}
    for condition in by_condition(record.run_key for record in records):
        mean = Mean.of(store.of(condition))
        groups.setdefault((condition.dataset, condition.model), []).append((condition, mean))
    rows: list[Row] = []
    for members in groups.values():
        members.sort(key=lambda member: (-member[1].runs, -(member[1].validation_accuracy or 0.0)))
        rows += [_row(place, condition, mean) for place, (condition, mean) in enumerate(members, start=1)]
    title = "settings tried on the validation seeds"
    return Exhibit("tuning", title, Table(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(records))


def _row(place: int, condition: Condition, mean: Mean) -> Row:
    return {
        "dataset": condition.dataset,
        "model": condition.model,
        "place": place,
        **mean.row,
        "settings": settings_text(condition.changes) or "none: where the search began",
    }
