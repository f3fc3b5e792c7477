"""What is behind the numbers of an exhibit? Settings, hardware, versions and commands, from the records themselves."""

from __future__ import annotations

from collections.abc import Iterable

from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, defaults
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, hyperparameters_text, model_title, number
from apgcn.benchmark.records import Record

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("labels a class", lambda row: str(row["labels"])),
    RUNS,
    ArtifactColumn("epochs", lambda row: number(row["epochs"], 0)),
    ArtifactColumn("seconds a run", lambda row: number(row["seconds"], 1)),
    ArtifactColumn("diverged", lambda row: str(row["diverged"])),
    ArtifactColumn("other settings than default", lambda row: row["hyperparameters"], words=True),
    ArtifactColumn("hardware", lambda row: row["hardware"], words=True),
    ArtifactColumn("versions", lambda row: row["versions"], words=True),
    ArtifactColumn("command", lambda row: row["command"], words=True),
)


def behind(records: Iterable[Record]) -> ArtifactTable:
    """One line per condition; where its records differ in hardware, versions or command, all are named."""
    groups: dict[RunConfig, list[Record]] = {}
    for record in records:
        groups.setdefault(record.run_config, []).append(record)
    return ArtifactTable(COLUMNS, tuple(_row(run_config, members) for run_config, members in groups.items()))


def usual_settings(records: Iterable[Record]) -> list[str]:
    """The defaults of the models that these records are of, so that nothing is left unsaid."""
    models = dict.fromkeys(record.model for record in records)
    return [
        f"Defaults of {model_title(model)}: {hyperparameters_text(defaults(model))}."
        for model in models
        if defaults(model)
    ]


def _row(run_config: RunConfig, records: list[Record]) -> Row:
    mean = Summary.of(records)
    return {
        "dataset": run_config.dataset,
        "model": run_config.model,
        "labels": run_config.train_per_class,
        "runs": mean.runs,
        "epochs": mean.epochs,
        "seconds": mean.seconds / max(1, mean.runs),
        "diverged": mean.diverged,
        "hyperparameters": hyperparameters_text(run_config.chosen) or "none",
        "hardware": _all(f"{record.hardware} ({record.device})" for record in records),
        "versions": _all(
            ", ".join(f"{name} {version}" for name, version in record.versions.items()) for record in records
        ),
        "command": _all(record.command for record in records),
    }


def _all(texts: Iterable[str]) -> str:
    """Different texts, each once."""
    return "; ".join(dict.fromkeys(texts))
