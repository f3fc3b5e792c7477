"""What does a rank hold of a graph? The rows of its nodes, and who beyond them is heard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from apgcn.data.graph import Graph

Rows = Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]  # pieces of a matrix: row, column, value of each entry


class Part(NamedTuple):
    """The rows of some nodes.

    Attributes
    ----------
    own : array of shape (rows,)
        The numbers of the nodes in the whole graph, in order.
    ghosts : array of shape (ghosts,)
        Nodes of others whom these hear, ordered by their owner and then by their number.
    heard : csr_matrix of shape (rows, rows + ghosts)
        Row i lists whom i hears and itself, with weight 1; own nodes come first among the columns.
    features : csr_matrix or array of shape (rows, features)
    labels : array of shape (rows,)
    """

    own: np.ndarray
    ghosts: np.ndarray
    heard: sparse.csr_matrix
    features: sparse.csr_matrix | np.ndarray
    labels: np.ndarray

    def local(self, nodes: np.ndarray) -> np.ndarray:
        """Which of some nodes are here, as row numbers."""
        places = np.searchsorted(self.own, nodes)
        places = np.minimum(places, max(0, len(self.own) - 1))
        return places[self.own[places] == nodes] if len(self.own) else places[:0]


def part_of(graph: Graph, owner: np.ndarray, rank: int) -> Part:
    """The part of a graph that is in memory as a whole."""
    own = np.flatnonzero(owner == rank)
    heard, ghosts = heard_by(_pieces(graph.adjacency), owner, rank)
    return Part(own, ghosts, heard, graph.features[own], graph.labels[own])


def heard_by(edges: Rows, owner: np.ndarray, rank: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Whom the nodes of a rank hear, from all edges of the graph, piece by piece: the matrix of a part, and its ghosts.

    An edge from i to j is heard by j.
    """
    listeners, voices, weights = [], [], []
    for sources, targets, values in edges:
        ours = (owner[targets] == rank) & (sources != targets)
        listeners.append(targets[ours].astype(np.int64))
        voices.append(sources[ours].astype(np.int64))
        weights.append(values[ours].astype(np.float32))
    own = np.flatnonzero(owner == rank)
    listener, voice, weight = (
        np.concatenate([*one, other])
        for one, other in ((listeners, own), (voices, own), (weights, np.ones(len(own), np.float32)))
    )
    ghosts = np.unique(voice[owner[voice] != rank])
    ghosts = ghosts[np.argsort(owner[ghosts], kind="stable")]
    place = np.empty(len(owner), np.int64)  # of every node that is heard here, among the columns
    place[own] = np.arange(len(own))
    place[ghosts] = len(own) + np.arange(len(ghosts))
    shape = len(own), len(own) + len(ghosts)
    matrix = sparse.csr_matrix((weight, (place[listener], place[voice])), shape=shape)
    matrix.sort_indices()
    return matrix, ghosts


def _pieces(matrix: sparse.csr_matrix) -> Rows:
    """A matrix in memory, in one piece."""
    yield np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices, matrix.data
