"""Which run is it? A split and an initialisation of one graph; its random numbers follow from these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from apgcn._utils.validation import check_int
from apgcn.data.graph import Graph
from apgcn.data.registry import describe
from apgcn.data.splits import SETS, TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
from apgcn.errors import InvalidInput
from apgcn.ops.rng import derive_seed

MAX_RUNS = 100_000  # a thousand times the protocol


@dataclass(frozen=True, eq=False)
class Run:
    """One training.

    Parameters
    ----------
    split : Split
    initialisation : int
        Another number gives other initial weights and other dropout.
    dataset : str
        The name of the graph.

    Settings are no part of the key: two trainings that differ only in settings which draw nothing (penalty, l2,
    learning_rate, patience, watch, ...) start from the same weights and meet the same dropout.
    """

    split: Split
    init: int = 0
    dataset: str = "graph"

    @property
    def rng_seed(self) -> int:
        """Where the run's tape of random numbers starts."""
        return derive_seed(self.dataset, self.split.seed, self.init)


def benchmark_runs(graph: Graph, count: int, *, seed: int = 0, validation: bool = False) -> list[Run]:
    """The first runs of the paper's protocol: the 20 test splits with one initialisation, then with the next.

    Parameters
    ----------
    graph : Graph
        A graph of the catalogue, cleaned.
    count : int
        100 is the whole protocol.
    seed : int
        The number of the first initialisation.
    validation : bool
        Draw from the validation seeds instead: for choosing settings without a look at the test nodes.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> runs = benchmark_runs(clean(load("cora")), 21)
    >>> runs[20].split.seed == runs[0].split.seed, runs[20].init
    (True, 1)
    """
    check_int("runs", count, most=MAX_RUNS)
    check_int("seed", seed, least=0)
    dataset = describe(graph.name)
    if graph.num_nodes != dataset.nodes:
        raise InvalidInput(
            f"the splits of {graph.name} are those of its {dataset.nodes} nodes after cleaning, got {graph.num_nodes}; "
            "call clean(graph) first."
        )
    seeds, draw = (VALIDATION_SEEDS, split_for_validation) if validation else (TEST_SEEDS, split_for_test)
    splits = [draw(graph.labels, split_seed, visible=dataset.visible) for split_seed in seeds[:count]]
    return [
        Run(splits[number % len(seeds)], init=seed + number // len(seeds), dataset=graph.name)
        for number in range(count)
    ]


def check_run(run: Run, graph: Graph) -> None:
    """Whether a run is one of this graph, in words if not."""
    if run.dataset != graph.name:
        raise InvalidInput(f"a run of {run.dataset!r} cannot be trained on {graph.name!r}; give both the same name.")
    for name in SETS:
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
    """What an epoch's evaluation found, one value per run of the pack; see `History`."""

    training_loss: Tensor
    stopping_loss: Tensor
    stopping_accuracy: Tensor
    steps_mean: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """One value per epoch, evaluated after the epoch's step with dropout off.

    `training_loss` is the whole objective on the training nodes, l2 and penalty included; `stopping_loss` is the
    cross-entropy of the stopping nodes; `steps_mean` is K averaged over all nodes.
    """

    training_loss: np.ndarray
    stopping_loss: np.ndarray
    stopping_accuracy: np.ndarray
    steps_mean: np.ndarray

    def __repr__(self) -> str:
        return f"History(epochs={len(self.stopping_loss)})"


class HistoryLog:
    """The evaluations of a pack, whose runs leave one by one; they stay on the device until asked for."""

    def __init__(self, runs: int):
        self._runs = runs
        self._epochs: list[tuple[Tensor, Tensor]] = []

    def append(self, members: Tensor, found: Evaluation) -> None:
        """Take in an epoch; `members` says which run stands where in the pack."""
        self._epochs.append((members, torch.stack([value.double() for value in found])))

    def of_each_run(self, epochs: Sequence[int]) -> list[History]:
        """One history per run, of as many epochs as are said of each."""
        table = self.table().numpy()
        return [History(*table[:, number, :length].copy()) for number, length in enumerate(epochs)]

    def table(self) -> Tensor:
        """All of it, (kinds, runs, epochs); NaN after a run has left."""
        table = torch.full((len(Evaluation._fields), self._runs, len(self._epochs)), torch.nan, dtype=torch.float64)
        for epoch, (members, values) in enumerate(self._epochs):
            table[:, members.cpu(), epoch] = values.cpu()
        return table

    def restore(self, table: Tensor) -> None:
        """Go on from a table."""
        everybody = torch.arange(self._runs)
        self._epochs = [(everybody, values) for values in table.cpu().unbind(-1)]


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """A finished run, evaluated with its best weights.

    Attributes
    ----------
    logits : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R of every node.
    best_epoch : int
        The epoch of the weights, counted from 1; 0 if the loss was never finite and the initial ones were kept.
    weights : dict of Tensor
        The best weights, each with a run axis of one: `load_state_dict` of a pack of one takes them.
    """

    run: Run
    logits: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    weights: dict[str, Tensor]
    history: History
    best_epoch: int
    labels: np.ndarray

    @property
    def epochs(self) -> int:
        """How many epochs were trained, those after the best included."""
        return len(self.history.stopping_loss)

    @property
    def predictions(self) -> np.ndarray:
        return self.logits.argmax(axis=1)

    def accuracy(self, nodes: np.ndarray) -> float:
        """The share of these nodes that are predicted right; those without a label do not count. NaN for none."""
        known = nodes[self.labels[nodes] >= 0]
        return float((self.predictions[known] == self.labels[known]).mean()) if len(known) else float("nan")

    @property
    def stopping_accuracy(self) -> float:
        return self.accuracy(self.run.split.stopping)

    @property
    def validation_accuracy(self) -> float:
        return self.accuracy(self.run.split.validation)

    @property
    def test_accuracy(self) -> float:
        """NaN in a split for validation, which has no test nodes."""
        return self.accuracy(self.run.split.test)

    def __repr__(self) -> str:
        return (
            f"RunResult({self.run}, test_accuracy={self.test_accuracy:.4f}, steps={self.steps.mean():.2f} on average, "
            f"best_epoch={self.best_epoch} of {self.epochs})"
        )
