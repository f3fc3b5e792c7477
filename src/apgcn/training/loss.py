"""The training loss, and the cross-entropy and accuracy of node sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn.errors import InvalidInput
from apgcn.models.base import BatchedModel
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import run_means, squared_norms


@dataclass(frozen=True, eq=False)
class NodeSet:
    """One set of the split of every run, such as the training nodes, as tensors.

    Attributes
    ----------
    index : Tensor of shape (runs, m)
        The node indices.
    labels : Tensor of shape (runs, m)
        Their classes.
    """

    index: Tensor
    labels: Tensor

    @classmethod
    def stack(cls, sets: Sequence[np.ndarray], labels: Tensor, *, name: str) -> NodeSet:
        """Stack the sets of a run batch, which must be equally large; `name` is for the message if they are not."""
        sizes = {len(nodes) for nodes in sets}
        if len(sizes) > 1 or 0 in sizes:
            raise InvalidInput(
                f"the {name} sets of a run batch must be equally large and not empty, got {sorted(sizes)}."
            )
        index = torch.as_tensor(np.stack(sets), device=labels.device)
        return cls(index, labels[index])

    def select(self, runs: Tensor) -> NodeSet:
        """The sets of some of the runs, by their positions in the batch."""
        return NodeSet(self.index[runs], self.labels[runs])

    def as_rows(self, first: int) -> NodeSet:
        """The set where consecutive rows of an output, from `first` on, are its nodes."""
        rows = torch.arange(first, first + self.index.shape[1], device=self.index.device)
        return replace(self, index=rows.expand_as(self.index))

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Mean cross-entropy over the nodes, one value per run."""
        losses = functional.cross_entropy(self._gather(logits).flatten(0, 1), self.labels.flatten(), reduction="none")
        return run_means(losses.view_as(self.labels))

    def accuracy(self, logits: Tensor) -> Tensor:
        """Fraction of nodes whose largest logit is that of their label, one value per run."""
        return (self._gather(logits).argmax(-1) == self.labels).double().mean(1)  # exact in any order

    def _gather(self, logits: Tensor) -> Tensor:
        return torch.gather(logits, 1, self.index[..., None].expand(-1, -1, logits.shape[-1]))


def training_loss(model: BatchedModel, output: PropagationOutput, train_nodes: NodeSet, *, l2: float) -> Tensor:
    """The loss that is minimised, one value per run.

    cross-entropy + l2/2 * |W|^2 + penalty * mean(K + R), the means over training nodes.

    The runs of a batch are independent, so they can be trained through the sum of their losses.
    """
    return supervised_loss(model, output, train_nodes) + l2_regularization(model, l2=l2)


def supervised_loss(model: BatchedModel, output: PropagationOutput, train_nodes: NodeSet) -> Tensor:
    """The terms of the loss that depend on the output: cross-entropy and propagation penalty, one value per run."""
    return train_nodes.cross_entropy(output.output) + model.penalty_loss(output, train_nodes.index)


def l2_regularization(model: BatchedModel, *, l2: float) -> Tensor:
    """l2/2 * |W|^2 over the regularised weights of a model, one value per run."""
    return l2 / 2 * sum((squared_norms(weight) for weight in model.l2_parameters()), start=torch.zeros(()))
