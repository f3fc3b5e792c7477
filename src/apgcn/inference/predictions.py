"""What is said of nodes, and what did it cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.lazy_propagation import PropagationCost
from apgcn.io.csv import write_csv
from apgcn.io.parquet import write_parquet
from apgcn.io.registry import PARQUET
from apgcn.io.tables import Table


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is said of every node that was asked for.

    Attributes
    ----------
    probabilities : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R, the mean over the initialisations.
    work, fixed : Work or None
        What it cost, and what it costs when every node of the graph takes all steps; None where nobody counted.
    """

    probabilities: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    work: PropagationCost | None = None
    fixed: PropagationCost | None = None

    @classmethod
    def of(
        cls,
        probabilities: np.ndarray,
        steps: np.ndarray,
        remainder: np.ndarray,
        *,
        work: PropagationCost | None = None,
        fixed: PropagationCost | None = None,
    ) -> Predictions:
        """The mean over the first axis, that of the initialisations."""
        if not np.isfinite(probabilities).all():
            raise InvalidInput(
                "what the model says is not finite; are the features of the size that they had in training?"
            )
        return cls(probabilities.mean(axis=0), steps.mean(axis=0), remainder.mean(axis=0), work, fixed)

    def at(self, nodes: np.ndarray) -> Predictions:
        """The same of some nodes."""
        return replace(
            self, probabilities=self.probabilities[nodes], steps=self.steps[nodes], remainder=self.remainder[nodes]
        )

    @property
    def classes(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def confidence(self) -> np.ndarray:
        """The probability of the class that is said."""
        return self.probabilities.max(axis=1)


def write_predictions(
    path: Path,
    graph: Graph,
    said: Predictions,
    class_names: Sequence[str],
    *,
    nodes: np.ndarray | None = None,
    probabilities: bool = False,
) -> None:
    """Write a table: id, prediction, probability, steps, the label where it was known, and the probabilities of all.

    `nodes` are those of the graph that were asked for; all where None.
    """
    asked = np.arange(graph.num_nodes) if nodes is None else nodes
    ids = graph.ids
    columns: dict[str, Sequence[str] | np.ndarray] = {
        "id": [ids[node] for node in asked],
        "prediction": [class_names[one] for one in said.classes],
        "probability": said.confidence.astype(np.float64).round(6),
        "steps": said.steps.round(6),
        "label": [graph.class_names[label] if label >= 0 else "" for label in graph.labels[asked]],
    }
    if probabilities:
        for number, name in enumerate(class_names):
            columns[f"probability of {name}"] = said.probabilities[:, number].astype(np.float64).round(6)
    if Path(path).suffix.lower() in PARQUET:
        write_parquet(path, Table(source=str(path), columns=tuple(columns), cells=list(columns.values())))
        return
    texts = [
        [f"{value:g}" for value in column] if isinstance(column, np.ndarray) else column for column in columns.values()
    ]
    write_csv(path, list(columns), zip(*texts, strict=True))
