"""How good is a model on the nodes that were held out?"""

from __future__ import annotations

from typing import Any

from apgcn.graph import Graph
from apgcn.own.calibration import expected_calibration_error, reliability
from apgcn.own.predicted import Predicted
from apgcn.splits import Split


def judged(said: Predicted, graph: Graph, split: Split) -> dict[str, Any]:
    """For the stopping set, which has a say in the training, and the test set, which has none: as plain JSON values."""
    found = {}
    for name in ("stopping", "test"):
        nodes = getattr(split, name)
        labels, probabilities = graph.labels[nodes], said.probabilities[nodes]
        found[name] = {
            "nodes": len(nodes),
            "accuracy": float((probabilities.argmax(axis=1) == labels).mean()) if len(nodes) else None,
            "calibration_error": expected_calibration_error(probabilities, labels) if len(nodes) else None,
            "reliability": [part._asdict() for part in reliability(probabilities, labels)] if len(nodes) else [],
        }
    return found
