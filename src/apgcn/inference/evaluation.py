"""How good is a model on the nodes that were held out?"""

from __future__ import annotations

from typing import Any

import numpy as np

from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.inference.calibration import expected_calibration_error, reliability
from apgcn.inference.predictions import Predictions


def judged(said: Predictions, graph: Graph, split: Split) -> dict[str, Any]:
    """For the stopping set, which has a say in the training, and the test set, which has none: as plain JSON values."""
    sets = {name: getattr(split, name) for name in ("stopping", "test")}
    return {name: judged_on(said.probabilities[nodes], graph.labels[nodes]) for name, nodes in sets.items()}


def judged_on(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """The same for some nodes, from what is said of them and what they are."""
    there = len(labels) > 0
    return {
        "nodes": len(labels),
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()) if there else None,
        "calibration_error": expected_calibration_error(probabilities, labels) if there else None,
        "reliability": [part._asdict() for part in reliability(probabilities, labels)] if there else [],
    }
