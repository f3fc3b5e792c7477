"""Where is a node drawn? Near those it is connected to, and apart from the others."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

ROUNDS = 120
OTHERS = 4  # that a node keeps away from in a round, drawn at random
NEAR = 0.05  # closer than this nobody is pushed any harder


def positions(adjacency: sparse.csr_matrix, *, seed: int = 0) -> np.ndarray:
    """Points of the unit square, (nodes, 2).

    Neighbours pull, nodes drawn at random push, less from round to round (as in LargeVis, Tang et al., 2016); it costs
    a fixed number of passes over edges and nodes. Small components are put in rows below the largest one.
    """
    random = np.random.default_rng(seed)
    nodes = adjacency.shape[0]
    _, component = connected_components(adjacency, directed=False)
    sizes = np.bincount(component)
    main = np.flatnonzero(component == sizes.argmax())
    places = np.zeros((nodes, 2))
    inner = adjacency[main][:, main]
    places[main] = _arranged(inner, random)
    others = np.flatnonzero(component != sizes.argmax())
    if len(others):
        others = others[np.lexsort((others, -sizes[component[others]]))]
        columns = max(1, int(np.ceil(np.sqrt(4 * len(others)))))
        place = np.arange(len(others))
        depth = 0.02 * (place[-1] // columns + 2)
        places[others] = np.stack([(place % columns + 0.5) / columns, 1 + 0.02 * (place // columns + 1)], axis=1)
        places[:, 1] /= 1 + depth
    return places


def _arranged(adjacency: sparse.csr_matrix, random: np.random.Generator) -> np.ndarray:
    nodes = adjacency.shape[0]
    if nodes == 1:
        return np.full((1, 2), 0.5)
    coo = sparse.triu(adjacency + adjacency.T, k=1).tocoo()
    first, second = coo.row, coo.col
    degree = np.maximum(1, np.bincount(np.concatenate([first, second]), minlength=nodes))
    places = _smoothed(adjacency, random.standard_normal((nodes, 2)))
    for number in range(ROUNDS):
        heat = 0.1 * (1 - number / ROUNDS)
        move = np.zeros_like(places)
        between = places[second] - places[first]
        for end, sign in ((first, 1), (second, -1)):
            for axis in range(2):
                move[:, axis] += sign * np.bincount(end, weights=between[:, axis], minlength=nodes)
        move /= degree[:, None]
        for _ in range(OTHERS):
            away = places - places[random.permutation(nodes)]
            move += 0.02 * away / (NEAR**2 + (away**2).sum(axis=1, keepdims=True)) / OTHERS
        length = np.sqrt((move**2).sum(axis=1, keepdims=True))
        places += move * np.minimum(1, heat / np.maximum(length, 1e-12))
    low, high = np.quantile(places, [0.005, 0.995], axis=0)
    return 0.02 + 0.96 * np.clip((places - low) / np.maximum(high - low, 1e-12), 0, 1)


def _smoothed(adjacency: sparse.csr_matrix, places: np.ndarray) -> np.ndarray:
    """Random points after every node has moved to the middle of its neighbours, again and again."""
    both = sparse.csr_matrix(adjacency + adjacency.T, dtype=np.float64) + sparse.eye(adjacency.shape[0])
    walk = sparse.diags(1 / np.asarray(both.sum(axis=1)).ravel()) @ both
    for _ in range(30):
        places = walk @ places
        places = (places - places.mean(axis=0)) / np.maximum(places.std(axis=0), 1e-12)
    return places
