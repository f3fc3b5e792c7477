"""What is known of a run when it is done?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from apgcn.training.history import History
from apgcn.training.runs import Run


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
