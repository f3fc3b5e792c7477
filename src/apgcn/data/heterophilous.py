"""Archives of Platonov et al. (ICLR 2023): a graph with dense features, and ten splits as masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn.data.graph import Graph
from apgcn.data.npz import check_archive_size
from apgcn.data.splits import PUBLISHED_SPLITS, Split
from apgcn.data.transforms import remove_edge_weights, remove_self_loops, to_undirected
from apgcn.errors import BrokenFile

MAX_DENSITY = 0.1  # of features that are stored sparse


def read_heterophilous(path: Path, *, name: str) -> Graph:
    """Read the graph with all its nodes, both directions of every edge, no self-loops, and the features of the file."""
    arrays = _read_arrays(path, "node_features", "node_labels", "edges")
    nodes, edges = len(arrays["node_labels"]), arrays["edges"]
    features = arrays["node_features"]
    adjacency = sparse.coo_matrix((np.ones(len(edges), np.float32), (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    graph = Graph(
        adjacency=adjacency,
        features=sparse.csr_matrix(features) if np.count_nonzero(features) < MAX_DENSITY * features.size else features,
        labels=arrays["node_labels"],
        name=name,
    )
    return remove_self_loops(remove_edge_weights(to_undirected(graph)))


def read_splits(path: Path) -> tuple[Split, ...]:
    """Read the splits; the seed of each is its number, and its stopping set is the validation set of the file."""
    arrays = _read_arrays(path, "train_masks", "val_masks", "test_masks")
    train, stopping, test = (arrays[f"{name}_masks"] for name in ("train", "val", "test"))
    return tuple(
        Split(seed=number, train=train[number], stopping=stopping[number], test=test[number])
        for number in PUBLISHED_SPLITS
    )


def _read_arrays(path: Path, *names: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            check_archive_size(path, archive.zip)
            return {name: archive[name] for name in names}
    except (OSError, ValueError, KeyError) as error:
        raise BrokenFile(f"{path} must be an archive with {', '.join(names)}, but is not ({error!r}).") from error
