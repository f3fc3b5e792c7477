"""Positions of the nodes of a drawn graph: near their neighbours, and apart from other nodes."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

ITERATIONS = 120
NEGATIVE_SAMPLES = 4  # nodes that push a node away in an iteration
MIN_DISTANCE = 0.05  # the repulsion does not grow below it


def node_positions(adjacency: sparse.csr_matrix, *, seed: int = 0) -> np.ndarray:
    """Points of the unit square, (nodes, 2).

    Neighbours attract each other and random pairs repel each other, with a step size that decreases (as in LargeVis,
    Tang et al., 2016); this costs a fixed number of passes over edges and nodes. Small components are put in rows below
    the largest one.
    """
    rng = np.random.default_rng(seed)
    num_nodes = adjacency.shape[0]
    _, component = connected_components(adjacency, directed=False)
    sizes = np.bincount(component)
    largest = np.flatnonzero(component == sizes.argmax())
    positions = np.zeros((num_nodes, 2))
    positions[largest] = _force_layout(adjacency[largest][:, largest], rng)
    others = np.flatnonzero(component != sizes.argmax())
    if len(others):
        others = others[np.lexsort((others, -sizes[component[others]]))]
        columns = max(1, int(np.ceil(np.sqrt(4 * len(others)))))
        rank = np.arange(len(others))
        height = 0.02 * (rank[-1] // columns + 2)
        positions[others] = np.stack([(rank % columns + 0.5) / columns, 1 + 0.02 * (rank // columns + 1)], axis=1)
        positions[:, 1] /= 1 + height
    return positions


def _force_layout(adjacency: sparse.csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Positions of the nodes of a connected graph, (nodes, 2)."""
    num_nodes = adjacency.shape[0]
    if num_nodes == 1:
        return np.full((1, 2), 0.5)
    coo = sparse.triu(adjacency + adjacency.T, k=1).tocoo()
    first, second = coo.row, coo.col
    degree = np.maximum(1, np.bincount(np.concatenate([first, second]), minlength=num_nodes))
    positions = _smooth(adjacency, rng.standard_normal((num_nodes, 2)))
    for iteration in range(ITERATIONS):
        max_move = 0.1 * (1 - iteration / ITERATIONS)
        force = np.zeros_like(positions)
        difference = positions[second] - positions[first]
        for end, sign in ((first, 1), (second, -1)):
            for axis in range(2):
                force[:, axis] += sign * np.bincount(end, weights=difference[:, axis], minlength=num_nodes)
        force /= degree[:, None]
        for _ in range(NEGATIVE_SAMPLES):
            away = positions - positions[rng.permutation(num_nodes)]
            force += 0.02 * away / (MIN_DISTANCE**2 + (away**2).sum(axis=1, keepdims=True)) / NEGATIVE_SAMPLES
        length = np.sqrt((force**2).sum(axis=1, keepdims=True))
        positions += force * np.minimum(1, max_move / np.maximum(length, 1e-12))
    low, high = np.quantile(positions, [0.005, 0.995], axis=0)
    return 0.02 + 0.96 * np.clip((positions - low) / np.maximum(high - low, 1e-12), 0, 1)


def _smooth(adjacency: sparse.csr_matrix, positions: np.ndarray) -> np.ndarray:
    """Positions after 30 steps in which every node moves to the mean of its neighbours and itself."""
    symmetric = sparse.csr_matrix(adjacency + adjacency.T, dtype=np.float64) + sparse.eye(adjacency.shape[0])
    transition = sparse.diags(1 / np.asarray(symmetric.sum(axis=1)).ravel()) @ symmetric
    for _ in range(30):
        positions = transition @ positions
        positions = (positions - positions.mean(axis=0)) / np.maximum(positions.std(axis=0), 1e-12)
    return positions
