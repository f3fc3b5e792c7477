"""Base classes of all models: the hyperparameters, which build the model, and the run-batched model itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from apgcn.data.graph import Graph
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


class BatchedModel(nn.Module):
    """Base of the run-batched models: all parameters have a leading run axis, one run is a batch of one.

    The defaults are those of most models: no propagation penalty, and all parameters are updated on every epoch.
    """

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes), steps and remainders of all nodes; training with `rng`, evaluation without."""
        raise NotImplementedError(f"{type(self).__name__} must have `forward`: docs/adding_a_model.md.")

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """`forward` of some nodes (runs, m), distinct in each run: the output is (runs, m, ...)."""
        return self(graph, rng).select(nodes)

    def penalty_loss(self, output: PropagationOutput, nodes: Tensor) -> Tensor:
        """The term that the model adds to the loss for some nodes (runs, m), one value per run."""
        return output.output.new_zeros(len(nodes))

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation."""
        raise NotImplementedError(f"{type(self).__name__} must have `l2_parameters`: docs/adding_a_model.md.")

    def is_trainable(self, parameter: nn.Parameter, epoch: int) -> bool:
        """Whether a parameter is updated on an epoch, counted from 1."""
        return True

    @property
    def trainable_period(self) -> int:
        """Period of `is_trainable` in epochs."""
        return 1


class ModelConfig:
    """Base of the model configurations: frozen dataclasses of hyperparameters, each of which builds its model.

    A model without weights has, instead of `build`, a method `solve` that predicts without training; see `btfp`.
    Values with their sources are in `presets`.

    Each model estimates its memory by a formula, `floats_per_run` and the two after it. The batch size must be known
    before anything is allocated, and be the same on every machine of its kind, whereas measuring would mean a training
    epoch of each model on each graph, and on a CPU there is no counter of one run's peak; a test compares the formulas
    with a profile.
    """

    name: ClassVar[str]  # on the command line and in records
    title: ClassVar[str]  # in tables
    citation: ClassVar[str]  # the model's paper
    memory_advice: ClassVar[str] = "make hidden_channels smaller"  # what to do when memory does not suffice
    has_weights: ClassVar[bool] = True  # it is trained from initial weights, run by run
    row_shardable: ClassVar[bool] = False  # it can be trained where no process has all rows, see `distributed`

    @property
    def max_steps(self) -> int:
        """The largest number of propagation steps of a node."""
        raise NotImplementedError(f"{type(self).__name__} must have `max_steps`: docs/adding_a_model.md.")

    @property
    def min_steps(self) -> int:
        """The smallest number of propagation steps of a node: 0 if a model can predict from a node's features alone."""
        return 1

    @property
    def first_step(self) -> int:
        """The K at which histograms of K begin: 0 for a model that can predict from a node's features alone, else 1."""
        return min(self.min_steps, 1)

    def steps_histogram(self, steps: np.ndarray) -> list[int]:
        """Number of values of K, of any shape, from `first_step` to T."""
        return np.bincount(steps.ravel(), minlength=self.max_steps + 1)[self.first_step :].tolist()

    @property
    def has_fused_kernel(self) -> bool:
        """Whether its propagation has fused kernels, see `ops.kernels`."""
        return False

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedModel:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        raise NotImplementedError(f"{type(self).__name__} must have `build`: docs/adding_a_model.md.")

    def solve(self, graph: DeviceGraph, train: Tensor) -> PropagationOutput:
        """The prediction of a model without weights from training nodes `train` of shape (runs, m)."""
        raise NotImplementedError(f"{type(self).__name__} must have `solve`: docs/adding_a_model.md.")

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training.

        The factors count the copies that dropout, the backward pass and Adam make.
        """
        raise NotImplementedError(f"{type(self).__name__} must have `floats_per_run`: docs/adding_a_model.md.")

    def floats_saved_by_kernels(self, graph: Graph) -> int:
        """Estimated number of these that a run does not need where fused kernels are available."""
        return 0

    def floats_shared(self, graph: Graph) -> int:
        """Estimated number of further floats of a batch, independent of the number of runs."""
        return 0


def num_stored_features(graph: Graph) -> int:
    """Number of values in the feature matrix, zeros of a sparse one not counted."""
    return graph.num_nodes * graph.num_features if isinstance(graph.features, np.ndarray) else graph.features.nnz


def num_edges_with_self_loops(graph: Graph) -> int:
    """Number of directed edges after a self-loop is added to each node: the stored values of its adjacency matrix."""
    return graph.num_directed_edges + graph.num_nodes
