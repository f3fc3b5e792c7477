"""Freezing: what does it cost that a halted node keeps its value? Not in the paper, which only promises the saving."""

from __future__ import annotations

from dataclasses import replace

from apgcn._utils.significance import split_half_width
from apgcn.benchmark import penalty_sweep
from apgcn.benchmark.aggregate import Summary, comparable
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import PROTOCOL, RunKey, Scope
from apgcn.benchmark.formatting import ACCURACY, GRAPH, MODEL, RUNS, STEPS, number, plus_minus
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

NOTES = (
    "In the paper a node that has halted goes on changing for those who still hear it. Frozen, it keeps its value, and "
    "nothing is computed for it any more. Both are trained as they are judged, on the same splits from the same "
    "initialisations.",
    "The difference is frozen less the paper's, in percentage points, run paired with run; ± resamples whole splits.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("halted nodes", lambda row: "freeze" if row["frozen"] else "go on changing", words=True),
    RUNS,
    ACCURACY,
    ArtifactColumn("by split", lambda row: number(row["split_interval"])),
    STEPS,
    ArtifactColumn("difference", lambda row: plus_minus(row["difference"], row["difference_interval"])),
)


def plan(scope: Scope) -> list[RunKey]:
    """Every model that halts on every graph, both ways."""
    return [
        key
        for dataset, model in replace(scope, models=tuple(penalty_sweep.sweeping(scope.models))).pairs()
        for frozen in (False, True)
        for key in scope.run_config(dataset, model, freeze_halted=frozen).first_runs(scope.runs or PROTOCOL)
    ]


def content(store: Store, scope: Scope) -> Artifact:
    """Two lines per graph, of the same runs."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset, model in replace(scope, models=tuple(penalty_sweep.sweeping(scope.models))).pairs():
        conditions = {frozen: scope.run_config(dataset, model, freeze_halted=frozen) for frozen in (False, True)}
        found = comparable({frozen: store.of(run_config, scope.runs) for frozen, run_config in conditions.items()})
        if len(found) < 2:
            continue
        for frozen, records in found.items():
            difference = _difference(found) if frozen else {"difference": None, "difference_interval": None}
            rows.append({"dataset": dataset, "model": model, "frozen": frozen, **Summary.of(records).row, **difference})
            shown += records
    title = "a halted node goes on changing, or keeps its value"
    return Artifact("freezing", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(shown))


def _difference(found: dict[bool, list[Record]]) -> dict[str, float | None]:
    """Frozen less the paper's, and the half-width of its interval over splits."""
    changing, frozen = (
        {
            (record.split, record.init): 100 * record.test_accuracy
            for record in found[which]
            if record.test_accuracy is not None
        }
        for which in (False, True)
    )
    differences = {run: frozen[run] - changing[run] for run in frozen if run in changing}
    width = split_half_width(list(differences.values()), [split for split, _ in differences])
    return {"difference": sum(differences.values()) / len(differences), "difference_interval": width}
