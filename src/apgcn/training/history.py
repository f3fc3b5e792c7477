"""How did each run go, epoch by epoch?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


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
