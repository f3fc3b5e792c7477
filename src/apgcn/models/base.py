"""What must a model offer to be trained here? Settings that build a network, and the network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from apgcn.data.graph import Graph
from apgcn.models.presets import Preset
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


class Network(nn.Module):
    """A pack of networks, all of whose parameters have a leading run axis.

    What most have in common stands here: listening costs nothing, and all weights learn on every epoch.
    """

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits, steps and remainders of all nodes. With noise this is training, without it evaluation."""
        raise NotImplementedError(f"{type(self).__name__} must have `forward`: docs/adding_a_model.md.")

    def at(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream) -> PropagationOutput:
        """`forward` in training, when only some nodes (runs, m) matter; what it gives for others is not looked at."""
        return self(graph, rng)

    def penalties(self, outcome: PropagationOutput, nodes: Tensor) -> Tensor:
        """What the objective adds for some nodes (runs, m), one value per run."""
        return outcome.output.new_zeros(len(nodes))

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks."""
        raise NotImplementedError(f"{type(self).__name__} must have `decayed`: docs/adding_a_model.md.")

    def is_trainable(self, parameter: nn.Parameter, epoch: int) -> bool:
        """Whether a parameter moves on an epoch, counted from 1."""
        return True

    @property
    def cycle(self) -> int:
        """After how many epochs the same parameters move again."""
        return 1


class ModelConfig:
    """What can be chosen about a model: the base of frozen dataclasses, each of which builds its network.

    A model without weights has, instead of `build`, a method `solve` that answers at once; see `btfp`.
    """

    name: ClassVar[str]  # what users call the model
    title: ClassVar[str]  # what a table calls it
    citation: ClassVar[str]  # its paper
    given: ClassVar[tuple[Preset, ...]]  # settings, and where each comes from
    memory_advice: ClassVar[str] = "make hidden smaller"  # what to do when memory does not suffice
    has_weights: ClassVar[bool] = True  # it is trained from initial weights, run by run
    row_shardable: ClassVar[bool] = False  # it can be trained where nobody has all rows of the graph, see `distributed`

    @property
    def max_steps(self) -> int:
        """The most steps that a node can listen."""
        raise NotImplementedError(f"{type(self).__name__} must have `max_steps`: docs/adding_a_model.md.")

    def build(self, graph: DeviceGraph, rng: RandomStream) -> Network:
        """A pack of networks for a graph, one per run of the noise, with initial weights drawn from it."""
        raise NotImplementedError(f"{type(self).__name__} must have `build`: docs/adding_a_model.md.")

    def solve(self, graph: DeviceGraph, train: Tensor) -> PropagationOutput:
        """The answer of a model without weights for training nodes `train` of shape (runs, m)."""
        raise NotImplementedError(f"{type(self).__name__} must have `solve`: docs/adding_a_model.md.")

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        raise NotImplementedError(f"{type(self).__name__} must have `floats_per_run`: docs/adding_a_model.md.")

    def floats_saved(self, graph: Graph) -> int:
        """About how many of these a run does not keep on a device that has loops written out: see `loops`."""
        return 0

    def floats_shared(self, graph: Graph) -> int:
        """About how many more numbers a pack keeps, however many runs it has."""
        return 0


def stored_features(graph: Graph) -> int:
    """Values in the feature matrix, zeros of a sparse one not counted."""
    return graph.num_nodes * graph.num_features if isinstance(graph.features, np.ndarray) else graph.features.nnz


def heard(graph: Graph) -> int:
    """Who hears whom, every node itself included."""
    return graph.num_directed_edges + graph.num_nodes
