"""How are numbers said to people?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apgcn.benchmark.artifacts import ArtifactColumn
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.published import MODEL_TITLES
from apgcn.data import CATALOGUE
from apgcn.models.registry import MODELS

NOTHING = "–"


def graph_title(dataset: str) -> str:
    """As the paper writes it; a name that nobody knows as it is."""
    return CATALOGUE[dataset].title if dataset in CATALOGUE else dataset


def model_title(model: str) -> str:
    """As a table calls it; a name that nobody knows as it is."""
    return MODELS[model].title if model in MODELS else MODEL_TITLES.get(model, model)


def titled(dataset: str, model: str) -> str:
    """A graph, with the model where it is not AP-GCN."""
    return graph_title(dataset) if model == "apgcn" else f"{graph_title(dataset)}, {model_title(model)}"


def plus_minus(value: float | None, half_width: float | None, digits: int = 2) -> str:
    """A value with the half-width of its interval.

    >>> plus_minus(85.4374, 0.2489), plus_minus(85.4374, None), plus_minus(None, None)
    ('85.44 ± 0.25', '85.44', '–')
    """
    if value is None:
        return NOTHING
    return f"{value:.{digits}f}" if half_width is None else f"{value:.{digits}f} ± {half_width:.{digits}f}"


def number(value: float | None, digits: int = 2, *, sign: bool = False) -> str:
    """A number, or a dash where there is none."""
    return NOTHING if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def hyperparameters_text(hyperparameters: Mapping[str, Any]) -> str:
    """Settings in one line; nothing where there are none."""
    return ", ".join(f"{name}={value}" for name, value in hyperparameters.items())


def hyperparameters_words(run_config: RunConfig) -> str:
    """The kind of settings; where they are of none, what differs from those behind the paper's tables."""
    return run_config.kind or hyperparameters_text(run_config.changes)


def verdict(ours: float | None, interval: float | None, paper: float | None, paper_interval: float | None) -> str:
    """What the comparison of two means says, in words.

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
    way = "lower" if ours < paper else "higher"
    if difference <= max(interval, paper_interval):
        return "agrees"
    if difference <= interval + paper_interval:
        return f"a little {way}, intervals overlap"
    return f"{way}, beyond both intervals"


GRAPH = ArtifactColumn("graph", lambda row: graph_title(row["dataset"]), words=True)
MODEL = ArtifactColumn("model", lambda row: model_title(row["model"]), words=True)
RUNS = ArtifactColumn("runs", lambda row: str(row["runs"]))
STEPS = ArtifactColumn("mean K", lambda row: plus_minus(row["steps"], row["steps_interval"]))
ACCURACY = ArtifactColumn("accuracy", lambda row: plus_minus(row["accuracy"], row["interval"]))
VALIDATION = ArtifactColumn(
    "on validation nodes", lambda row: plus_minus(row["validation_accuracy"], row["validation_interval"])
)
