"""How does a sparse matrix of scipy become the edges of a graph, and these one of scipy's files?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn._utils.atomic import write_whole
from apgcn.data.graph import Graph, check_csr
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.build_graph import ReadGraph, canonical_edges


def from_scipy(
    adjacency: sparse.spmatrix | sparse.sparray,
    features: sparse.spmatrix | np.ndarray,
    labels: np.ndarray | None = None,
    *,
    directed: bool = False,
    name: str = "graph",
) -> ReadGraph:
    """Take a matrix in which entry (i, j) is the weight of the edge from i to j.

    Examples
    --------
    >>> read = from_scipy(sparse.csr_matrix([[1, 2], [2, 0]]), features=np.eye(2))
    >>> read.graph.adjacency.toarray().tolist(), read.notes
    ([[0.0, 2.0], [2.0, 0.0]], ['graph: left out 1 edge from a node to itself.'])
    """
    if not sparse.issparse(adjacency):
        raise InvalidInput(f"adjacency must be a sparse matrix of scipy, got {type(adjacency).__name__}.")
    return canonical_edges(Graph(adjacency, features=features, labels=labels, name=name), adjacency, directed=directed)


def read_scipy(path: Path) -> sparse.csr_matrix:
    """Read a matrix that `scipy.sparse.save_npz` wrote; nothing in it is unpickled."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            matrix = sparse.csr_matrix(sparse.load_npz(file))
        check_csr(matrix)
        return matrix
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a sparse matrix, but there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} must be a sparse matrix, but it is a folder; name a file in it.") from None
    except Exception as error:  # a damaged archive can fail in a dozen ways
        raise InvalidInput(f"{path} must be a sparse matrix of scipy, but cannot be read ({error!r}).") from error


def write_scipy(path: Path, graph: Graph) -> None:
    """Write the adjacency, whole or not at all."""
    write_whole(Path(path), lambda file: sparse.save_npz(file, graph.adjacency))
