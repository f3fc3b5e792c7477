"""What does a large graph look like that can be made anywhere? Hubs, communities, and features that say a little.

A degree-corrected block model (Karrer and Newman, 2011): every node has a community, which is its class, and a weight,
drawn from a power law. Ends of edges are drawn by weight, the second one mostly from the community of the first.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from apgcn._utils.validation import check_int
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput

EXPONENT = 2.5  # of the weights' power law, as in many graphs of people and pages
AT_HOME = 0.8  # of the edges stay in their community
SIGNAL = 0.15  # is what a class moves its features by, in units of their spread


def synthetic_graph(nodes: int, *, edges: int, features: int = 64, classes: int = 40, seed: int = 0) -> Graph:
    """A graph with so many undirected edges; the same seed gives the same graph.

    Raises
    ------
    InvalidInput
        If there are fewer nodes than classes, or more edges than a tenth of all pairs of nodes.

    Examples
    --------
    >>> synthetic_graph(1000, edges=5000)
    Graph('synthetic', nodes=1000, directed_edges=10000, features=64, classes=40)
    """
    for name, value in (("nodes", nodes), ("edges", edges), ("features", features), ("classes", classes)):
        check_int(name, value)
    if nodes < classes or edges > nodes * (nodes - 1) // 20:
        raise InvalidInput(
            f"a synthetic graph needs a node for each of {classes} classes and few edges for its nodes, got {nodes} "
            f"nodes and {edges} edges."
        )
    random = np.random.default_rng(seed)
    labels = np.sort(np.concatenate([np.arange(classes), random.integers(classes, size=nodes - classes)]))
    numbers = random.permutation(nodes)  # so that a node's number says nothing
    first, second = (numbers[ends] for ends in _distinct_pairs(random, labels, count=edges))
    both = np.concatenate([first, second]), np.concatenate([second, first])
    adjacency = sparse.coo_matrix((np.ones(2 * edges, np.float32), both), shape=(nodes, nodes)).tocsr()
    labels = labels[np.argsort(numbers)]
    x = random.standard_normal((nodes, features), dtype=np.float32)
    x += SIGNAL * random.standard_normal((classes, features), dtype=np.float32)[labels]
    return Graph(adjacency=adjacency, features=x, labels=labels, name="synthetic")


def _distinct_pairs(random: np.random.Generator, labels: np.ndarray, *, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and higher ends of so many different edges, no loops."""
    weights = 1 + random.pareto(EXPONENT - 1, size=len(labels))
    before = np.concatenate([[0], np.cumsum(np.minimum(weights, np.sqrt(len(labels))))])  # nobody knows everybody
    bounds = before[np.searchsorted(labels, np.arange(labels[-1] + 2))]  # of the communities
    pairs = np.empty(0, dtype=np.int64)
    while len(pairs) < count:
        tries = 100 + int(1.1 * (count - len(pairs)))  # some will be there already
        first = _by_weight(random, before, np.zeros(tries), np.full(tries, before[-1]))
        at_home = random.random(tries) < AT_HOME
        start, end = bounds[labels[first]], bounds[labels[first] + 1]
        second = _by_weight(random, before, np.where(at_home, start, 0), np.where(at_home, end, before[-1]))
        drawn = np.minimum(first, second) * len(labels) + np.maximum(first, second)
        pairs = np.sort(np.concatenate([pairs, drawn[first != second]]))
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
    pairs = random.permutation(pairs)[:count]
    return pairs // len(labels), pairs % len(labels)


def _by_weight(random: np.random.Generator, before: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Nodes drawn by weight, each between two sums of weights."""
    drawn = np.searchsorted(before, start + (end - start) * random.random(len(start)), side="right") - 1
    return np.minimum(drawn, len(before) - 2)
