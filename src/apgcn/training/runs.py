"""Runs, their results and histories; a run is a split and an initialisation of one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from apgcn._utils.roc_auc import roc_auc
from apgcn._utils.validation import check_int
from apgcn.data.datasets import published_splits
from apgcn.data.graph import Graph
from apgcn.data.registry import dataset_info
from apgcn.data.splits import (
    SEEDS,
    SET_NAMES,
    SeedSet,
    Split,
    check_seed_set,
    default_seed_set,
    split_for_test,
    split_for_validation,
)
from apgcn.errors import InvalidInput
from apgcn.ops.rng import derive_seed

MAX_RUNS = 100_000  # a thousand times the 100 of the protocol


@dataclass(frozen=True, eq=False)
class Run:
    """One training, whose random numbers follow from these three values alone.

    Parameters
    ----------
    split : Split
    init : int
        Number of the initialisation: another one gives other initial weights and other dropout masks.
    dataset : str
        The name of the graph.

    Hyperparameters are not part of the seed: two runs that differ only in hyperparameters without random draws
    (penalty, l2, learning_rate, patience, monitor, ...) have the same initial weights and dropout masks.
    """

    split: Split
    init: int = 0
    dataset: str = "graph"

    @property
    def rng_seed(self) -> int:
        """The seed of the run's random stream."""
        return derive_seed(self.dataset, self.split.seed, self.init)


