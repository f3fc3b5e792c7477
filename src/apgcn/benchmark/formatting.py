"""Titles, numbers and verdicts as text, and the columns that several tables share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apgcn.benchmark.artifacts import ArtifactColumn
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.published import MODEL_TITLES
from apgcn.data import DATASETS
from apgcn.models.registry import MODELS

MISSING = "–"  # the cell of a value that does not exist


def graph_title(dataset: str) -> str:
    """Name of a graph in the paper; an unknown name is returned unchanged."""
    return DATASETS[dataset].title if dataset in DATASETS else dataset


def model_title(model: str) -> str:
    """Name of a model in the tables; an unknown name is returned unchanged."""
    return MODELS[model].title if model in MODELS else MODEL_TITLES.get(model, model)


def graph_model_title(dataset: str, model: str) -> str:
    """Name of a graph, followed by the model unless it is AP-GCN."""
    return graph_title(dataset) if model == "apgcn" else f"{graph_title(dataset)}, {model_title(model)}"


def plus_minus(value: float | None, half_width: float | None, digits: int = 2) -> str:
    """Value with the half-width of its confidence interval.

    >>> plus_minus(85.4374, 0.2489), plus_minus(85.4374, None), plus_minus(None, None)
    ('85.44 ± 0.25', '85.44', '–')
    """
    if value is None:
        return MISSING
    return f"{value:.{digits}f}" if half_width is None else f"{value:.{digits}f} ± {half_width:.{digits}f}"


def format_number(value: float | None, digits: int = 2, *, sign: bool = False) -> str:
    """Number with a fixed count of decimals, or a dash for None."""
    return MISSING if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def format_hyperparameters(hyperparameters: Mapping[str, Any]) -> str:
    """Hyperparameters on one line: `name=value, name=value`."""
    return ", ".join(f"{name}={value}" for name, value in hyperparameters.items())


def preset_or_changes(run_config: RunConfig) -> str:
    """Name of the preset, or else the hyperparameters that differ from those of the paper's row."""
    return run_config.preset or format_hyperparameters(run_config.changes)


def verdict(ours: float | None, interval: float | None, paper: float | None, paper_interval: float | None) -> str:
    """Result of the comparison of our mean with the paper's, by the half-widths of their confidence intervals.

    >>> verdict(85.44, 0.25, 85.71, 0.22), verdict(75.8, 0.3, 76.1, 0.4), verdict(92.94, 0.08, 92.62, 0.07)
    ('a little lower, intervals overlap', 'agrees', 'higher, beyond both intervals')
    """
    if ours is None:
        return "not run"
    if paper is None:
        return "not in the paper"
    if interval is None or paper_interval is None:
        return "one run only, no interval"
    difference = abs(ours - paper)
    direction = "lower" if ours < paper else "higher"
    if difference <= max(interval, paper_interval):
        return "agrees"
    if difference <= interval + paper_interval:
        return f"a little {direction}, intervals overlap"
    return f"{direction}, beyond both intervals"


GRAPH = ArtifactColumn("graph", lambda row: graph_title(row["dataset"]), is_text=True)
MODEL = ArtifactColumn("model", lambda row: model_title(row["model"]), is_text=True)
PRESET = ArtifactColumn("preset", lambda row: row["preset"], is_text=True)
TRAIN_PER_CLASS_COLUMN = ArtifactColumn("training nodes per class", lambda row: str(row["train_per_class"]))
RUNS = ArtifactColumn("runs", lambda row: str(row["runs"]))
STEPS = ArtifactColumn("mean K", lambda row: plus_minus(row["steps"], row["steps_interval"]))
ACCURACY = ArtifactColumn("accuracy", lambda row: plus_minus(row["accuracy"], row["interval"]))
BY_SPLIT = ArtifactColumn("by split", lambda row: format_number(row["split_interval"]))
VALIDATION = ArtifactColumn(
    "on validation nodes", lambda row: plus_minus(row["validation_accuracy"], row["validation_interval"])
)
VERDICT = ArtifactColumn("verdict", lambda row: row["verdict"], is_text=True)
HYPERPARAMETERS = ArtifactColumn("hyperparameters", lambda row: row["hyperparameters"], is_text=True)
VERSIONS = ArtifactColumn("versions", lambda row: row["versions"], is_text=True)
COMMAND = ArtifactColumn("command", lambda row: row["command"], is_text=True)
