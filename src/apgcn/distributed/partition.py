"""Partitions of the nodes among ranks: few edges between ranks, and about equal work for each."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput, MissingPackage, UnknownName

METHODS = ("auto", "metis", "blocks")
EDGES_PER_NODE = 16  # a node takes about as much time and memory as this number of edges


def resolve_method(name: str) -> str:
    """`metis` or `blocks`; "auto" is METIS if pymetis is installed."""
    if name not in METHODS:
        raise UnknownName("partition", name, METHODS)
    has_metis = _has_metis()
    if name == "metis" and not has_metis:
        raise MissingPackage('--partition metis needs pymetis: pip install "apgcn[metis]", or use --partition blocks')
    return ("metis" if has_metis else "blocks") if name == "auto" else name


def _has_metis() -> bool:
    try:
        import pymetis  # noqa: F401
    except Exception:  # also if it is installed, but does not work
        return False
    return True


def check_partition(partition: np.ndarray, num_parts: int) -> None:
    """Raise unless every part has nodes."""
    if len(np.unique(partition)) < num_parts:
        raise InvalidInput(
            f"every rank must have rows, but the {len(partition):,} nodes cannot be divided among {num_parts}; "
            "use fewer ranks."
        )


def partition_blocks(indptr: np.ndarray, num_parts: int) -> np.ndarray:
    """Blocks of consecutive nodes with about equal work.

    Parameters
    ----------
    indptr : array of shape (nodes + 1,)
        Row pointers of the adjacency matrix.
    num_parts : int

    Returns
    -------
    array of shape (nodes,)
        The part of every node.
    """
    nodes = len(indptr) - 1
    work = indptr.astype(np.float64) + EDGES_PER_NODE * np.arange(nodes + 1)  # before each node
    numbers = np.arange(1, num_parts)
    cuts = np.searchsorted(work, work[-1] * numbers / num_parts)  # first node of every block but the first
    cuts = np.maximum.accumulate(cuts - numbers) + numbers  # no block is empty, wherever a hub is
    cuts = np.clip(cuts, numbers, nodes - num_parts + numbers)
    return np.searchsorted(cuts, np.arange(nodes), side="right").astype(np.int16)


def partition_metis(adjacency: sparse.csr_matrix, num_parts: int) -> np.ndarray:
    """The part of every node, (nodes,), by METIS, which cuts few edges; their direction is ignored.

    METIS needs some 130 bytes per edge meanwhile, so matrices are copied only where they must be.
    """
    import pymetis

    if num_parts == 1:
        return np.zeros(adjacency.shape[0], np.int16)
    ones = np.ones(adjacency.nnz, np.int8)
    undirected = sparse.csr_matrix((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    if (undirected != undirected.T).nnz:
        undirected = undirected.maximum(undirected.T)
    if undirected.diagonal().any():
        undirected = undirected.copy()
        undirected.setdiag(0)
        undirected.eliminate_zeros()
    edges = pymetis.CSRAdjacency(adj_starts=undirected.indptr, adjacent=undirected.indices)
    result = pymetis.part_graph(num_parts, edges, vweights=EDGES_PER_NODE + np.diff(undirected.indptr))
    return np.asarray(result[1], dtype=np.int16)