def benchmark_runs(graph: Graph, count: int, *, seed: int = 0, validation: bool = False) -> list[Run]:
    """The first `count` runs of the paper's protocol: the 20 test splits with one initialisation, then with the next.

    A graph that is published with splits has those ten instead.

    Parameters
    ----------
    graph : Graph
        A benchmark graph after `clean`, or as loaded if it is published with splits: see `load_prepared`.
    count : int
        100 is the complete protocol.
    seed : int
        The number of the first initialisation.
    validation : bool
        Use the validation seeds instead, for choosing hyperparameters without the test nodes.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> runs = benchmark_runs(clean(load("cora")), 21)
    >>> runs[20].split.seed == runs[0].split.seed, runs[20].init
    (True, 1)
    """
    check_int("runs", count, maximum=MAX_RUNS)
    check_int("seed", seed, minimum=0)
    dataset = dataset_info(graph.name)
    if graph.num_nodes != dataset.nodes:
        state, advice = (
            ("as loaded", "leave out clean(graph)")
            if dataset.has_splits
            else ("after clean(graph)", "call clean(graph) first")
        )
        raise InvalidInput(
            f"the splits of {graph.name} need its {dataset.nodes} nodes {state}, got {graph.num_nodes}; {advice}."
        )
    seed_set: SeedSet = "validation" if validation else default_seed_set(graph.name)
    check_seed_set(graph.name, seed_set)
    splits: Sequence[Split]
    if seed_set == "published":
        splits = published_splits(graph.name)
    else:
        draw = split_for_validation if validation else split_for_test
        splits = [draw(graph.labels, split_seed, visible=dataset.visible) for split_seed in SEEDS[seed_set][:count]]
    number_of_splits = len(SEEDS[seed_set])
    return [
        Run(splits[index % number_of_splits], init=seed + index // number_of_splits, dataset=graph.name)
        for index in range(count)
    ]


def check_run(run: Run, graph: Graph) -> None:
    """Check that a run belongs to this graph and can be trained on it."""
    if run.dataset != graph.name:
        raise InvalidInput(f"a run of {run.dataset!r} cannot be trained on {graph.name!r}; use the same name for both.")
    for name in SET_NAMES:
        nodes = getattr(run.split, name)
        if len(nodes) and nodes[-1] >= graph.num_nodes:
            raise InvalidInput(f"{name} must hold nodes of {graph.name}, 0 to {graph.num_nodes - 1}, got {nodes[-1]}.")
    for name in ("train", "stopping"):
        nodes = getattr(run.split, name)
        if not len(nodes):
            raise InvalidInput(f"the {name} set of a split must not be empty.")
        if graph.labels[nodes].min() < 0:
            unknown = nodes[graph.labels[nodes].argmin()]
            raise InvalidInput(f"every node of the {name} set must have a label, but that of node {unknown} is -1.")


class Evaluation(NamedTuple):
    """The evaluation of an epoch, one value per active run of the batch; see `History`."""

    training_loss: Tensor
    stopping_loss: Tensor
    stopping_accuracy: Tensor
    steps_mean: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """The evaluations of a run, one value per epoch, after the epoch's optimiser step and with dropout off.

    `training_loss` is the complete loss on the training nodes, l2 and penalty included; `stopping_loss` is the
    cross-entropy of the stopping nodes; `steps_mean` is K averaged over the training and stopping nodes.
    """

    training_loss: np.ndarray
    stopping_loss: np.ndarray
    stopping_accuracy: np.ndarray
    steps_mean: np.ndarray

    def __repr__(self) -> str:
        return f"History(epochs={len(self.stopping_loss)})"


class HistoryLog:
    """The evaluations of a run batch, from which finished runs are dropped; kept on the device until they are read."""

    def __init__(self, runs: int):
        self._runs = runs
        self._epochs: list[tuple[Tensor, Tensor]] = []

    def append(self, active_runs: Tensor, evaluation: Evaluation) -> None:
        """Add an epoch; `active_runs` are the positions of the evaluated runs among all runs."""
        self._epochs.append((active_runs, torch.stack([value.double() for value in evaluation])))

    def per_run_histories(self, epochs: Sequence[int]) -> list[History]:
        """One history per run, cut at the number of epochs of each."""
        table = self.table().numpy()
        return [History(*table[:, index, :length].copy()) for index, length in enumerate(epochs)]

    def table(self) -> Tensor:
        """All evaluations, of shape (quantities, runs, epochs); NaN after a run was dropped."""
        table = torch.full((len(Evaluation._fields), self._runs, len(self._epochs)), torch.nan, dtype=torch.float64)
        for epoch, (active_runs, values) in enumerate(self._epochs):
            table[:, active_runs.cpu(), epoch] = values.cpu()
        return table

    def restore(self, table: Tensor) -> None:
        """Replace the evaluations by those of a table."""
        all_runs = torch.arange(self._runs)
        self._epochs = [(all_runs, values) for values in table.cpu().unbind(-1)]


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """A finished run, evaluated with its best weights.

    Attributes
    ----------
    logits : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R of every node.
    best_epoch : int
        The epoch of the weights, counted from 1; 0 if the loss was never finite and they are the initial ones.
    weights : dict of Tensor
        The best weights, each with a run axis of one, for `load_state_dict` of a batch of one.
    converged : bool
        Whether patience ended the training, not the limit of epochs or of time.
    """

    run: Run
    logits: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    weights: dict[str, Tensor]
    history: History
    best_epoch: int
    labels: np.ndarray
    converged: bool = True

    @property
    def epochs(self) -> int:
        """Number of epochs trained, including those after the best."""
        return len(self.history.stopping_loss)

    @property
    def predictions(self) -> np.ndarray:
        return self.logits.argmax(axis=1)

    def accuracy(self, nodes: np.ndarray) -> float:
        """Fraction of the labelled nodes among these that are classified correctly; NaN if none is labelled."""
        labelled = nodes[self.labels[nodes] >= 0]
        correct = self.predictions[labelled] == self.labels[labelled]
        return float(correct.mean()) if len(labelled) else float("nan")

    def roc_auc(self, nodes: np.ndarray) -> float:
        """Area under the ROC curve over the labelled nodes among these; NaN unless there are two classes."""
        if self.logits.shape[1] != 2:
            return float("nan")
        labelled = nodes[self.labels[nodes] >= 0]
        return roc_auc(self.logits[labelled, 1] - self.logits[labelled, 0], self.labels[labelled])

    @property
    def stopping_accuracy(self) -> float:
        return self.accuracy(self.run.split.stopping)

    @property
    def validation_accuracy(self) -> float:
        return self.accuracy(self.run.split.validation)

    @property
    def test_accuracy(self) -> float:
        """Accuracy on the test nodes; NaN in a split for validation, which has none."""
        return self.accuracy(self.run.split.test)

    def __repr__(self) -> str:
        return (
            f"RunResult({self.run}, test_accuracy={self.test_accuracy:.4f}, steps={self.steps.mean():.2f} on average, "
            f"best_epoch={self.best_epoch} of {self.epochs})"
        )
