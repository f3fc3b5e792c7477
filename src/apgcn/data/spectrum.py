"""Eigenvectors of the normalised Laplacian with the smallest non-trivial eigenvalues."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

MAX_EIGENVECTORS = 16
DENSE_NODES = 512  # up to which the matrix is decomposed completely
LANCZOS_VECTORS = 48
LANCZOS_RESTARTS = 100  # afterwards block power iteration, which always ends
POWER_PRODUCTS = 100
TOLERANCE = 1e-6
SIGN_TOLERANCE = 1e-6  # relative: entries that differ less count as equally large


def normalized_adjacency(undirected: sparse.csr_matrix) -> sparse.csr_matrix:
    """D^-1/2 A D^-1/2 without self-loops; the row of an isolated node is zero."""
    weight_sums = np.asarray(undirected.sum(axis=1)).ravel()
    inverse_roots = np.divide(1.0, np.sqrt(weight_sums), out=np.zeros_like(weight_sums), where=weight_sums > 0)
    scaling = sparse.diags(inverse_roots)
    return sparse.csr_matrix(scaling @ undirected @ scaling)


def leading_eigenvectors(undirected: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the normalised Laplacian in ascending order, and eigenvectors (nodes, k) of length 1.

    The trivial one of each component, with eigenvalue 0 and known in closed form, is left out, so k is at most
    `MAX_EIGENVECTORS`, the number of nodes less 2, and the number of nodes with edges less that of their components.
    Isolated nodes have zeros. The entry of largest absolute value is positive. Eigenvectors of equal eigenvalues are
    some basis of their space.
    """
    nodes = undirected.shape[0]
    connected = np.flatnonzero(np.diff(undirected.indptr))
    adjacency = sparse.csr_matrix(undirected[connected][:, connected])
    components, component = connected_components(adjacency, directed=False) if len(connected) else (0, np.empty(0, int))
    count = max(0, min(MAX_EIGENVECTORS, nodes - 2, len(connected) - components))
    vectors = np.zeros((nodes, count))
    if not count:
        return np.zeros(0), vectors
    eigenvalues, found = _largest(_without_trivial(adjacency, component), count)
    largest = np.abs(found).max(axis=0)
    positions = (np.abs(found) >= (1 - SIGN_TOLERANCE) * largest).argmax(axis=0)
    vectors[connected] = found * np.sign(found[positions, np.arange(count)])
    return 1 - eigenvalues, vectors


def _without_trivial(adjacency: sparse.csr_matrix, component: np.ndarray) -> LinearOperator:
    """The normalised adjacency whose trivial eigenvectors have the eigenvalue -1 instead of 1."""
    matrix = normalized_adjacency(adjacency)
    trivial = np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    trivial /= np.sqrt(np.bincount(component, weights=trivial**2))[component]
    nodes = len(trivial)
    indicator = sparse.csr_matrix((trivial, (np.arange(nodes), component)))  # (nodes, components), orthonormal columns

    def multiply_by(vectors: np.ndarray) -> np.ndarray:
        return matrix @ vectors - 2 * (indicator @ (indicator.T @ vectors))

    return LinearOperator((nodes, nodes), matvec=multiply_by, matmat=multiply_by, dtype=np.float64)


def _largest(operator: LinearOperator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a symmetric operator, in descending order, and their eigenvectors."""
    nodes = operator.shape[0]
    random = np.random.default_rng(0)
    if nodes <= DENSE_NODES:
        dense = operator @ np.eye(nodes)
        values, vectors = np.linalg.eigh((dense + dense.T) / 2)
    else:
        try:
            values, vectors = eigsh(
                operator,
                k=count,
                which="LA",
                v0=random.standard_normal(nodes),
                ncv=LANCZOS_VECTORS,
                maxiter=LANCZOS_RESTARTS,
                tol=TOLERANCE,
            )
        except ArpackNoConvergence:
            values, vectors = block_power_iteration(operator, random.standard_normal((nodes, 2 * count)))
    order = np.argsort(-values, kind="stable")[:count]
    return values[order], vectors[:, order]


def block_power_iteration(operator: LinearOperator, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Approximate eigenvalues, ascending, and eigenvectors of a symmetric operator of norm 1, by Rayleigh and Ritz."""
    block, _ = np.linalg.qr(block)
    for _ in range(POWER_PRODUCTS):
        block, _ = np.linalg.qr(block + operator @ block)
    values, rotation = np.linalg.eigh(block.T @ (operator @ block))
    return values, block @ rotation
