"""Predictions for some nodes of a large graph that compute only what these nodes need; see `lazy_propagation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from scipy.special import softmax

from apgcn._utils.validation import as_node_indices
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
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
from apgcn.ops.dispatch import MAX_WIDTH, kernels_for_device
from apgcn.ops.kernels.autograd import HaltingParameters
from apgcn.ops.threads import kernel_threads, resolve_threads

Minimize = Literal["time", "operations"]


def supports_lazy(model: ModelConfig, *, num_classes: int) -> bool:
    """Whether a model has a halting unit and a fused kernel, and so the paper's `min_steps`, at most `MAX_STEPS` steps
    and `MAX_WIDTH` classes, and numba is installed.
    """
    halts = isinstance(model, APGCNConfig) and model.has_fused_kernel and model.max_steps <= MAX_STEPS
    return halts and num_classes <= MAX_WIDTH and kernels_for_device(torch.device("cpu")) is not None


class LazyPredictor:
    """A trained ensemble and a graph, prepared for repeated predictions; threads may share it.

    z^0 depends on features and weights alone. Once it was computed for all nodes it is kept, nodes x classes floats for
    each member, and later predictions only propagate.

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
        self._z0_of_all_nodes: dict[int, np.ndarray] = {}  # by the number of the member

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

    def predict(
        self, nodes: np.ndarray | None = None, *, threads: int | None = None, minimize: Minimize = "time"
    ) -> Predictions:
        """Predictions for these nodes, or for all; the parameters are those of `TrainedModel.predict`."""
        if minimize not in get_args(Minimize):
            raise InvalidInput(f"minimize must be 'time' or 'operations', got {minimize!r}.")
        options = {"full_step_ratio": 0.0, "step_overhead": 0.0} if minimize == "operations" else {}
        num_nodes = self._graph.num_nodes
        nodes = np.arange(num_nodes) if nodes is None else as_node_indices(nodes, num_nodes=num_nodes)
        # `Predictions` checks that all are finite.
        with kernel_threads(resolve_threads(threads)), np.errstate(over="ignore", invalid="ignore"):
            outputs = [
                lazy_propagate(self.lazy_graph, self.lazy_model(number), nodes, **options)
                for number in range(self.ensemble_size)
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
        in_order = len(nodes) == self._graph.num_nodes and np.array_equal(nodes, np.arange(len(nodes)))
        if number in self._z0_of_all_nodes:
            z0 = self._z0_of_all_nodes[number]
            return z0 if in_order else z0[nodes]
        features = features_to_device(self._graph.features if in_order else self._graph.features[nodes], device="cpu")
        z0 = np.ascontiguousarray(self._members[number].predict(features)[0].numpy())
        if in_order:
            self._z0_of_all_nodes[number] = z0
        return z0

    def forget_z0(self) -> None:
        """Release z^0 of all nodes; the next prediction computes it again."""
        self._z0_of_all_nodes.clear()

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
