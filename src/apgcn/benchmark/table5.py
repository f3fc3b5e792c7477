"""Table 5: milliseconds per epoch."""

from __future__ import annotations

from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import GRAPH, MODEL, hyperparameters_text, number
from apgcn.benchmark.published import TABLE5, TIMED_MODELS
from apgcn.benchmark.records import TimingRecord, timing_key
from apgcn.benchmark.store import Store
from apgcn.benchmark.timing import TIMED, WARM_UP, timed
from apgcn.models.registry import MODELS
from apgcn.ops.devices import hardware, resolve

NOTES = (
    "An epoch is a training step and an evaluation of one run alone (a pack of one), one thread on a CPU; medians over "
    f"{TIMED} epochs after {WARM_UP} that do not count, and their quartiles.",
    "A model without weights has no epochs and is not here.",
    "A median does not see that AP-GCN's halting unit learns on every fifth epoch only, which makes that one longer.",
    "Timed once per hardware and store: remove timings.log to time again, on a machine that does nothing else.",
    "The paper does not name its GPU: compare models within one column, not our column with the paper's.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("hyperparameters", lambda row: row["settings_kind"], words=True),
    ArtifactColumn("ours, ms", lambda row: number(row["epoch_ms"], 1)),
    ArtifactColumn("quartiles", lambda row: f"{row['epoch_low']:.1f} to {row['epoch_high']:.1f}"),
    ArtifactColumn("step alone", lambda row: number(row["step_ms"], 1)),
    ArtifactColumn("paper, ms", lambda row: number(row["paper_ms"], 1)),
    ArtifactColumn("ours / paper", lambda row: number(row["ratio"])),
    ArtifactColumn("verdict", lambda row: row["verdict"], words=True),
    ArtifactColumn("hardware", lambda row: row["hardware"], words=True),
)

ORIGIN = (
    GRAPH,
    MODEL,
    ArtifactColumn("hyperparameters", lambda row: row["hyperparameters"], words=True),
    ArtifactColumn("hardware", lambda row: f"{row['hardware']} ({row['device']})", words=True),
    ArtifactColumn("versions", lambda row: row["versions"], words=True),
    ArtifactColumn("command", lambda row: row["command"], words=True),
)


def plan(scope: Scope) -> list[RunKey]:
    """Nothing is trained to its end."""
    return []


def measure(store: Store, scope: Scope, *, device: str, command: str) -> None:
    """Time the models and graphs that were not timed on this hardware yet, one after the other."""
    place = hardware(resolve(device))
    for dataset, model in scope.pairs():
        run_config = scope.run_config(dataset, model)
        if MODELS[model].has_weights and timing_key(run_config, place) not in store.timings:
            store.keep_timing(timed(run_config, device=device, command=command))


def content(store: Store, scope: Scope) -> Artifact:
    """Ours beside the paper's."""
    rows: list[Row] = [
        {
            "dataset": record.dataset,
            "model": record.model,
            "settings_kind": scope.kind or record.run_config.kind,
            "epoch_ms": record.epoch_ms,
            "epoch_low": record.epoch_low,
            "epoch_high": record.epoch_high,
            "step_ms": record.step_ms,
            "evaluation_ms": record.evaluation_ms,
            "paper_ms": TABLE5.get((record.dataset, record.model)),
            "ratio": _ratio(record),
            "verdict": "other hardware" if _ratio(record) else "not in the paper",
            "hardware": record.hardware,
            "device": record.device,
            "hyperparameters": hyperparameters_text(record.hyperparameters),
            "versions": hyperparameters_text(record.versions),
            "command": record.command,
        }
        for dataset in scope.datasets
        for model in sorted(scope.models, key=_order)
        if scope.takes(dataset, model)
        for record in store.timings.values()
        if (record.dataset, record.model) == (dataset, model)
        and (scope.kind is None or record.run_config == scope.run_config(dataset, model))
    ]
    table, origin = ArtifactTable(COLUMNS, tuple(rows)), ArtifactTable(ORIGIN, tuple(rows))
    return Artifact("table5", "milliseconds per epoch", table, notes=NOTES, origin=origin)


def _ratio(record: TimingRecord) -> float | None:
    paper = TABLE5.get((record.dataset, record.model))
    return record.epoch_ms / paper if paper else None


def _order(model: str) -> int:
    return TIMED_MODELS.index(model) if model in TIMED_MODELS else len(TIMED_MODELS)
