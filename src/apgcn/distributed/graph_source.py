"""Where does a rank get its rows from? From a graph in memory, or from an archive that nobody reads as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from apgcn.data.graph import Graph
from apgcn.distributed.graph_shard import Part, part_of
from apgcn.distributed.partition import by_metis, in_blocks
from apgcn.inference.bundle import SavedModel, fill, fingerprint
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.build_graph import ReadGraph


class Source(Protocol):
    """A graph of which every rank takes its part; `schema.Archive` is another one."""

    @property
    def nodes(self) -> int: ...

    @property
    def features(self) -> int: ...

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...

    @property
    def edges(self) -> int:
        """How many, each direction for itself."""
        ...

    @property
    def notes(self) -> list[str]:
        """What was to be said when it was read."""
        ...

    @property
    def digest(self) -> str:
        """The same on two ranks that see the same graph."""
        ...

    def owners(self, parts: int, way: str) -> np.ndarray:
        """The owner of every node, (nodes,)."""
        ...

    def part(self, owner: np.ndarray, rank: int) -> Part:
        """What a rank holds."""
        ...

    def names(self, nodes: np.ndarray) -> list[str]:
        """What some nodes, in order, are called."""
        ...

    def save(self, folder: Path, fitted: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn train --out` does."""
        ...


class InMemory:
    """A graph that every rank has read as a whole, and lets go of but for its rows."""

    def __init__(self, graph: Graph, read: ReadGraph | None = None):
        self.graph, self._read = graph, read
        self.nodes, self.features = graph.num_nodes, graph.num_features
        self.labels, self.class_names = graph.labels, graph.class_names
        self.edges, self.digest = graph.num_directed_edges, fingerprint(graph)
        self.notes = list(read.notes) if read else []

    def owners(self, parts: int, way: str) -> np.ndarray:
        """The owner of every node, (nodes,)."""
        adjacency = self.graph.adjacency
        return by_metis(adjacency, parts) if way == "metis" else in_blocks(adjacency.indptr, parts)

    def part(self, owner: np.ndarray, rank: int) -> Part:
        """What a rank holds."""
        return part_of(self.graph, owner, rank)

    def names(self, nodes: np.ndarray) -> list[str]:
        """What some nodes, in order, are called."""
        ids = self.graph.ids
        return [ids[node] for node in nodes]

    def save(self, folder: Path, fitted: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn train --out` does."""
        how = (self._read.encoding, self._read.schema) if self._read else (None, None)
        fill(folder, SavedModel(fitted, replace(self.graph, name=name), *how))
