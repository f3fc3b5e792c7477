"""Conversion from scipy sparse matrices, and scipy's own .npz files of one matrix."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn._utils.atomic import atomic_write
from apgcn.data.graph import Graph, check_csr
from apgcn.data.npz import check_archive_size
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.graph_builder import LoadedGraph, with_canonical_edges
from apgcn.io.structure_encoding import AUTO, Structure


def from_scipy(
    adjacency: sparse.spmatrix | sparse.sparray,
    features: sparse.spmatrix | np.ndarray | None = None,
    labels: np.ndarray | None = None,
    *,
    directed: bool = False,
    name: str = "graph",
    structure: Structure = AUTO,
) -> LoadedGraph:
    """Convert an adjacency in which entry (i, j) is the weight of the edge from i to j.

    `structure` selects features that are computed from the edges, as in `build_graph`.

    Examples
    --------
    >>> loaded = from_scipy(sparse.csr_matrix([[1, 2], [2, 0]]), features=np.eye(2))
    >>> loaded.graph.adjacency.toarray().tolist(), loaded.notes
    ([[0.0, 2.0], [2.0, 0.0]], ['graph: removed 1 self-loop.'])
    """
    if not sparse.issparse(adjacency):
        raise InvalidInput(f"adjacency must be a scipy sparse matrix, got {type(adjacency).__name__}.")
    rows = np.zeros((adjacency.shape[0], 0)) if features is None else features
    graph = Graph(adjacency, features=rows, labels=labels, name=name)
    return with_canonical_edges(graph, adjacency, directed=directed, structure=structure)


def read_scipy(path: Path) -> sparse.csr_matrix:
    """Read a matrix that `scipy.sparse.save_npz` wrote; nothing in it is unpickled."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            with zipfile.ZipFile(file) as archive:
                check_archive_size(path, archive)
            file.seek(0)
            matrix = sparse.csr_matrix(sparse.load_npz(file))
        check_csr(matrix)
        return matrix
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a sparse matrix, but there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} must be a sparse matrix, but it is a folder; name a file in it.") from None
    except InvalidInput:
        raise
    except Exception as error:  # a damaged archive can fail in a dozen ways
        raise InvalidInput(f"{path} must be a scipy sparse matrix, but cannot be read as one ({error!r}).") from error


def write_scipy(path: Path, graph: Graph) -> None:
    """Write the adjacency atomically."""
    atomic_write(Path(path), lambda file: sparse.save_npz(file, graph.adjacency))
