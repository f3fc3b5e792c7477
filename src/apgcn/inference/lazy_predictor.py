"""Predictions for some nodes of a large graph that compute only what these nodes need; see `lazy_propagation`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from apgcn._utils.validation import as_node_indices
from apgcn.data.graph import Graph
from apgcn.inference.lazy_propagation import (
    MAX_STEPS,
    LazyGraph,
    LazyModel,
    LazyOutput,
    PropagationCost,
    lazy_propagate,
)
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import APGCNConfig, BatchedAPGCN
from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import features_to_device
from apgcn.ops.dispatch import kernels_for_device
from apgcn.ops.kernels.autograd import HaltingParameters
from apgcn.ops.sparse import SparseMatrix
from apgcn.ops.threads import kernel_threads, resolve_threads


def supports_lazy(model: ModelConfig) -> bool:
    """Whether a model has a halting unit, a fused kernel and at most `MAX_STEPS` steps, and numba is installed."""
    halts = isinstance(model, APGCNConfig) and model.has_fused_kernel and model.max_steps <= MAX_STEPS
    return halts and kernels_for_device(torch.device("cpu")) is not None


class LazyPredictor:
    """A trained ensemble and a graph, prepared for repeated predictions; threads may share it.

    Parameters
    ----------
    members : sequence of BatchedAPGCN
        The members of the ensemble, each a batch of one run on the CPU.
    graph : Graph
    temperature : float
        The logits are divided by it.

    Attributes
    ----------
    lazy_graph : LazyGraph
        The normalised adjacency.
    """

    def __init__(self, members: Sequence[BatchedAPGCN], graph: Graph, *, temperature: float = 1.0):
        self._members, self._graph, self._temperature = list(members), graph, temperature
        self.lazy_graph = LazyGraph.from_adjacency(graph.adjacency)

    @property
    def ensemble_size(self) -> int:
        return len(self._members)

    @property
    def full_cost(self) -> PropagationCost:
        """The cost when every node takes all steps, in all members of the ensemble."""
        cost = PropagationCost(0, 0, 0, 0)
        for number in range(self.ensemble_size):
            model = self.lazy_model(number)
            cost = cost + PropagationCost.all_steps(
                nodes=self.lazy_graph.num_nodes,
                edges=self.lazy_graph.num_edges,
                steps=model.halting.max_steps,
                channels=len(model.halting_weight),
            )
        return cost

    def predict(self, nodes: np.ndarray | None = None, *, threads: int | None = None) -> Predictions:
        """Predictions for these nodes, or for all; `threads` as in `apgcn.train`."""
        num_nodes = self._graph.num_nodes
        nodes = np.arange(num_nodes) if nodes is None else as_node_indices(nodes, num_nodes=num_nodes)
        # `Predictions` checks that all are finite.
        with kernel_threads(resolve_threads(threads)), np.errstate(over="ignore", invalid="ignore"):
            outputs = [
                lazy_propagate(self.lazy_graph, self.lazy_model(number), nodes) for number in range(self.ensemble_size)
            ]
        return self._average(outputs)

    def lazy_model(self, number: int) -> LazyModel:
        """The propagation of one member of the ensemble."""
        member = self._members[number]
        config, halting_unit = member.config, member.propagation.halting_unit
        adjacency_weight, z0_weight = config.step_coefficients
        return LazyModel(
            z0=lambda nodes: self.z0(nodes, number),
            halting_weight=halting_unit.weight.detach()[0, :, 0].numpy(),
            halting_bias=float(halting_unit.bias.detach()[0, 0, 0]),
            halting=HaltingParameters(config.max_steps, config.epsilon, config.freeze_halted),
            adjacency_weight=adjacency_weight,
            z0_weight=z0_weight,
        )

    @torch.no_grad()
    def z0(self, nodes: np.ndarray, number: int) -> np.ndarray:
        """Initial predictions z^0 of some nodes by one member of the ensemble, (nodes, classes)."""
        z0 = self._members[number].predict(self._features(nodes))
        return np.ascontiguousarray(z0[0].numpy())

    def _features(self, nodes: np.ndarray) -> SparseMatrix | Tensor:
        if len(nodes) == self._graph.num_nodes and np.array_equal(nodes, np.arange(len(nodes))):
            return self._all_features
        return features_to_device(self._graph.features[nodes], device="cpu")

    @cached_property
    def _all_features(self) -> SparseMatrix | Tensor:
        return features_to_device(self._graph.features, device="cpu")

    def _average(self, outputs: list[LazyOutput]) -> Predictions:
        cost = outputs[0].cost
        for output in outputs[1:]:
            cost = cost + output.cost
        return Predictions.from_ensemble(
            np.stack([softmax(output.output / self._temperature, axis=-1) for output in outputs]),
            np.stack([output.steps for output in outputs]),
            np.stack([output.remainder for output in outputs]),
            cost=cost,
            full_cost=self.full_cost,
        )
