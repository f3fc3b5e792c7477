"""The rows of a graph that one rank holds, and where it gets them from.

A `GraphShard` has the rows of the nodes that the partition assigns to a rank, and the indices of its halo nodes: nodes
of other ranks that are in-neighbours of these. A `GraphSource` is a graph from which every rank takes its shard;
`InMemorySource` holds the graph in memory, `streaming_npz.NpzSource` reads an archive in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from apgcn.data.graph import Graph
from apgcn.distributed.partition import partition_blocks, partition_metis
from apgcn.inference.bundle import ModelBundle, fingerprint, write_bundle
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.graph_builder import LoadedGraph

EdgeChunks = Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]  # source, target and weight of each edge


class GraphShard(NamedTuple):
    """The rows of one rank.

    Attributes
    ----------
    nodes : array of shape (rows,)
        Indices of its nodes in the graph, in ascending order.
    halo_nodes : array of shape (halo nodes,)
        In-neighbours of these nodes on other ranks, ordered by rank and then by index.
    adjacency : csr_matrix of shape (rows, rows + halo nodes)
        Row i lists the in-neighbours of node i, and i itself with weight 1; the rank's own nodes are the first columns.
    features : csr_matrix or array of shape (rows, features)
    labels : array of shape (rows,)
    """

    nodes: np.ndarray
    halo_nodes: np.ndarray
    adjacency: sparse.csr_matrix
    features: sparse.csr_matrix | np.ndarray
    labels: np.ndarray

    def local_rows(self, nodes: np.ndarray) -> np.ndarray:
        """The rows of those of some nodes that are in this shard."""
        rows = np.searchsorted(self.nodes, nodes)
        rows = np.minimum(rows, max(0, len(self.nodes) - 1))
        return rows[self.nodes[rows] == nodes] if len(self.nodes) else rows[:0]


def shard_graph(graph: Graph, partition: np.ndarray, rank: int) -> GraphShard:
    """The shard of a graph in memory; `partition` (nodes,) has the rank of every node."""
    nodes = np.flatnonzero(partition == rank)
    adjacency, halo_nodes = shard_adjacency(_single_chunk(graph.adjacency), partition, rank)
    return GraphShard(nodes, halo_nodes, adjacency, graph.features[nodes], graph.labels[nodes])


def shard_adjacency(edges: EdgeChunks, partition: np.ndarray, rank: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The adjacency matrix of a shard and its halo nodes, from all edges of the graph in chunks.

    The target of an edge receives from its source.
    """
    target_chunks, source_chunks, weight_chunks = [], [], []
    for sources, targets, values in edges:
        local = (partition[targets] == rank) & (sources != targets)
        target_chunks.append(targets[local].astype(np.int64))
        source_chunks.append(sources[local].astype(np.int64))
        weight_chunks.append(values[local].astype(np.float32))
    nodes = np.flatnonzero(partition == rank)
    target, source, weight = (
        np.concatenate([*chunks, self_loops])
        for chunks, self_loops in (
            (target_chunks, nodes),
            (source_chunks, nodes),
            (weight_chunks, np.ones(len(nodes), np.float32)),
        )
    )
    halo_nodes = np.unique(source[partition[source] != rank])
    halo_nodes = halo_nodes[np.argsort(partition[halo_nodes], kind="stable")]
    column = np.empty(len(partition), np.int64)  # of every node of the shard and its halo
    column[nodes] = np.arange(len(nodes))
    column[halo_nodes] = len(nodes) + np.arange(len(halo_nodes))
    shape = len(nodes), len(nodes) + len(halo_nodes)
    matrix = sparse.csr_matrix((weight, (column[target], column[source])), shape=shape)
    matrix.sort_indices()
    return matrix, halo_nodes


def _single_chunk(matrix: sparse.csr_matrix) -> EdgeChunks:
    """All edges of a matrix in memory as one chunk."""
    yield np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices, matrix.data


class GraphSource(Protocol):
    """A graph from which every rank takes its shard."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def num_features(self) -> int:
        """Number of features."""
        ...

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...

    @property
    def num_directed_edges(self) -> int:
        """Number of directed edges."""
        ...

    @property
    def notes(self) -> list[str]:
        """What was dropped or added when the graph was read; saved with a model."""
        ...

    @property
    def digest(self) -> str:
        """Equal on two ranks that read the same graph."""
        ...

    def partition(self, num_parts: int, method: str) -> np.ndarray:
        """The part of every node, (nodes,)."""
        ...

    def shard(self, partition: np.ndarray, rank: int) -> GraphShard:
        """The rows of a rank."""
        ...

    def node_ids(self, nodes: np.ndarray) -> list[str]:
        """The ids of nodes, given by ascending indices."""
        ...

    def save(self, folder: Path, model: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn fit --out` does."""
        ...


class InMemorySource:
    """A graph that every rank has read completely; each keeps its shard only."""

    def __init__(self, graph: Graph, loaded: LoadedGraph | None = None):
        self.graph, self._loaded = graph, loaded
        self.num_nodes, self.num_features = graph.num_nodes, graph.num_features
        self.labels, self.class_names = graph.labels, graph.class_names
        self.num_directed_edges, self.digest = graph.num_directed_edges, fingerprint(graph)
        self.notes = list(loaded.notes) if loaded else []

    def partition(self, num_parts: int, method: str) -> np.ndarray:
        """The part of every node, (nodes,)."""
        adjacency = self.graph.adjacency
        return (
            partition_metis(adjacency, num_parts)
            if method == "metis"
            else partition_blocks(adjacency.indptr, num_parts)
        )

    def shard(self, partition: np.ndarray, rank: int) -> GraphShard:
        """The rows of a rank."""
        return shard_graph(self.graph, partition, rank)

    def node_ids(self, nodes: np.ndarray) -> list[str]:
        """The ids of nodes, given by ascending indices."""
        node_ids = self.graph.node_ids
        return [node_ids[node] for node in nodes]

    def save(self, folder: Path, model: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn fit --out` does."""
        encoding, schema = (self._loaded.encoding, self._loaded.schema) if self._loaded else (None, None)
        graph = replace(self.graph, name=name)
        write_bundle(folder, ModelBundle(model, graph, encoding, schema, notes=self.notes))
