"""The attributed graph: adjacency, node features and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from apgcn.errors import InvalidInput

MAX_CLASSES = 2**16
MAX_WEIGHT_SUM = 1e30  # of the edges of a node, well within single precision


@dataclass(frozen=True, eq=False)
class Graph:
    """An immutable attributed graph, validated when it is created.

    Parameters
    ----------
    adjacency : scipy sparse matrix of shape (nodes, nodes)
        Entry (i, j) is the weight of the edge from i to j, along which only j receives: pass both directions of an
        undirected edge, or use `apgcn.data.transforms.to_undirected`. Stored as CSR with sorted columns, float32.
    features : scipy sparse matrix or array of shape (nodes, features)
        Sparse stays sparse (CSR), dense stays dense; float32.
    labels : array of shape (nodes,), optional
        The class of every node, counted from 0; -1 where it is unknown.
    name : str
        Part of the key of every run on this graph: graphs with different names get different random streams.
    class_names, node_names : sequences of str, optional
        For display. Classes without names are named by their index.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Graph(path, features=np.eye(3), labels=[0, -1, 1], name="path")
    Graph('path', nodes=3, directed_edges=4, features=3, classes=2)
    """

    adjacency: sparse.csr_matrix
    features: sparse.csr_matrix | np.ndarray
    labels: Any = None  # an array after initialisation
    name: str = "graph"
    class_names: tuple[str, ...] = ()
    node_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        sparse_features = sparse.issparse(self.features)
        labels = _as_labels(np.full(np.shape(self.adjacency)[:1], -1) if self.labels is None else self.labels)
        classes = int(labels.max(initial=-1)) + 1
        validated = {
            "adjacency": _as_csr(self.adjacency, what="adjacency"),
            "features": _as_csr(self.features, what="features") if sparse_features else _as_dense(self.features),
            "labels": labels,
            "class_names": _as_names(self.class_names, what="class_names") or _as_names(range(classes), what="classes"),
            "node_names": None if self.node_names is None else _as_names(self.node_names, what="node_names"),
        }
        for name, value in validated.items():
            object.__setattr__(self, name, value)  # the class is frozen
        self._check(classes)

    def _check(self, classes: int) -> None:
        rows, columns = self.adjacency.shape
        if rows != columns:
            raise InvalidInput(f"adjacency must be square, got {rows} x {columns}.")
        if rows == 0:
            raise InvalidInput("a graph must have at least one node, got none.")
        if self.features.shape[0] != rows:
            raise InvalidInput(
                f"{self.name} has {rows} nodes but {self.features.shape[0]} rows of features; pass one row per node."
            )
        if len(self.labels) != rows:
            raise InvalidInput(
                f"{self.name} has {rows} nodes but {len(self.labels)} labels; write -1 where a label is unknown."
            )
        if self.adjacency.nnz and self.adjacency.data.min() < 0:
            raise InvalidInput(f"edge weights must be >= 0, got {self.adjacency.data.min():g}.")
        bound = float(self.adjacency.data.max(initial=0.0)) * rows  # on the weight sum of a node
        if bound > MAX_WEIGHT_SUM:
            raise InvalidInput(f"edge weights must be at most {MAX_WEIGHT_SUM / rows:g}, got {bound / rows:g}.")
        if len(self.class_names) < classes:
            raise InvalidInput(f"labels count {classes} classes but there are {len(self.class_names)} class names.")
        if len(set(self.class_names)) < len(self.class_names):
            raise InvalidInput(f"{self.name} must have a unique name for each class, but some classes have the same.")
        if self.node_names is not None and len(self.node_names) != rows:
            raise InvalidInput(f"{self.name} has {rows} nodes but {len(self.node_names)} node names.")

    @property
    def num_nodes(self) -> int:
        return self.adjacency.shape[0]

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The names of the nodes, or their indices as text if they have none."""
        return self.node_names or tuple(map(str, range(self.num_nodes)))

    @property
    def num_directed_edges(self) -> int:
        """The stored entries of the adjacency: an undirected edge counts twice, once for each direction."""
        return self.adjacency.nnz

    @property
    def num_features(self) -> int:
        return self.features.shape[1]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes}, directed_edges={self.num_directed_edges}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )


def check_csr(matrix: sparse.csr_matrix) -> None:
    """Check the index arrays of a CSR matrix, which scipy uses unchecked.

    Raises
    ------
    ValueError
        If an index is out of range, or `indptr` decreases.
    """
    indptr = matrix.indptr  # scipy compares differences, which can overflow
    if indptr[0] != 0 or indptr[-1] > len(matrix.indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("index pointers must rise from 0 to the number of entries")
    matrix.check_format(full_check=True)


def _as_csr(matrix, *, what: str) -> sparse.csr_matrix:
    try:
        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(f"{matrix.dtype} of shape {matrix.shape}")
        csr = sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
        check_csr(csr)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be a matrix of numbers, got {type(matrix).__name__} ({error}).") from error
    if what == "adjacency" and matrix.dtype.kind == "f" and matrix.dtype.itemsize > csr.dtype.itemsize:
        _check_not_rounded_to_zero(sparse.csr_matrix(matrix).data)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    if not np.isfinite(csr.data).all():
        raise InvalidInput(f"{what} must be finite, got NaN or infinity; fill missing values first.")
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _check_not_rounded_to_zero(weights: np.ndarray) -> None:
    """Raise if a weight is not 0 but would be in single precision: its edge would be lost."""
    lost = weights[(weights != 0) & (weights.astype(np.float32) == 0)]
    if len(lost):
        raise InvalidInput(
            f"edge weights must be 0 or at least {np.finfo(np.float32).smallest_subnormal:g}, the smallest number in "
            f"single precision, got {lost[0]:g}; multiply all weights by one number, or remove the edge."
        )


def _as_dense(features) -> np.ndarray:
    try:
        array = np.asarray(features)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{array.dtype}")
        dense = np.array(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"features must be numbers, got {type(features).__name__} ({error}).") from error
    if dense.ndim != 2:
        raise InvalidInput(f"features must have two axes (nodes, features), got shape {dense.shape}.")
    if not np.isfinite(dense).all():
        raise InvalidInput("features must be finite, got NaN or infinity; fill missing values first.")
    dense.setflags(write=False)
    return dense


def _as_labels(labels) -> np.ndarray:
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InvalidInput(f"labels must have one axis (nodes), got {error}.") from error
    if array.ndim != 1:
        raise InvalidInput(f"labels must have one axis (nodes), got shape {array.shape}.")
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"labels must be integers, -1 for unknown, got {array.dtype}.")
    if len(array) and not -1 <= array.min() <= array.max() < MAX_CLASSES:
        out_of_range = array.min() if array.min() < -1 else array.max()
        raise InvalidInput(f"labels must be >= -1 and < {MAX_CLASSES}, got {out_of_range}.")
    classes = array.astype(np.int64)
    classes.setflags(write=False)
    return classes


def _as_names(names, *, what: str) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in names)
    except TypeError as error:
        raise InvalidInput(f"{what} must be a list of names, got {names!r}.") from error
