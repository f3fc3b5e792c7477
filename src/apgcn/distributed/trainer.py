"""How does a pack train when each rank has some rows? As `BatchedTrainer` does, with sums over all ranks.

Every rank has all weights and takes the same step with them, so that what all of them know (losses, patience, the best
weights) is known to each. Dropout is drawn by every rank from a tape of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from apgcn.distributed.communication import Communicator
from apgcn.distributed.graph_shard import Part
from apgcn.distributed.halo import HaloExchange, PartAdjacency
from apgcn.models.base import ModelConfig
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph, features_to_device
from apgcn.ops.rng import RandomStream, derive_seed
from apgcn.training.config import TrainingConfig
from apgcn.training.loss import Nodes, regularisation
from apgcn.training.runs import Evaluation, Run
from apgcn.training.trainer import BatchedTrainer


@dataclass(frozen=True, eq=False)
class PartNodes(Nodes):
    """Those of a set that are on this rank; means are shares of the mean over all of them."""

    total: int = 0

    @property
    def share(self) -> float:
        return self.index.shape[1] / self.total

    def select(self, runs: Tensor) -> Nodes:
        """Some of the runs, given by their positions in the pack."""
        return replace(self, index=self.index[runs], labels=self.labels[runs])

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """What is here of the mean over the nodes, one value per run."""
        return self.share * super().cross_entropy(logits) if self.share else _nothing(logits)

    def right(self, logits: Tensor) -> Tensor:
        """How many of those that are here are right, one value per run: whole numbers, whose sums do not round."""
        return (self._at(logits).argmax(-1) == self.labels).double().sum(1)


class PartPack(BatchedTrainer):
    """The rows of one rank of runs in training.

    Parameters
    ----------
    world : World
    part : Part
    owner : array of shape (nodes,)
        Who owns which node.
    classes : int
    runs : sequence of Run
        All with the same split.
    """

    def __init__(
        self,
        world: Communicator,
        part: Part,
        owner: np.ndarray,
        classes: int,
        runs: Sequence[Run],
        model: ModelConfig,
        training: TrainingConfig,
    ):
        self.world, self.part, self.all_nodes = world, part, len(owner)
        adjacency = PartAdjacency(part, HaloExchange.of(part, owner, world), device=world.device)
        labels = torch.as_tensor(part.labels.copy(), device=world.device)
        graph = DeviceGraph(features_to_device(part.features, device=world.device), adjacency, labels, classes)
        super().__init__(graph, runs, model, training)
        if world.size > 1:
            z0 = [derive_seed(run.rng_seed, world.rank, world.size) for run in runs]
            self.rng = RandomStream(z0, device=world.device)

    def _sets(self) -> tuple[Nodes, Nodes]:
        split, labels = self.runs[0].split, self.graph.labels
        return self._set(split.train, labels), self._set(split.stopping, labels)

    def _set(self, nodes: np.ndarray, labels: Tensor) -> PartNodes:
        here = torch.as_tensor(self.part.local(nodes), device=labels.device).expand(len(self.runs), -1)
        return PartNodes(here, labels[here], len(nodes))

    def loss(self, outcome: PropagationOutput) -> Tensor:
        """What is here of the objective, one value per run; the ranks' sum is the objective."""
        entropy = self.train.cross_entropy(outcome.output)
        weights = regularisation(self.model, l2=self.config.l2) / self.world.size
        share = self.train.share  # type: ignore[attr-defined]
        cost = share * self.model.penalties(outcome, self.train.index) if share else _nothing(outcome.cost[..., None])
        return entropy + weights + cost

    def _learned(self) -> None:
        self.world.add_up([weight.grad for weight in self.model.parameters() if weight.grad is not None])

    def evaluate(self) -> Evaluation:
        """As one rank would that has all rows."""
        with torch.no_grad():
            outcome = self.model(self.graph)
            here = Evaluation(
                training_loss=self.loss(outcome),
                stopping_loss=self.stop.cross_entropy(outcome.output),
                stopping_accuracy=self.stop.right(outcome.output),  # type: ignore[attr-defined]
                steps_mean=outcome.steps.double().sum(1),
            )
            found = Evaluation(*self.world.sums(*here))
            return found._replace(
                stopping_accuracy=found.stopping_accuracy / self.stop.total,  # type: ignore[attr-defined]
                steps_mean=found.steps_mean / self.all_nodes,
            )

    def monitored_loss(self, found: Evaluation) -> Tensor:
        """As rank 0 computes it: all must come to the same conclusion, to the last bit."""
        here = super().monitored_loss(found)
        return self.world.from_first(here, shape=tuple(here.shape), dtype=here.dtype).to(here.device)

    @property
    def _rehearsed(self) -> bool:
        """Words to others cannot be recorded as a GPU's work."""
        return False


def _nothing(values: Tensor) -> Tensor:
    """Zero, one value per run, that depends on all values: gradients must find their way through all ranks."""
    return 0 * values.sum((1, 2))
