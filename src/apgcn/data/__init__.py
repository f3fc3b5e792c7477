"""Graphs, splits and benchmark datasets.

Start with `load`, which returns a benchmark graph by name, and `clean`, the preprocessing of the benchmark:

>>> from apgcn.data import clean, load
>>> clean(load("cora"))
Graph('cora', nodes=2485, directed_edges=10138, features=1433, classes=7)

| module | contents |
|---|---|
| `graph` | `Graph`: adjacency, features, labels |
| `transforms` | `clean` and its steps: `to_undirected`, `remove_self_loops`, `largest_connected_component`, ... |
| `splits` | `Split`, and the published splits of the protocol |
| `registry` | `DATASETS`: sizes, citations and addresses of the benchmark graphs |
| `datasets` | `load`, `load_prepared`, `published_splits` |
| `download` | download and checksums of benchmark files |
| `npz` | graphs as NumPy archives |
| `heterophilous` | archives of the heterophilous graphs, with their splits |
| `structure` | `structural_features`: features computed from the edges; `spectrum` has the eigenvectors |
| `synthetic` | `synthetic_graph`: a block model of any size |

Names are imported on first use, so that the registry can be read without scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

if TYPE_CHECKING:
    from apgcn.data.datasets import load, load_prepared, published_splits
    from apgcn.data.graph import Graph
    from apgcn.data.npz import read_npz, write_npz
    from apgcn.data.registry import (
        AMAZON_GRAPHS,
        CITATION_GRAPHS,
        DATASETS,
        HETEROPHILOUS_GRAPHS,
        DatasetInfo,
        dataset_info,
    )
    from apgcn.data.splits import TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
    from apgcn.data.structure import STRUCTURE_KINDS, structural_features
    from apgcn.data.synthetic import synthetic_graph
    from apgcn.data.transforms import (
        clean,
        largest_connected_component,
        normalize_features,
        remove_edge_weights,
        remove_self_loops,
        subgraph,
        to_undirected,
    )

__all__ = [
    "AMAZON_GRAPHS",
    "CITATION_GRAPHS",
    "DATASETS",
    "HETEROPHILOUS_GRAPHS",
    "STRUCTURE_KINDS",
    "TEST_SEEDS",
    "VALIDATION_SEEDS",
    "DatasetInfo",
    "Graph",
    "Split",
    "clean",
    "dataset_info",
    "largest_connected_component",
    "load",
    "load_prepared",
    "normalize_features",
    "published_splits",
    "read_npz",
    "remove_edge_weights",
    "remove_self_loops",
    "split_for_test",
    "split_for_validation",
    "structural_features",
    "subgraph",
    "synthetic_graph",
    "to_undirected",
    "write_npz",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "datasets": ["load", "load_prepared", "published_splits"],
        "graph": ["Graph"],
        "npz": ["read_npz", "write_npz"],
        "registry": [
            "AMAZON_GRAPHS",
            "CITATION_GRAPHS",
            "DATASETS",
            "HETEROPHILOUS_GRAPHS",
            "DatasetInfo",
            "dataset_info",
        ],
        "splits": ["TEST_SEEDS", "VALIDATION_SEEDS", "Split", "split_for_test", "split_for_validation"],
        "structure": ["STRUCTURE_KINDS", "structural_features"],
        "synthetic": ["synthetic_graph"],
        "transforms": [
            "clean",
            "largest_connected_component",
            "normalize_features",
            "remove_edge_weights",
            "remove_self_loops",
            "subgraph",
            "to_undirected",
        ],
    },
)
