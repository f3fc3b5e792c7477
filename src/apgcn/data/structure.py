"""Features of nodes that are computed from the edges alone: degrees, random walks and eigenvectors.

All of them see the graph as undirected and without self-loops. Weights count in random walks and eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType

import numpy as np
from scipy import sparse

from apgcn.data.spectrum import leading_eigenvectors, normalized_adjacency
from apgcn.errors import InvalidInput, UnknownName

WALK_STEPS = 16
EXACT_OPERATIONS = 2**27  # edges times nodes, up to which return probabilities are exact
SKETCH_VECTORS = 64  # the standard error of a return probability is at most sqrt(2 / 64) of it
BLOCK_VECTORS = 8  # that are multiplied at once: memory
MAX_PATHS = 2**22  # of two edges that are counted at once: memory
CONSTANT_TOLERANCE = 1e-9  # standard deviation, relative to the largest value, up to which a feature is constant


def structural_features(adjacency: sparse.csr_matrix, kinds: Sequence[str]) -> np.ndarray:
    """Standardised features (nodes, features) of some kinds, in this order; the same graph gives the same features.

    Parameters
    ----------
    adjacency : sparse matrix of shape (nodes, nodes)
    kinds : sequence of str
        Of "degree", "random_walk" and "spectral", see `STRUCTURE_KINDS`.

    Examples
    --------
    >>> path = sparse.csr_matrix([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> structural_features(path, ["degree"])[:, 0].round(2)
    array([-0.71,  1.41, -0.71], dtype=float32)
    """
    _, values = compute_structure(adjacency, kinds)
    center, scale = center_and_scale(values)
    return ((values - center) / scale).astype(np.float32)


def center_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature; 1 instead of the latter where a feature is constant."""
    center, std = values.mean(axis=0), values.std(axis=0)
    constant = std <= CONSTANT_TOLERANCE * np.abs(values).max(axis=0, initial=0.0)
    return center, np.where(constant, 1.0, std)


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds without duplicates; raises `UnknownName` or `InvalidInput` unless there is one and all are known."""
    if not isinstance(kinds, Iterable):
        raise InvalidInput(f"structure must be auto, none or a list of {', '.join(STRUCTURE_KINDS)}, got {kinds!r}.")
    for kind in kinds:
        if kind not in STRUCTURE_KINDS:
            raise UnknownName("kind of structural features", kind, STRUCTURE_KINDS)
    if not kinds:
        raise InvalidInput(f"there must be at least one kind of structural features: {', '.join(STRUCTURE_KINDS)}.")
    return tuple(dict.fromkeys(kinds))


def compute_structure(adjacency: sparse.csr_matrix, kinds: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Names of the features of some kinds and their values before standardisation, (nodes, features)."""
    undirected = sparse.csr_matrix(adjacency.maximum(adjacency.T), dtype=np.float64)
    undirected = sparse.csr_matrix(undirected - sparse.diags(undirected.diagonal()))
    undirected.eliminate_zeros()
    undirected.sort_indices()
    computed = [STRUCTURE_KINDS[kind](undirected) for kind in check_kinds(kinds)]
    return [name for names, _ in computed for name in names], np.hstack([values for _, values in computed])


def degree_features(undirected: sparse.csr_matrix) -> tuple[list[str], np.ndarray]:
    """Logarithms of the degree and of the neighbours' mean degree, clustering coefficient, and whether isolated."""
    neighbours = sparse.csr_matrix(
        (np.ones(undirected.nnz), undirected.indices, undirected.indptr), shape=undirected.shape
    )
    degree = np.diff(undirected.indptr).astype(np.float64)
    mean_degree = neighbours @ degree / np.maximum(degree, 1)
    clustering = 2 * count_triangles(undirected) / np.maximum(degree * (degree - 1), 1)
    names = ["log degree", "log mean degree of neighbours", "clustering coefficient", "isolated"]
    return names, np.column_stack([np.log1p(degree), np.log1p(mean_degree), clustering, degree == 0])


def count_triangles(undirected: sparse.csr_matrix) -> np.ndarray:
    """The number of triangles through each node, (nodes,).

    Every edge is directed to its end of larger degree (of equal degrees, to the larger index), so that few edges leave
    a hub. In a triangle u -> v -> w then u -> w, and it is found by its edge (u, w) and by its edge (v, w).
    """
    nodes = undirected.shape[0]
    rank = np.empty(nodes, dtype=np.int64)
    rank[np.lexsort((np.arange(nodes), np.diff(undirected.indptr)))] = np.arange(nodes)
    coo = undirected.tocoo()
    first, last = rank[coo.row], rank[coo.col]
    kept = first < last
    forward = sparse.csr_array((np.ones(kept.sum(), np.int64), (first[kept], last[kept])), shape=(nodes, nodes))
    at_first, _ = _sums_at_edges(forward, forward)
    at_middle, at_last = _sums_at_edges(sparse.csr_array(forward.T), forward)
    return (at_first + at_middle + at_last)[rank]


def _sums_at_edges(left: sparse.csr_array, edges: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Row sums and column sums of the entries of `left @ edges` that are edges, some rows at a time."""
    row_sums, column_sums = np.zeros((2, edges.shape[0]), dtype=np.int64)
    for rows in _slices(left @ np.diff(edges.indptr), max_sum=MAX_PATHS):
        entries = (left[rows] @ edges) * edges[rows]
        row_sums[rows] = entries.sum(axis=1)
        column_sums += entries.sum(axis=0)
    return row_sums, column_sums


def _slices(sizes: np.ndarray, *, max_sum: int) -> Iterator[slice]:
    """Consecutive slices whose sizes add up to at most `max_sum`, or that have one element."""
    total, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, before + max_sum, side="right")))
        yield slice(start, end)
        start = end


def random_walk_features(undirected: sparse.csr_matrix) -> tuple[list[str], np.ndarray]:
    """Probabilities that a random walk of 2, 4, ... `WALK_STEPS` steps ends where it began; 0 for an isolated node.

    With the symmetric normalisation S, whose powers have the diagonals of those of the random walk, diag(S^2j)_i is the
    squared length of row i of S^j. On small graphs the rows are complete; on others they are projected onto
    `SKETCH_VECTORS` random signs (Johnson and Lindenstrauss). Odd numbers of steps are left out: projections cannot
    tell their small probabilities from 0, and the clustering coefficient shows the closed walks of three.
    """
    nodes = undirected.shape[0]
    walk = normalized_adjacency(undirected)
    values = np.zeros((nodes, WALK_STEPS // 2))
    for block in _vector_blocks(nodes, exact=undirected.nnz * nodes <= EXACT_OPERATIONS):
        for half in range(WALK_STEPS // 2):
            block = walk @ block
            values[:, half] += (block**2).sum(axis=1)
    return [f"return probability after {2 * half + 2} steps" for half in range(WALK_STEPS // 2)], values


def _vector_blocks(nodes: int, *, exact: bool) -> Iterator[np.ndarray]:
    """Blocks of columns of the unit matrix, or of random signs with rows of length 1, (nodes, block)."""
    random = np.random.default_rng(0)
    vectors = nodes if exact else SKETCH_VECTORS
    block_vectors = max(BLOCK_VECTORS, 2**16 // nodes) if exact else BLOCK_VECTORS
    for start in range(0, vectors, block_vectors):
        columns = np.arange(start, min(start + block_vectors, vectors))
        if exact:
            block = np.zeros((nodes, len(columns)))
            block[columns, np.arange(len(columns))] = 1.0
        else:
            block = random.choice([-1.0, 1.0], size=(nodes, len(columns))) / np.sqrt(SKETCH_VECTORS)
        yield block


def spectral_features(undirected: sparse.csr_matrix) -> tuple[list[str], np.ndarray]:
    """Eigenvectors of the normalised Laplacian with the smallest eigenvalues, see `leading_eigenvectors`."""
    _, vectors = leading_eigenvectors(undirected)
    return [f"eigenvector {number}" for number in range(1, vectors.shape[1] + 1)], vectors


STRUCTURE_KINDS: MappingProxyType[str, Callable[[sparse.csr_matrix], tuple[list[str], np.ndarray]]] = MappingProxyType(
    {"degree": degree_features, "random_walk": random_walk_features, "spectral": spectral_features}
)
