"""Label propagation: Zhou et al., Learning with Local and Global Consistency, NIPS 2003."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import ModelConfig, num_edges_with_self_loops
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import PropagationOutput, propagate
from apgcn.ops.device_graph import DeviceGraph

MIN_PROBABILITY = 1e-6  # of a class that no label near a node has: its logit stays finite


@dataclass(frozen=True)
class LPConfig(ModelConfig):
    """Hyperparameters of label propagation: `teleport` is 1 - alpha in the paper, `max_steps` the number of steps."""

    name: ClassVar[str] = "lp"
    title: ClassVar[str] = "LP"
    citation: ClassVar[str] = "label propagation, Zhou et al., NIPS 2003"
    memory_advice: ClassVar[str] = "use a graph with fewer classes"
    has_weights: ClassVar[bool] = False

    teleport: float = 0.1
    max_steps: int = 50

    def __post_init__(self) -> None:
        check_fraction("teleport", self.teleport)
        check_int("max_steps", self.max_steps)

    def solve(self, graph: DeviceGraph, train: Tensor) -> PropagationOutput:
        """The prediction from the labels of training nodes `train` of shape (runs, m); features are not used.

            z^0 = Y, 1 at the label of a training node and 0 elsewhere
            z^k = (1 - teleport) A z^(k-1) + teleport Y
            p_i = z_i^T / |z_i^T|_1 + epsilon (f + epsilon), divided by its sum

        A is the normalised adjacency with self-loops, as in APPNP, f the class frequencies of the training nodes and
        epsilon `MIN_PROBABILITY`. A node that no label reaches gets about f, without training nodes all classes alike.
        The logits are log p.
        """
        one_hot = functional.one_hot(graph.labels[train], graph.num_classes).to(graph.adjacency.weights)
        z0 = one_hot.new_zeros(len(train), graph.adjacency.num_nodes, graph.num_classes)
        z0.scatter_(1, train[..., None].expand_as(one_hot), one_hot)
        states = propagate(
            PageRank(self.teleport, edge_dropout=0.0), z0, graph.adjacency, steps=self.max_steps, rng=None
        )
        z = deque(states, maxlen=1).pop()
        frequencies = one_hot.sum(1, keepdim=True) / max(1, train.shape[1])
        p = z / z.sum(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).tiny) + MIN_PROBABILITY * (
            frequencies + MIN_PROBABILITY
        )
        return PropagationOutput.fixed_steps((p / p.sum(-1, keepdim=True)).log(), steps=self.max_steps)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch."""
        return 12 * graph.num_nodes * graph.num_classes

    def floats_shared(self, graph: Graph) -> int:
        """Estimated number of further floats of a batch."""
        return 4 * num_edges_with_self_loops(graph)
