"""Splits of the nodes into training, stopping, validation and test sets.

The protocol of Gasteiger et al. (PPNP, 2019), which the paper follows: a visible set is drawn once per graph and is the
same for all splits; within it every seed draws a training set (a few nodes per class) and a stopping set, for early
stopping; the rest of the visible set is for validation. All other nodes are the test set, to be used once.

The draws reproduce the published indices node by node, so they keep NumPy's legacy `RandomState`, class by class, in
the order of the file.

Some graphs are published with splits of their own instead, which `apgcn.data.published_splits` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from apgcn._utils.validation import check_int
from apgcn.data.registry import DATASETS
from apgcn.errors import InvalidInput

VISIBLE_SEED = 4143496719

TEST_SEEDS = (
    2144199730, 794209841, 2985733717, 2282690970, 1901557222,
    2009332812, 2266730407, 635625077, 3538425002, 960893189,
    497096336, 3940842554, 3594628340, 948012117, 3305901371,
    3644534211, 2297033685, 4092258879, 2590091101, 1694925034,
)  # fmt: skip

VALIDATION_SEEDS = (
    2413340114, 3258769933, 1789234713, 2222151463, 2813247115,
    1920426428, 4272044734, 2092442742, 841404887, 2188879532,
    646784207, 1633698412, 2256863076, 374355442, 289680769,
    4281139389, 4263036964, 900418539, 119332950, 1628837138,
)  # fmt: skip


PUBLISHED_SPLITS = tuple(range(10))  # the seeds of splits that a file holds are their numbers

SeedSet = Literal["test", "validation", "published"]
SEEDS: Mapping[SeedSet, tuple[int, ...]] = MappingProxyType(
    {"test": TEST_SEEDS, "validation": VALIDATION_SEEDS, "published": PUBLISHED_SPLITS}
)

SET_NAMES = ("train", "stopping", "validation", "test")


def default_seed_set(dataset: str) -> SeedSet:
    """The splits that models are evaluated on: the published ones, if a benchmark graph has them."""
    return "published" if _has_splits(dataset) else "test"


def check_seed_set(dataset: str, seed_set: SeedSet) -> None:
    """Raise unless a benchmark graph has splits of this seed set; a graph of another name may have any."""
    if dataset not in DATASETS or _has_splits(dataset) == (seed_set == "published"):
        return
    if _has_splits(dataset):
        raise InvalidInput(
            f"the seed set of {dataset} must be published, got {seed_set}: its splits come with its file, and have no "
            "nodes for choosing hyperparameters."
        )
    raise InvalidInput(f"the seed set of {dataset} must be test or validation, got {seed_set}: its splits are drawn.")


def _has_splits(dataset: str) -> bool:
    return dataset in DATASETS and DATASETS[dataset].has_splits


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Four disjoint sets of nodes.

    Parameters
    ----------
    train, stopping, validation, test : arrays of node indices, or boolean masks with one value per node
        The nodes for training the weights, for early stopping, for choosing hyperparameters, and for the final
        evaluation. The last two may be empty; `test` is empty in a split for validation, so that it cannot be used by
        mistake.
    seed : int
        The seed that the split was drawn with, or any other number: it is part of the key of every run on this split.

    Examples
    --------
    >>> Split(train=[4, 0], stopping=[1, 2], test=[False, False, False, True, False])
    Split(seed=0, train=2, stopping=2, validation=0, test=1)
    """

    train: np.ndarray
    stopping: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    test: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seed: int = 0

    def __post_init__(self) -> None:
        for name in SET_NAMES:
            object.__setattr__(self, name, _as_node_set(getattr(self, name), name=name))
        nodes, counts = np.unique(np.concatenate([getattr(self, name) for name in SET_NAMES]), return_counts=True)
        if (counts > 1).any():
            raise InvalidInput(f"the sets of a split must not overlap, but node {nodes[counts.argmax()]} is in two.")

    def __repr__(self) -> str:
        return f"Split(seed={self.seed}, {', '.join(f'{name}={len(getattr(self, name))}' for name in SET_NAMES)})"


