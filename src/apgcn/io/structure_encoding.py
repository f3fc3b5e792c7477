"""Structural features of a model: which were computed, and the standardisation that another graph gets as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from apgcn._utils.formatting import pluralize
from apgcn.data.graph import Graph
from apgcn.data.structure import STRUCTURE_KINDS, center_and_scale, check_kinds, compute_structure
from apgcn.errors import InvalidInput

AUTO, NONE = "auto", "none"
SPECTRAL = "spectral"


@dataclass(frozen=True)
class StructureEncoding:
    """Structural features of a graph, with their mean and standard deviation on the graph that a model is trained on.

    Attributes
    ----------
    kinds : tuple of str
        See `apgcn.data.structure.STRUCTURE_KINDS`.
    feature_names : tuple of str
    center, scale : tuples of float
        A feature x becomes (x - center) / scale.
    """

    kinds: tuple[str, ...]
    feature_names: tuple[str, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def fit(cls, adjacency: sparse.csr_matrix, kinds: Sequence[str]) -> tuple[StructureEncoding, np.ndarray]:
        """The encoding of a graph, and its standardised features (nodes, features)."""
        kinds = check_kinds(kinds)
        names, values = compute_structure(adjacency, kinds)
        center, scale = center_and_scale(values)
        encoding = cls(kinds, tuple(names), tuple(center.tolist()), tuple(scale.tolist()))
        return encoding, encoding._standardize(values)

    def encode(self, adjacency: sparse.csr_matrix) -> np.ndarray:
        """The same features of another graph, (nodes, features).

        Raises
        ------
        InvalidInput
            If some of them are eigenvectors, of which another graph has others.
        """
        if SPECTRAL in self.kinds:
            raise InvalidInput(
                "the model was trained on eigenvectors of its graph, and another graph, or the same with new nodes or "
                "edges, has other ones; to predict on it, fit with --structure degree,random_walk."
            )
        return self._standardize(compute_structure(adjacency, self.kinds)[1])

    def _standardize(self, values: np.ndarray) -> np.ndarray:
        return ((values - np.array(self.center)) / np.array(self.scale)).astype(np.float32)

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StructureEncoding:
        numbers = (tuple(map(float, content[name])) for name in ("center", "scale"))
        encoding = cls(check_kinds(content["kinds"]), tuple(map(str, content["feature_names"])), *numbers)
        if len({len(values) for values in (encoding.feature_names, encoding.center, encoding.scale)}) > 1:
            raise InvalidInput("structural features must have as many names as centers and scales.")
        if not np.isfinite([*encoding.center, *encoding.scale]).all() or 0 in encoding.scale:
            raise InvalidInput("structural features must have finite centers, and finite scales that are not 0.")
        return encoding


Structure = str | Sequence[str] | StructureEncoding  # "auto", "none", kinds of features, or those of a model


def parse_structure(text: str) -> str | list[str]:
    """The value of --structure: "auto", "none", or kinds separated by commas.

    >>> parse_structure("auto"), parse_structure("degree, random_walk")
    ('auto', ['degree', 'random_walk'])
    """
    if text in (AUTO, NONE):
        return text
    return list(check_kinds([kind.strip() for kind in text.split(",") if kind.strip()]))


def add_structure(graph: Graph, structure: Structure) -> tuple[Graph, StructureEncoding | None, list[str]]:
    """The graph with structural features after its own, their encoding, and a note about what was computed.

    With "auto" a graph that has features gets none, and a graph without features all kinds.
    """
    if isinstance(structure, str):
        structure = parse_structure(structure)
    if structure == NONE or (structure == AUTO and graph.num_features):
        return graph, None, []
    if isinstance(structure, StructureEncoding):
        encoding, values = structure, structure.encode(graph.adjacency)
    else:
        kinds = tuple(STRUCTURE_KINDS) if structure == AUTO else structure
        encoding, values = StructureEncoding.fit(graph.adjacency, kinds)
    if isinstance(graph.features, np.ndarray):
        features = np.hstack([graph.features, values])
    else:
        features = sparse.hstack([graph.features, sparse.csr_matrix(values)], format="csr")
    reason = "; there are no others" if not graph.num_features else ""
    note = f"{graph.name}: {pluralize(values.shape[1], 'feature')} computed from the edges: {', '.join(encoding.kinds)}"
    return replace(graph, features=features), encoding, [f"{note}{reason}."]
