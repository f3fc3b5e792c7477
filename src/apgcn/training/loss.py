"""What does training make small, and what does stopping look at?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.errors import InvalidInput
from apgcn.models.base import Network
from apgcn.nn.propagation import PropagationOutput


@dataclass(frozen=True, eq=False)
class Nodes:
    """The same set of every run's split, as a tensor.

    Attributes
    ----------
    index : Tensor of shape (runs, m)
        The nodes.
    labels : Tensor of shape (runs, m)
        Their classes.
    """

    index: Tensor
    labels: Tensor

    @classmethod
    def of(cls, sets: Sequence[np.ndarray], labels: Tensor, *, what: str) -> Nodes:
        """Lay the sets of a pack beside each other; they must be equally large."""
        sizes = {len(nodes) for nodes in sets}
        if len(sizes) > 1 or 0 in sizes:
            raise InvalidInput(f"the {what} sets of a pack must be equally large and not empty, got {sorted(sizes)}.")
        index = torch.as_tensor(np.stack(sets), device=labels.device)
        return cls(index, labels[index])

    def select(self, runs: Tensor) -> Nodes:
        """Some of the runs, given by their positions in the pack."""
        return Nodes(self.index[runs], self.labels[runs])

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """The mean over the nodes, one value per run."""
        losses = functional.cross_entropy(self._at(logits).flatten(0, 1), self.labels.flatten(), reduction="none")
        return losses.view_as(self.labels).mean(1)

    def accuracy(self, logits: Tensor) -> Tensor:
        """The share of nodes whose largest logit is their label's, one value per run."""
        return (self._at(logits).argmax(-1) == self.labels).double().mean(1)

    def _at(self, logits: Tensor) -> Tensor:
        return torch.gather(logits, 1, self.index[..., None].expand(-1, -1, logits.shape[-1]))


def objective(model: Network, outcome: PropagationOutput, train: Nodes, *, l2: float) -> Tensor:
    """What is minimised, one value per run:

    cross-entropy + l2/2 * |W|^2 + penalty * mean(K + R), the means over training nodes.

    Being independent, the runs of a pack can be trained through the sum of their objectives.
    """
    entropy = train.cross_entropy(outcome.output)
    return entropy + regularisation(model, l2=l2) + model.penalties(outcome, train.index)


def regularisation(model: Network, *, l2: float) -> Tensor:
    """l2/2 * |W|^2 over the weights that a model wants small, one value per run."""
    squares = (weight.square() for weight in model.l2_parameters())
    return l2 / 2 * sum((square.sum(tuple(range(1, square.ndim))) for square in squares), start=torch.zeros(()))
