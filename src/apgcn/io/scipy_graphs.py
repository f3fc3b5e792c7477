"""How does a sparse matrix of scipy become the edges of a graph, and these one of scipy's files?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn.cleaning import undirected, without_self_loops
from apgcn.errors import InvalidInput, MissingFile
from apgcn.graph import Graph
from apgcn.io.assembling import ReadGraph
from apgcn.io.whole import write_whole


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
    ([[0.0, 2.0], [2.0, 0.0]], ['graph: 1 edges from a node to itself are left out.'])
    """
    if not sparse.issparse(adjacency):
        raise InvalidInput(f"adjacency must be a sparse matrix of scipy, got {type(adjacency).__name__}.")
    known = np.full(adjacency.shape[0], -1) if labels is None else labels
    return settled(Graph(adjacency, features=features, labels=known, name=name), directed=directed)


def settled(graph: Graph, *, directed: bool) -> ReadGraph:
    """The graph without edges from a node to itself and, unless it is directed, each edge in both directions.

    An edge that has another weight in each direction gets the larger one, which is said.
    """
    loops = int((graph.adjacency.diagonal() != 0).sum())
    notes = [f"{graph.name}: {loops} edges from a node to itself are left out."] if loops else []
    graph = without_self_loops(graph)
    if not directed:
        differing = (graph.adjacency != graph.adjacency.T).nnz // 2
        if differing:
            notes.append(
                f"{graph.name}: {differing} edges differ by direction and count in both, with the larger weight."
            )
        graph = undirected(graph)
    alone = graph.num_nodes - len(np.unique(np.concatenate(graph.adjacency.nonzero())))
    if alone:
        notes.append(f"{alone} of {graph.num_nodes} nodes have no edge and are judged by their own features alone.")
    return ReadGraph(graph, None, notes)


def read_scipy(path: Path) -> sparse.csr_matrix:
    """Read a matrix that `scipy.sparse.save_npz` wrote; nothing in it is unpickled."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            matrix = sparse.csr_matrix(sparse.load_npz(file))
        matrix.check_format(full_check=True)
        return matrix
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a sparse matrix, but there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} must be a sparse matrix, but it is a folder; name a file in it.") from None
    except Exception as error:  # a damaged archive can fail in a dozen ways
        raise InvalidInput(
            f"{path} must be a sparse matrix of scipy, but cannot be read as one ({error!r})."
        ) from error


def write_scipy(path: Path, graph: Graph) -> None:
    """Write the adjacency, whole or not at all."""
    write_whole(Path(path), lambda file: sparse.save_npz(file, graph.adjacency))
