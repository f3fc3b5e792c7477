"""How many numbers does a graph put into the memory of a run? What the models' estimates count with."""

from __future__ import annotations

import numpy as np

from apgcn.graph import Graph


def stored_features(graph: Graph) -> int:
    """Values in the feature matrix, zeros of a sparse one not counted."""
    return graph.num_nodes * graph.num_features if isinstance(graph.features, np.ndarray) else graph.features.nnz


def heard(graph: Graph) -> int:
    """Who hears whom, every node itself included."""
    return graph.num_directed_edges + graph.num_nodes
