"""Which of the labelled nodes of one's own graph train, which stop the training, and which judge it?

Unlike the benchmark's splits (`splits`), these take every label there is, class by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from apgcn._utils.validation import check_fraction
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.io.tables import listed


class Labelled(Protocol):
    """What is known of a graph's nodes beside their rows."""

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...


def stratified_split(labels: np.ndarray, *, stopping: float = 0.2, test: float = 0.0, seed: int = 0) -> Split:
    """A stratified split of the labelled nodes.

    Of every class the shares `test` and `stopping` are set aside, rounded, and the rest trains. A class of few nodes
    gives a stopping node as long as one is left to train, and a test node as long as two are.

    Parameters
    ----------
    labels : array of shape (nodes,)
        -1 where a label is unknown.

    Examples
    --------
    >>> split = stratified_split(np.array([0] * 10 + [1] * 5 + [-1] * 3), test=0.2)
    >>> len(split.train), len(split.stopping), len(split.test)
    (9, 3, 3)
    """
    labels = np.asarray(labels)
    check_fraction("stopping", stopping)
    check_fraction("test", test)
    if stopping + test >= 1:
        raise InvalidInput(f"stopping and test must be less than 1 together, got {stopping} and {test}.")
    if len(np.unique(labels[labels >= 0])) < 2:
        raise InvalidInput("labels must hold two classes or more; label nodes of another one.")
    random = np.random.default_rng(seed)
    sets: dict[str, list[np.ndarray]] = {"train": [], "stopping": [], "test": []}
    for label in np.unique(labels[labels >= 0]):
        nodes = random.permutation(np.flatnonzero(labels == label))
        judging = min(round(test * len(nodes)), max(0, len(nodes) - 2))
        pausing = min(max(1, round(stopping * len(nodes))), len(nodes) - judging - 1)
        for name, part in zip(
            ("test", "stopping", "train"), np.split(nodes, [judging, judging + pausing]), strict=True
        ):
            sets[name].append(part)
    if not sets["train"] or not sum(len(part) for part in sets["stopping"]):
        raise InvalidInput(
            "some class must have two labelled nodes, one to train and one to say when to stop; label more nodes."
        )
    return Split(seed=seed, **{name: np.concatenate(parts) for name, parts in sets.items()})


def without(graph: Labelled, split: Split, *, asked: Sequence[str]) -> list[str]:
    """Which classes have too few labelled nodes to give one to each of the sets, as sentences."""
    words = {"stopping": "says when to stop", "test": "judges"}
    notes = []
    for name in asked:
        there = set(graph.labels[getattr(split, name)].tolist())
        lacking = [graph.class_names[label] for label in sorted(set(graph.labels[split.train].tolist()) - there)]
        if lacking:
            notes.append(f"too few labelled nodes, so none {words[name]}: {listed(lacking)}.")
    return notes
