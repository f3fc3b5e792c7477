"""Sections of a report: the artifacts of a store, an overview of its records, and the provenance of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apgcn.benchmark import tuning
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, default_hyperparameters, group_by_config
from apgcn.benchmark.formatting import (
    COMMAND,
    GRAPH,
    HYPERPARAMETERS,
    MODEL,
    RUNS,
    STEPS,
    TRAIN_PER_CLASS_COLUMN,
    VALIDATION,
    VERSIONS,
    format_hyperparameters,
    format_number,
    model_title,
    plus_minus,
    preset_or_changes,
)
from apgcn.benchmark.records import Record
from apgcn.benchmark.registry import artifacts_in_store
from apgcn.benchmark.store import Store
from apgcn.data import DATASETS

OVERVIEW_NOTES = (
    "Accuracies in percent. Runs on the validation seeds were made to choose hyperparameters: their splits have no "
    "test nodes.",
)

OVERVIEW_COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("seeds", lambda row: row["seed_set"], is_text=True),
    TRAIN_PER_CLASS_COLUMN,
    RUNS,
    ArtifactColumn("on test nodes", lambda row: plus_minus(row["accuracy"], row["interval"])),
    VALIDATION,
    STEPS,
    HYPERPARAMETERS,
)

PROVENANCE_COLUMNS = (
    GRAPH,
    MODEL,
    TRAIN_PER_CLASS_COLUMN,
    RUNS,
    ArtifactColumn("epochs", lambda row: format_number(row["epochs"], 0)),
    ArtifactColumn("seconds per run", lambda row: format_number(row["seconds"], 1)),
    ArtifactColumn("diverged", lambda row: str(row["diverged"])),
    ArtifactColumn("non-default hyperparameters", lambda row: row["hyperparameters"], is_text=True),
    ArtifactColumn("hardware", lambda row: row["hardware"], is_text=True),
    VERSIONS,
    COMMAND,
)


def report_artifacts(store: Store) -> list[Artifact]:
    """Artifacts of a store in the order of the report.

    Those of the paper are there even without any run; the tuning trials and the overview only if they have rows.
    """
    artifacts = [spec.build(store, scope) for spec, scope in artifacts_in_store(store)]
    further = [tuning.build(store), overview(store)]
    return [*artifacts, *(artifact for artifact in further if artifact.has_runs)]


def overview(store: Store) -> Artifact:
    """One row per run configuration, sorted by graph, model and changed hyperparameters."""
    rows: list[Row] = []
    run_configs = group_by_config(record.run_key for record in store.records.values())
    for run_config in sorted(run_configs, key=_sort_key):
        rows.append(
            {
                "dataset": run_config.dataset,
                "model": run_config.model,
                "seed_set": run_config.seed_set,
                "train_per_class": run_config.train_per_class,
                **Summary.from_records(store.records_for(run_config)).row,
                "hyperparameters": preset_or_changes(run_config),
            }
        )
    table = ArtifactTable(OVERVIEW_COLUMNS, tuple(rows))
    records = tuple(store.records.values())
    return Artifact("overview", "everything in the store", table, notes=OVERVIEW_NOTES, records=records)


def _sort_key(run_config: RunConfig) -> tuple[Any, ...]:
    """Graphs in the order of the registry, unknown ones last."""
    known = [*DATASETS]
    position = known.index(run_config.dataset) if run_config.dataset in known else len(known)
    changes = [(name, str(type(value)), value) for name, value in run_config.changes.items()]
    return position, run_config.dataset, run_config.model, run_config.seed_set, run_config.train_per_class, changes


def provenance(records: Iterable[Record]) -> ArtifactTable:
    """Hyperparameters, hardware, versions and commands, one row per run configuration.

    Where the records of a configuration differ in hardware, versions or command, all of them are listed.
    """
    groups: dict[RunConfig, list[Record]] = {}
    for record in records:
        groups.setdefault(record.run_config, []).append(record)
    rows = tuple(_provenance_row(run_config, members) for run_config, members in groups.items())
    return ArtifactTable(PROVENANCE_COLUMNS, rows)


def format_defaults(records: Iterable[Record]) -> list[str]:
    """Default hyperparameters of the models of some records, one line per model."""
    models = dict.fromkeys(record.model for record in records)
    return [
        f"Defaults of {model_title(model)}: {format_hyperparameters(default_hyperparameters(model))}."
        for model in models
        if default_hyperparameters(model)
    ]


def _provenance_row(run_config: RunConfig, records: list[Record]) -> Row:
    summary = Summary.from_records(records)
    return {
        "dataset": run_config.dataset,
        "model": run_config.model,
        "train_per_class": run_config.train_per_class,
        "runs": summary.runs,
        "epochs": summary.epochs,
        "seconds": summary.seconds / max(1, summary.runs),
        "diverged": summary.diverged,
        "hyperparameters": format_hyperparameters(run_config.non_defaults) or "none",
        "hardware": _join_distinct(f"{record.hardware} ({record.device})" for record in records),
        "versions": _join_distinct(
            ", ".join(f"{name} {version}" for name, version in record.versions.items()) for record in records
        ),
        "command": _join_distinct(record.command for record in records),
    }


def _join_distinct(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(values))
