"""Titles, numbers and verdicts as text, and the columns that several tables share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apgcn.benchmark.artifacts import ArtifactColumn
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.published import MODEL_TITLES
from apgcn.data import DATASETS
from apgcn.models.registry import MODELS

MISSING = "–"  # the cell of a value that does not exist

STOPPING_RULES: dict[tuple[Any, ...], str] = {  # by monitored loss, mode, patience and largest number of epochs
    ("stopping", "either", 100, 10_000): "text's stopping",
    ("training", "either", 100, 10_000): "script's stopping",
    ("regularised", "tie", 100, 10_000): "PPNP code's stopping",
}


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


def treatment(run_config: RunConfig) -> str:
    """How a row is trained where models differ: what stops it, and whether it has the dropouts of the authors' script.

    >>> treatment(RunConfig.from_preset("cora_ml", "apgcn")), treatment(RunConfig.from_preset("cora_ml", "gcn"))
    ("text's stopping", "PPNP code's stopping")
    >>> treatment(RunConfig.from_preset("amazon_photo", "apgcn"))
    "script's stopping and dropouts"
    """
    if run_config.model in MODELS and not MODELS[run_config.model].has_weights:
        return "not trained"
    values = dict(run_config.hyperparameters)
    rule = tuple(values[name] for name in ("monitor", "early_stop_mode", "patience", "max_epochs"))
    stopping = STOPPING_RULES.get(rule, f"{values['monitor']} loss, patience {values['patience']}")
    if int(values["max_epochs"]) < 10_000:
        stopping += f", at most {values['max_epochs']} epochs"
    dropouts = {name: values[name] for name in ("z0_dropout", "update_dropout") if name in values}
    if not any(dropouts.values()):
        return stopping
    used = "dropouts" if all(dropouts.values()) else ", ".join(name for name, rate in dropouts.items() if rate)
    return f"{stopping} and {used}"


def verdict(ours: float | None, interval: float | None, paper: float | None, paper_interval: float | None) -> str:
    """Result of the comparison of our mean with the paper's.

    The 95 % interval of the difference combines the half-width of our interval, over resampled splits, with that of the
    paper's. It is "lower" or "higher" if that interval excludes 0, "within 1 point" if it lies between -1 and 1, and
    otherwise undecided: too few runs, or too much spread, for either.

    >>> verdict(85.4, 0.48, 85.7, 0.22), verdict(75.7, 0.9, 76.1, 0.24), verdict(92.94, 0.15, 92.62, 0.07)
    ('within 1 point: -0.30 ± 0.53', 'undecided: -0.40 ± 0.93', 'higher: +0.32 ± 0.17')
    """
    if ours is None:
        return "not run"
    if paper is None:
        return "not in the paper"
    if interval is None or paper_interval is None:
        return "one split only, no interval"
    difference, half_width = ours - paper, math.hypot(interval, paper_interval)
    if abs(difference) > half_width:
        word = "lower" if difference < 0 else "higher"
    else:
        word = "within 1 point" if abs(difference) + half_width <= 1 else "undecided"
    return f"{word}: {difference:+.2f} ± {half_width:.2f}"


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
TREATMENT = ArtifactColumn("treatment", lambda row: row["treatment"], is_text=True)
VERDICT = ArtifactColumn("verdict", lambda row: row["verdict"], is_text=True)
HYPERPARAMETERS = ArtifactColumn("hyperparameters", lambda row: row["hyperparameters"], is_text=True)
VERSIONS = ArtifactColumn("versions", lambda row: row["versions"], is_text=True)
COMMAND = ArtifactColumn("command", lambda row: row["command"], is_text=True)
