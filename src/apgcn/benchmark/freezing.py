"""Frozen against unfrozen states of halted nodes: steps and test accuracy of both.

The paper does not freeze them, so it has no such table.
"""

from __future__ import annotations

from dataclasses import replace

from apgcn.benchmark.aggregate import Summary, paired_difference, restrict_to_common_runs
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import PROTOCOL_RUNS, RunKey, Scope
from apgcn.benchmark.formatting import ACCURACY, BY_SPLIT, GRAPH, MODEL, RUNS, STEPS, plus_minus
from apgcn.benchmark.penalty_sweep import halting_models
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.models.registry import MODELS

NOTES = (
    "In the paper the state of a halted node is updated for as long as a node that has not halted receives from it "
    "(unfrozen). Frozen, it stays as it is, and nothing is computed for it any more. Both are trained as they are "
    "evaluated, on the same splits from the same initialisations.",
    "The difference is frozen less unfrozen, in percentage points, over paired runs; ± resamples whole splits.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("halted nodes", lambda row: "frozen" if row["frozen"] else "unfrozen", is_text=True),
    RUNS,
    ACCURACY,
    BY_SPLIT,
    STEPS,
    ArtifactColumn("difference", lambda row: plus_minus(row["difference"], row["difference_interval"])),
)


def _freezable(scope: Scope) -> Scope:
    """The scope with those models only whose halted nodes can be frozen."""
    models = (model for model in halting_models(scope.models) if MODELS[model].supports_freezing)
    return replace(scope, models=tuple(models))


def plan(scope: Scope) -> list[RunKey]:
    """Every model whose nodes halt on every graph, unfrozen and frozen."""
    return [
        key
        for dataset, model in _freezable(scope).pairs()
        for frozen in (False, True)
        for key in scope.run_config(dataset, model, freeze_halted=frozen).first_runs(scope.runs or PROTOCOL_RUNS)
    ]


def build(store: Store, scope: Scope) -> Artifact:
    """Two rows per graph and model, of the same runs."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset, model in _freezable(scope).pairs():
        run_configs = {frozen: scope.run_config(dataset, model, freeze_halted=frozen) for frozen in (False, True)}
        records = restrict_to_common_runs(
            {frozen: store.records_for(run_config, scope.runs) for frozen, run_config in run_configs.items()}
        )
        if len(records) < 2:
            continue
        difference, half_width = paired_difference(records[True], records[False])
        differences: dict[bool, dict[str, float | None]] = {
            False: {"difference": None, "difference_interval": None},
            True: {"difference": difference, "difference_interval": half_width},
        }
        for frozen, members in records.items():
            summary = Summary.from_records(members).row
            rows.append({"dataset": dataset, "model": model, "frozen": frozen, **summary, **differences[frozen]})
            shown += members
    title = "unfrozen and frozen states of halted nodes"
    return Artifact("freezing", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(shown))
