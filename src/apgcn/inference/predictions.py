"""Predictions for nodes with their cost, and the tables that hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from apgcn._utils.formatting import escape_formula
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.lazy_propagation import PropagationCost
from apgcn.io.csv import write_csv
from apgcn.io.parquet import write_parquet
from apgcn.io.registry import FORMATS
from apgcn.io.tables import Table

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities and halting steps of the requested nodes.

    Attributes
    ----------
    probabilities : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R, averaged over the ensemble.
    cost, full_cost : PropagationCost or None
        Operations of this prediction, and of one in which every node of the graph takes all steps; None where they
        were not counted.
    """

    probabilities: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    cost: PropagationCost | None = None
    full_cost: PropagationCost | None = None

    @classmethod
    def from_ensemble(
        cls,
        probabilities: np.ndarray,
        steps: np.ndarray,
        remainder: np.ndarray,
        *,
        cost: PropagationCost | None = None,
        full_cost: PropagationCost | None = None,
    ) -> Predictions:
        """The mean over the first axis, the members of an ensemble."""
        if not np.isfinite(probabilities).all():
            raise InvalidInput(
                "predictions must be finite, got infinite or NaN logits; scale the features as in training."
            )
        return cls(probabilities.mean(axis=0), steps.mean(axis=0), remainder.mean(axis=0), cost, full_cost)

    def select(self, nodes: np.ndarray) -> Predictions:
        """The predictions for some of the nodes."""
        return replace(
            self, probabilities=self.probabilities[nodes], steps=self.steps[nodes], remainder=self.remainder[nodes]
        )

    @property
    def classes(self) -> np.ndarray:
        """The predicted classes, (nodes,)."""
        return self.probabilities.argmax(axis=1)

    def describe_cost(self, seconds: float) -> str:
        """A sentence with the cost, compared with all steps of all nodes, and the time; empty where not counted."""
        if self.cost is None or self.full_cost is None:
            return ""
        return f"{self.cost.relative_to(self.full_cost)}; the prediction took {1000 * seconds:.1f} ms"

    @property
    def confidence(self) -> np.ndarray:
        """The probabilities of the predicted classes, (nodes,)."""
        return self.probabilities.max(axis=1)


def prediction_columns(
    graph: Graph,
    predictions: Predictions,
    class_names: Sequence[str],
    *,
    nodes: np.ndarray | None = None,
    probabilities: bool = False,
) -> dict[str, list[str] | np.ndarray]:
    """The columns id, prediction, probability, steps and label (empty where unknown), by name.

    Parameters
    ----------
    graph : Graph
        The graph of the nodes.
    nodes : array of shape (m,), optional
        The nodes of the predictions; default: all nodes of the graph.
    probabilities : bool
        Whether to add the probability of every class.
    """
    nodes = np.arange(graph.num_nodes) if nodes is None else nodes
    ids = graph.node_ids
    columns: dict[str, list[str] | np.ndarray] = {
        "id": [ids[node] for node in nodes],
        "prediction": [class_names[label] for label in predictions.classes],
        "probability": predictions.confidence.astype(np.float64).round(6),
        "steps": predictions.steps.round(6),
        "label": [graph.class_names[label] if label >= 0 else "" for label in graph.labels[nodes]],
    }
    if probabilities:
        for label, name in enumerate(class_names):
            columns[f"probability of {name}"] = predictions.probabilities[:, label].astype(np.float64).round(6)
    return columns


def write_predictions(
    path: Path,
    graph: Graph,
    predictions: Predictions,
    class_names: Sequence[str],
    *,
    nodes: np.ndarray | None = None,
    probabilities: bool = False,
    raw: bool = False,
) -> None:
    """Write the table of `prediction_columns`, which also takes `nodes` and `probabilities`.

    A CSV file may be opened by a spreadsheet, so an id or class in it that would be evaluated as a formula gets a quote
    before it; a number, such as the id -5, stays as it is.

    Parameters
    ----------
    path : Path
        .csv, .txt or .parquet.
    graph, predictions, class_names, nodes, probabilities
        As in `prediction_columns`.
    raw : bool
        Whether to write ids and classes to CSV unchanged, also if they would be evaluated as formulas.
    """
    columns = prediction_columns(graph, predictions, class_names, nodes=nodes, probabilities=probabilities)
    if Path(path).suffix.lower() in FORMATS["parquet"].suffixes:
        write_parquet(path, Table(source=str(path), columns=tuple(columns), cells=list(columns.values())))
        return
    cells = [
        [f"{value:g}" for value in column]
        if isinstance(column, np.ndarray)
        else [text if raw or NUMBER.fullmatch(text) else escape_formula(text) for text in column]
        for column in columns.values()
    ]
    write_csv(path, list(columns), zip(*cells, strict=True))
