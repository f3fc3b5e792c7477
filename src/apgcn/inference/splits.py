"""Stratified splits of the labelled nodes of a user's graph into training, stopping, validation and test sets.

Unlike the benchmark's splits (`apgcn.data.splits`), these use every label, class by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from apgcn._utils.formatting import format_names
from apgcn._utils.validation import check_fraction
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput


class LabelledNodes(Protocol):
    """Labels and class names of a graph, whose features and edges may be elsewhere."""

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...


def stratified_split(
    labels: np.ndarray,
    *,
    stopping_size: float = 0.2,
    validation_size: float = 0.0,
    test_size: float = 0.0,
    seed: int = 0,
) -> Split:
    """A stratified split of the labelled nodes.

    The fractions `test_size`, `validation_size` and `stopping_size` of every class are held out, rounded, and the rest
    is for training. A small class has a stopping node only if one node is left for training, and a test node or a
    validation node only if two nodes are left.

    Parameters
    ----------
    labels : array of shape (nodes,)
        -1 where a label is unknown.
    stopping_size, validation_size, test_size : float
        Fractions of the labelled nodes.
    seed : int

    Examples
    --------
    >>> split = stratified_split(np.array([0] * 10 + [1] * 5 + [-1] * 3), test_size=0.2)
    >>> len(split.train), len(split.stopping), len(split.test)
    (9, 3, 3)
    """
    labels = np.asarray(labels)
    sizes = {"stopping_size": stopping_size, "validation_size": validation_size, "test_size": test_size}
    for name, size in sizes.items():
        check_fraction(name, size)
    if sum(sizes.values()) >= 1:
        raise InvalidInput(f"{', '.join(sizes)} must be less than 1 together, got {sum(sizes.values()):g}.")
    classes = np.unique(labels[labels >= 0])
    if len(classes) < 2:
        raise InvalidInput(f"labels must have at least two classes, got {len(classes)}; label nodes of another class.")
    random = np.random.default_rng(seed)
    sets: dict[str, list[np.ndarray]] = {"train": [], "stopping": [], "validation": [], "test": []}
    for label in classes:
        nodes = random.permutation(np.flatnonzero(labels == label))
        num_test = min(round(test_size * len(nodes)), max(0, len(nodes) - 2))
        num_validation = min(round(validation_size * len(nodes)), max(0, len(nodes) - num_test - 2))
        num_held_out = num_test + num_validation
        num_stopping = min(max(1, round(stopping_size * len(nodes))), len(nodes) - num_held_out - 1)
        divided = np.split(nodes, [num_test, num_held_out, num_held_out + num_stopping])
        for name, selected in zip(("test", "validation", "stopping", "train"), divided, strict=True):
            sets[name].append(selected)
    if not sum(len(nodes) for nodes in sets["stopping"]):
        raise InvalidInput(
            "some class must have two labelled nodes, one for training and one for early stopping; label more nodes."
        )
    return Split(seed=seed, **{name: np.concatenate(nodes) for name, nodes in sets.items()})


def held_out_sets(split: Split) -> tuple[str, ...]:
    """The sets of a split on which no weight is trained, without those that are empty."""
    return tuple(name for name in ("stopping", "validation", "test") if len(getattr(split, name)))


def missing_class_notes(graph: LabelledNodes, split: Split, *, sets: Sequence[str]) -> list[str]:
    """A note for each of these sets that lacks nodes of a training class: the class has too few labelled nodes."""
    notes = []
    for name in sets:
        present = set(graph.labels[getattr(split, name)].tolist())
        missing = [graph.class_names[label] for label in sorted(set(graph.labels[split.train].tolist()) - present)]
        if missing:
            notes.append(f"too few labelled nodes for the {name} set: {format_names(missing)}.")
    return notes
