"""Who may be seen? Which nodes train the weights, stop the training, choose the settings, and judge the result.

The protocol of Gasteiger et al. (PPNP, 2019), which the paper follows: a visible set is drawn once per graph and is the
same for everybody; inside it every seed draws a training set (a few nodes per class) and a stopping set; the rest of
the visible set is for validation. Everything else is the test set, to be used once.

The draws reproduce the published indices node by node, so they keep NumPy's old `RandomState`, class by class, in the
order of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from apgcn._utils.validation import check_int
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


SETS = ("train", "stopping", "validation", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Four disjoint sets of nodes.

    Parameters
    ----------
    train, stopping, validation, test : arrays of node numbers, or masks with one truth value per node
        Who trains the weights, who stops the training, who may choose settings, who judges. The last two may be empty;
        `test` is, in a split that was made for validation: what is not there cannot be looked at.
    seed : int
        What the split was drawn with, or any number of your own: it is part of the key of every run on this split.

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
        for name in SETS:
            object.__setattr__(self, name, _as_nodes(getattr(self, name), what=name))
        nodes, times = np.unique(np.concatenate([getattr(self, name) for name in SETS]), return_counts=True)
        if (times > 1).any():
            raise InvalidInput(f"the sets of a split must not overlap, but node {nodes[times.argmax()]} is in two.")

    def __repr__(self) -> str:
        return f"Split(seed={self.seed}, {', '.join(f'{name}={len(getattr(self, name))}' for name in SETS)})"


def _as_nodes(given, *, what: str) -> np.ndarray:
    """Sorted, frozen node numbers from numbers or a mask."""
    nodes = np.asarray(given)
    if nodes.dtype == bool and nodes.ndim == 1:
        nodes = np.flatnonzero(nodes)
    if nodes.size == 0:
        nodes = np.empty(0, dtype=np.int64)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise InvalidInput(
            f"{what} must be node numbers or a mask with one axis, got {nodes.dtype} of shape {nodes.shape}."
        )
    if len(nodes) and nodes.min() < 0:
        raise InvalidInput(f"{what} must hold node numbers >= 0, got {nodes.min()}.")
    if len(nodes) and nodes.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"{what} must hold numbers of nodes, got {nodes.max()}.")
    nodes = np.sort(nodes.astype(np.int64))
    nodes.setflags(write=False)
    return nodes


def split_for_test(labels, seed: int, *, visible: int = 1500, train_per_class: int = 20, stopping: int = 500) -> Split:
    """The split that a seed of `TEST_SEEDS` draws: everything invisible is for the test.

    Parameters
    ----------
    labels : array of shape (nodes,)
        Of the cleaned graph, in the order of its file.
    visible : int
        How many nodes anything but the test may use; 5000 on MS-Academic.
    per_class, stopping : int
        Training nodes a class, and stopping nodes.
    """
    return _draw(
        np.asarray(labels), seed, visible=visible, train_per_class=train_per_class, stopping=stopping, reveal_test=True
    )


def split_for_validation(
    labels, seed: int, *, visible: int = 1500, train_per_class: int = 20, stopping: int = 500
) -> Split:
    """The split that a seed of `VALIDATION_SEEDS` draws, for choosing settings: it has no test set.

    Judge it by its validation set, the rest of the visible nodes. Parameters as in `split_for_test`.
    """
    return _draw(
        np.asarray(labels), seed, visible=visible, train_per_class=train_per_class, stopping=stopping, reveal_test=False
    )


def _draw(
    labels: np.ndarray, seed: int, *, visible: int, train_per_class: int, stopping: int, reveal_test: bool
) -> Split:
    check_int("seed", seed, least=0, most=2**32 - 1)
    _check_sizes(labels, visible=visible, train_per_class=train_per_class, stopping=stopping)
    seen = np.random.RandomState(VISIBLE_SEED).choice(np.arange(len(labels)), visible, replace=False)
    classes = int(labels.max()) + 1
    _check_classes(labels[seen], classes=classes, train_per_class=train_per_class)

    random = np.random.RandomState(seed)
    by_class = [random.choice(seen[labels[seen] == label], train_per_class, replace=False) for label in range(classes)]
    train = np.concatenate(by_class)
    stop = random.choice(_without(seen, train), stopping, replace=False)
    return Split(
        seed=seed,
        train=train,
        stopping=stop,
        validation=_without(seen, np.concatenate([train, stop])),
        test=_without(np.arange(len(labels)), seen) if reveal_test else np.empty(0, dtype=np.int64),
    )


def _without(nodes: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """The nodes that are not excluded, in the order they had."""
    return nodes[~np.isin(nodes, excluded)]


def _check_sizes(labels: np.ndarray, *, visible: int, train_per_class: int, stopping: int) -> None:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InvalidInput(f"labels must be whole numbers with one axis, got {labels.dtype} of shape {labels.shape}.")
    if len(labels) == 0 or labels.min() < 0:
        raise InvalidInput(
            "the benchmark splits need a label for every node; -1 came; draw a split of your own instead."
        )
    for name, value in (("visible", visible), ("train_per_class", train_per_class), ("stopping", stopping)):
        check_int(name, value)
    if visible > len(labels):
        raise InvalidInput(f"visible must be at most the number of nodes, {len(labels)}, got {visible}.")
    needed = train_per_class * (int(labels.max()) + 1) + stopping
    if needed > visible:
        raise InvalidInput(
            f"the visible set of {visible} nodes is too small for {needed} training and stopping nodes; "
            "make visible larger, or per_class or stopping smaller."
        )


def _check_classes(visible_labels: np.ndarray, *, classes: int, train_per_class: int) -> None:
    counts = np.bincount(visible_labels, minlength=classes)
    if counts.min() < train_per_class:
        raise InvalidInput(
            f"class {counts.argmin()} has {counts.min()} visible nodes but per_class asks for {train_per_class}; "
            "make per_class smaller or visible larger."
        )