def _as_node_set(indices_or_mask, *, name: str) -> np.ndarray:
    """Sorted, read-only node indices from indices or a mask."""
    nodes = np.asarray(indices_or_mask)
    if nodes.dtype == bool and nodes.ndim == 1:
        nodes = np.flatnonzero(nodes)
    if nodes.size == 0:
        nodes = np.empty(0, dtype=np.int64)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} must be node indices or a mask with one axis, got {nodes.dtype} of shape {nodes.shape}."
        )
    if len(nodes) and nodes.min() < 0:
        raise InvalidInput(f"{name} must hold node indices >= 0, got {nodes.min()}.")
    if len(nodes) and nodes.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"{name} must hold node indices, got {nodes.max()}.")
    nodes = np.sort(nodes.astype(np.int64))
    nodes.setflags(write=False)
    return nodes


def split_for_test(labels, seed: int, *, visible: int = 1500, train_per_class: int = 20, stopping: int = 500) -> Split:
    """Draw a split for testing, as with the seeds of `TEST_SEEDS`: all nodes outside the visible set are test nodes.

    Parameters
    ----------
    labels : array of shape (nodes,)
        Of the graph after `clean`, in the order of its file.
    visible : int
        Size of the visible set, from which all sets but the test set are drawn; 5000 on MS-Academic.
    train_per_class, stopping : int
        Number of training nodes per class, and of stopping nodes.
    """
    return _draw(
        np.asarray(labels), seed, visible=visible, train_per_class=train_per_class, stopping=stopping, with_test=True
    )


def split_for_validation(
    labels, seed: int, *, visible: int = 1500, train_per_class: int = 20, stopping: int = 500
) -> Split:
    """Draw a split for choosing hyperparameters, as with the seeds of `VALIDATION_SEEDS`: it has no test set.

    Evaluate on its validation set, the rest of the visible nodes. Parameters as in `split_for_test`.
    """
    return _draw(
        np.asarray(labels), seed, visible=visible, train_per_class=train_per_class, stopping=stopping, with_test=False
    )


def _draw(
    labels: np.ndarray, seed: int, *, visible: int, train_per_class: int, stopping: int, with_test: bool
) -> Split:
    check_int("seed", seed, minimum=0, maximum=2**32 - 1)
    _check_sizes(labels, visible=visible, train_per_class=train_per_class, stopping=stopping)
    visible_nodes = np.random.RandomState(VISIBLE_SEED).choice(np.arange(len(labels)), visible, replace=False)
    classes = int(labels.max()) + 1
    _check_classes(labels[visible_nodes], classes=classes, train_per_class=train_per_class)

    random = np.random.RandomState(seed)
    visible_labels = labels[visible_nodes]
    train = np.concatenate(
        [
            random.choice(visible_nodes[visible_labels == label], train_per_class, replace=False)
            for label in range(classes)
        ]
    )
    stop = random.choice(_without(visible_nodes, train), stopping, replace=False)
    return Split(
        seed=seed,
        train=train,
        stopping=stop,
        validation=_without(visible_nodes, np.concatenate([train, stop])),
        test=_without(np.arange(len(labels)), visible_nodes) if with_test else np.empty(0, dtype=np.int64),
    )


def _without(nodes: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """The nodes that are not excluded, in their original order."""
    return nodes[~np.isin(nodes, excluded)]


def _check_sizes(labels: np.ndarray, *, visible: int, train_per_class: int, stopping: int) -> None:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InvalidInput(f"labels must be integers with one axis, got {labels.dtype} of shape {labels.shape}.")
    if len(labels) == 0 or labels.min() < 0:
        raise InvalidInput(
            "the benchmark splits need a label for every node, got -1; pass a Split of your own instead."
        )
    for name, value in (("visible", visible), ("train_per_class", train_per_class), ("stopping", stopping)):
        check_int(name, value)
    if visible > len(labels):
        raise InvalidInput(f"visible must be at most the number of nodes, {len(labels)}, got {visible}.")
    needed = train_per_class * (int(labels.max()) + 1) + stopping
    if needed > visible:
        raise InvalidInput(
            f"the visible set of {visible} nodes is too small for {needed} training and stopping nodes; "
            "make visible larger, or train_per_class or stopping smaller."
        )


def _check_classes(visible_labels: np.ndarray, *, classes: int, train_per_class: int) -> None:
    counts = np.bincount(visible_labels, minlength=classes)
    if counts.min() < train_per_class:
        raise InvalidInput(
            f"class {counts.argmin()} has {counts.min()} visible nodes but train_per_class is {train_per_class}; "
            "make train_per_class smaller or visible larger."
        )
