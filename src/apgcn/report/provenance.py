"""What is behind the numbers of an exhibit? Settings, hardware, versions and commands, from the records themselves."""

from __future__ import annotations

from collections.abc import Iterable

from apgcn.benchmark.aggregate import Mean
from apgcn.benchmark.artifacts import Column, Row, Table
from apgcn.benchmark.config import Condition, defaults
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, model_title, number, settings_text
from apgcn.benchmark.records import Record

COLUMNS = (
    GRAPH,
    MODEL,
    Column("labels a class", lambda row: str(row["labels"])),
    RUNS,
    Column("epochs", lambda row: number(row["epochs"], 0)),
    Column("seconds a run", lambda row: number(row["seconds"], 1)),
    Column("diverged", lambda row: str(row["diverged"])),
    Column("other settings than default", lambda row: row["settings"], words=True),
    Column("hardware", lambda row: row["hardware"], words=True),
    Column("versions", lambda row: row["versions"], words=True),
    Column("command", lambda row: row["command"], words=True),
)


def behind(records: Iterable[Record]) -> Table:
    """One line per condition; where its records differ in hardware, versions or command, all are named."""
    groups: dict[Condition, list[Record]] = {}
    for record in records:
        groups.setdefault(record.condition, []).append(record)
    return Table(COLUMNS, tuple(_row(condition, members) for condition, members in groups.items()))


def usual_settings(records: Iterable[Record]) -> list[str]:
    """The defaults of the models that these records are of, so that nothing is left unsaid."""
    models = dict.fromkeys(record.model for record in records)
    return [
        f"Defaults of {model_title(model)}: {settings_text(defaults(model))}." for model in models if defaults(model)
    ]


def _row(condition: Condition, records: list[Record]) -> Row:
    mean = Mean.of(records)
    return {
        "dataset": condition.dataset,
        "model": condition.model,
        "labels": condition.per_class,
        "runs": mean.runs,
        "epochs": mean.epochs,
        "seconds": mean.seconds / max(1, mean.runs),
        "diverged": mean.diverged,
        "settings": settings_text(condition.chosen) or "none",
        "hardware": _all(f"{record.hardware} ({record.device})" for record in records),
        "versions": _all(
            ", ".join(f"{name} {version}" for name, version in record.versions.items()) for record in records
        ),
        "command": _all(record.command for record in records),
    }


def _all(texts: Iterable[str]) -> str:
    """Different texts, each once."""
    return "; ".join(dict.fromkeys(texts))
