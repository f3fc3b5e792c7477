"""Who owns which node? As few edges as possible between the ranks, and as many edges for each."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput, MissingPackage, UnknownName

WAYS = ("auto", "metis", "blocks")
NODE = 16  # edges are about as much work, and take as much memory, as a node


def way_of(name: str) -> str:
    """`metis` or `blocks`; "auto" takes METIS where pymetis is installed."""
    if name not in WAYS:
        raise UnknownName("partition", name, WAYS)
    there = _has_metis()
    if name == "metis" and not there:
        raise MissingPackage('--partition metis needs pymetis: pip install "apgcn[metis]", or say --partition blocks')
    return ("metis" if there else "blocks") if name == "auto" else name


def _has_metis() -> bool:
    try:
        import pymetis  # noqa: F401
    except Exception:  # it is there, but does not work
        return False
    return True


def check_owners(owner: np.ndarray, parts: int) -> None:
    """Whether every part has nodes, in words if not."""
    if len(np.unique(owner)) < parts:
        raise InvalidInput(
            f"every rank must have rows, but the {len(owner):,} nodes cannot be divided among {parts}; use fewer ranks."
        )


def in_blocks(pointers: np.ndarray, parts: int) -> np.ndarray:
    """The owner of every node, (nodes,): neighbours in number stay together, in blocks of about as much work."""
    nodes = len(pointers) - 1
    work = pointers.astype(np.float64) + NODE * np.arange(nodes + 1)  # before each node
    cuts = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)  # each block's first node, but for block 0
    few = np.arange(1, parts)
    cuts = np.maximum.accumulate(cuts - few) + few  # nobody is left without a node, wherever a large one lies
    cuts = np.clip(cuts, few, nodes - parts + few)
    return np.searchsorted(cuts, np.arange(nodes), side="right").astype(np.int16)


def by_metis(adjacency: sparse.csr_matrix, parts: int) -> np.ndarray:
    """The owner of every node, (nodes,): METIS cuts few edges, whatever their direction.

    METIS takes some 130 bytes an entry meanwhile, so nothing is copied that need not be.
    """
    import pymetis

    if parts == 1:
        return np.zeros(adjacency.shape[0], np.int16)
    ones = np.ones(adjacency.nnz, np.int8)
    both = sparse.csr_matrix((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    if (both != both.T).nnz:
        both = both.maximum(both.T)
    if both.diagonal().any():
        both = both.copy()
        both.setdiag(0)
        both.eliminate_zeros()
    edges = pymetis.CSRAdjacency(adj_starts=both.indptr, adjacent=both.indices)
    found = pymetis.part_graph(parts, edges, vweights=NODE + np.diff(both.indptr))
    return np.asarray(found[1], dtype=np.int16)
