"""What did tuning find? The settings that were tried on the validation seeds, the best first."""

from __future__ import annotations

from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, group_by_config
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, VALIDATION, hyperparameters_text
from apgcn.benchmark.store import Store

NOTES = (
    "Mean accuracy on validation nodes in percent, over runs on the validation seeds; there are no test nodes in these "
    "splits. The best of many is a little flattered by luck: judge the chosen settings on the test seeds, once. Trials "
    "with fewer runs come last.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("place", lambda row: str(row["place"])),
    RUNS,
    VALIDATION,
    STEPS,
    ArtifactColumn("changed settings", lambda row: row["hyperparameters"], words=True),
)


def content(store: Store, *, dataset: str | None = None, model: str | None = None) -> Artifact:
    """Per graph and model all trials, by their score; or those of one graph or one model alone."""
    records = [
        record
        for record in store.records.values()
        if record.seed_set == "validation" and dataset in (None, record.dataset) and model in (None, record.model)
    ]
    groups: dict[tuple[str, str], list[tuple[RunConfig, Summary]]] = {}
    for run_config in group_by_config(record.run_key for record in records):
        mean = Summary.of(store.of(run_config))
        groups.setdefault((run_config.dataset, run_config.model), []).append((run_config, mean))
    rows: list[Row] = []
    for members in groups.values():
        members.sort(key=lambda member: (-member[1].runs, -(member[1].validation_accuracy or 0.0)))
        rows += [_row(place, run_config, mean) for place, (run_config, mean) in enumerate(members, start=1)]
    title = "settings tried on the validation seeds"
    return Artifact("tuning", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(records))


def _row(place: int, run_config: RunConfig, mean: Summary) -> Row:
    return {
        "dataset": run_config.dataset,
        "model": run_config.model,
        "place": place,
        **mean.row,
        "hyperparameters": hyperparameters_text(run_config.changes) or "none: where the search began",
    }
