"""Table 5: milliseconds per epoch."""

from __future__ import annotations

from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import (
    COMMAND,
    GRAPH,
    HYPERPARAMETERS,
    MODEL,
    PRESET,
    VERDICT,
    VERSIONS,
    format_hyperparameters,
    format_number,
)
from apgcn.benchmark.published import TABLE5, TIMED_MODELS
from apgcn.benchmark.records import TimingRecord, timing_key
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import TIMED_EPOCHS, WARM_UP_EPOCHS, time_epoch
from apgcn.models.registry import MODELS
from apgcn.ops.devices import hardware, resolve_device

NOTES = (
    "An epoch is a training step and an evaluation of a single run, with one thread on a CPU; medians over "
    f"{TIMED_EPOCHS} epochs after {WARM_UP_EPOCHS} warm-up epochs, and their quartiles.",
    "A model without weights has no epochs and is not here.",
    "The median does not show that every fifth epoch of AP-GCN, which updates the halting unit, takes longer.",
    "Timed once per hardware and store: remove timings.log to time again, on an otherwise idle machine.",
    "The paper does not name its GPU: compare models within one column, not our column with the paper's.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    PRESET,
    ArtifactColumn("ours, ms", lambda row: format_number(row["epoch_ms"], 1)),
    ArtifactColumn("quartiles", lambda row: f"{row['epoch_low']:.1f} to {row['epoch_high']:.1f}"),
    ArtifactColumn("step alone", lambda row: format_number(row["step_ms"], 1)),
    ArtifactColumn("paper, ms", lambda row: format_number(row["paper_ms"], 1)),
    ArtifactColumn("ours / paper", lambda row: format_number(row["ratio"])),
    VERDICT,
    ArtifactColumn("hardware", lambda row: row["hardware"], is_text=True),
)

PROVENANCE = (
    GRAPH,
    MODEL,
    HYPERPARAMETERS,
    ArtifactColumn("hardware", lambda row: f"{row['hardware']} ({row['device']})", is_text=True),
    VERSIONS,
    COMMAND,
)


def plan(scope: Scope) -> list[RunKey]:
    """No runs: a few epochs are timed instead, by `measure`."""
    return []


def measure(store: Store, scope: Scope, *, device: str, command: str) -> None:
    """Time the models and graphs that the store has no times of on this hardware, one after the other."""
    device_name = hardware(resolve_device(device))
    for dataset, model in scope.pairs():
        run_config = scope.run_config(dataset, model)
        if MODELS[model].has_weights and timing_key(run_config, device_name) not in store.timings:
            store.add_timing(time_epoch(run_config, device=device, command=command))


def build(store: Store, scope: Scope) -> Artifact:
    """Our times beside the paper's."""
    rows: list[Row] = [
        {
            "dataset": record.dataset,
            "model": record.model,
            "preset": scope.preset or record.run_config.preset,
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
            "hyperparameters": format_hyperparameters(record.hyperparameters),
            "versions": format_hyperparameters(record.versions),
            "command": record.command,
        }
        for dataset in scope.datasets
        for model in sorted(scope.models, key=_paper_order)
        if scope.includes(dataset, model)
        for record in store.timings.values()
        if (record.dataset, record.model) == (dataset, model)
        and (scope.preset is None or record.run_config == scope.run_config(dataset, model))
    ]
    table, provenance = ArtifactTable(COLUMNS, tuple(rows)), ArtifactTable(PROVENANCE, tuple(rows))
    return Artifact("table5", "milliseconds per epoch", table, notes=NOTES, provenance=provenance)


def _ratio(record: TimingRecord) -> float | None:
    paper = TABLE5.get((record.dataset, record.model))
    return record.epoch_ms / paper if paper else None


def _paper_order(model: str) -> int:
    """Position of a model in the paper's table; models that it does not have come last."""
    return TIMED_MODELS.index(model) if model in TIMED_MODELS else len(TIMED_MODELS)
