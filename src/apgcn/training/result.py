"""What is known of a run when it is done?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from apgcn.training.runs import Run


@dataclass(frozen=True, eq=False)
class History:
    """One value per epoch, evaluated after the epoch's step with dropout off."""

    training_loss: np.ndarray
    stopping_loss: np.ndarray
    stopping_accuracy: np.ndarray
    steps_mean: np.ndarray


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run, evaluated with its best weights.

    Attributes
    ----------
    logits : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R of every node.
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
        """The share of these nodes that are predicted right; NaN for none."""
        return float((self.predictions[nodes] == self.labels[nodes]).mean()) if len(nodes) else float("nan")

    @property
    def test_accuracy(self) -> float:
        return self.accuracy(self.run.split.test)

    @property
    def validation_accuracy(self) -> float:
        return self.accuracy(self.run.split.validation)
