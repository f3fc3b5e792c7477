"""Graphs from files and from other libraries.

Start with `read_table` and `build_graph` for two tables, or with `read_graph` for one file; each graph comes as a
`LoadedGraph`, with notes about whatever was removed, merged or replaced.

| module | contents |
|---|---|
| `registry` | `FORMATS`, the readers by file suffix; `read_table`, `read_graph` |
| `csv`, `parquet` | one table per file: `read_csv`, `write_csv`, `read_parquet`, `write_parquet` |
| `graphml` | one graph per file: `read_graphml`, `write_graphml`; the .npz archive is in `apgcn.data.npz` |
| `networkx` | `from_networkx`, `to_networkx` |
| `pandas` | `from_pandas`: DataFrames of edges and nodes |
| `scipy` | `from_scipy`, `read_scipy`, `write_scipy` |
| `pyg` | `from_pyg`, `to_pyg`, `split_from_masks`: PyTorch Geometric |
| `sources` | `load_source`: a graph from any of these |
| `tables`, `cells` | `Table`: columns in memory, with the line of each row in its file; numbers and missing values |
| `schema` | `TableSchema`, the meaning of columns |
| `index_columns`, `edge_header` | columns without a name; a first line that is an edge |
| `node_ids`, `labels` | the nodes that ids mean; classes |
| `feature_encoding` | `FeatureEncoding`, features from columns |
| `structure_encoding` | `StructureEncoding`, features from edges |
| `edges` | canonical edges: no self-loops, no duplicates |
| `graph_builder` | `build_graph`, `extend_graph`, `LoadedGraph` |

Names are imported on first use: optional packages are needed only by their own readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

if TYPE_CHECKING:
    from apgcn.data.npz import read_npz, write_npz
    from apgcn.io.csv import read_csv, write_csv
    from apgcn.io.feature_encoding import ColumnEncoding, FeatureEncoding
    from apgcn.io.graph_builder import LoadedGraph, build_graph, extend_graph
    from apgcn.io.graphml import read_graphml, write_graphml
    from apgcn.io.networkx import from_networkx, to_networkx
    from apgcn.io.pandas import from_pandas
    from apgcn.io.parquet import read_parquet, write_parquet
    from apgcn.io.pyg import from_pyg, split_from_masks, to_pyg
    from apgcn.io.registry import FORMATS, FileFormat, read_graph, read_table
    from apgcn.io.schema import TableSchema
    from apgcn.io.scipy import from_scipy, read_scipy, write_scipy
    from apgcn.io.structure_encoding import StructureEncoding
    from apgcn.io.tables import Table

__all__ = [
    "FORMATS",
    "ColumnEncoding",
    "FeatureEncoding",
    "FileFormat",
    "LoadedGraph",
    "StructureEncoding",
    "Table",
    "TableSchema",
    "build_graph",
    "extend_graph",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_scipy",
    "read_csv",
    "read_graph",
    "read_graphml",
    "read_npz",
    "read_parquet",
    "read_scipy",
    "read_table",
    "split_from_masks",
    "to_networkx",
    "to_pyg",
    "write_csv",
    "write_graphml",
    "write_npz",
    "write_parquet",
    "write_scipy",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "apgcn.data.npz": ["read_npz", "write_npz"],
        "graph_builder": ["LoadedGraph", "build_graph", "extend_graph"],
        "csv": ["read_csv", "write_csv"],
        "feature_encoding": ["ColumnEncoding", "FeatureEncoding"],
        "graphml": ["read_graphml", "write_graphml"],
        "networkx": ["from_networkx", "to_networkx"],
        "pandas": ["from_pandas"],
        "parquet": ["read_parquet", "write_parquet"],
        "pyg": ["from_pyg", "split_from_masks", "to_pyg"],
        "registry": ["FORMATS", "FileFormat", "read_graph", "read_table"],
        "schema": ["TableSchema"],
        "scipy": ["from_scipy", "read_scipy", "write_scipy"],
        "structure_encoding": ["StructureEncoding"],
        "tables": ["Table"],
    },
)
