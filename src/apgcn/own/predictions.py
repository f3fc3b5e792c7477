"""What is written about every node? Its id as it was given, its class, how certain that is, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apgcn.graph import Graph
from apgcn.io.csv_files import write_csv
from apgcn.io.own import PARQUET
from apgcn.io.parquet import write_parquet
from apgcn.io.tables import Table
from apgcn.own.predicted import Predicted


def write_predictions(
    path: Path,
    graph: Graph,
    said: Predicted,
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
        "probability": said.certainty.astype(np.float64).round(6),
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
