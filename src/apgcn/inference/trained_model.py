"""What does a trained model say about a graph? The mean of what its initialisations say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apgcn._utils.validation import as_nodes
from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.lazy_predictor import LazyPredictor, supports_lazy
from apgcn.inference.lazy_propagation import MAX_STEPS
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.base import ModelConfig, Network
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import one_thread, resolve
from apgcn.ops.rng import RandomStream
from apgcn.training.config import TrainingConfig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with its weights, which can be asked about any graph that has the same features.

    Attributes
    ----------
    model : ModelSettings
    training : TrainingSettings
    weights : dict of Tensor
        The run axis first, one for each initialisation.
    class_names : tuple of str
    features : int
        How many a node must have.
    split : Split
        Which nodes of the graph that it was trained on did what.
    temperature : float
        What the logits are divided by, so that the probabilities are right about as often as they say.
    notes : dict
        How the training went, for people.
    """

    model: ModelConfig
    training: TrainingConfig
    weights: dict[str, Tensor]
    class_names: tuple[str, ...]
    features: int
    split: Split
    temperature: float = 1.0
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def initialisations(self) -> int:
        return len(next(iter(self.weights.values())))

    def predict(
        self, graph: Graph, nodes: np.ndarray | None = None, *, device: torch.device | str = "cpu"
    ) -> Predictions:
        """What it says about these nodes of a graph, or about all.

        On a processor only what the answer needs is computed, where nodes halt; see `asker`.
        """
        if resolve(str(device)).type == "cpu" and supports_lazy(self.model):
            return self.asker(graph).ask(nodes)
        chosen = None if nodes is None else as_nodes(nodes, count=graph.num_nodes)
        said = self._whole(graph, device)
        return said if chosen is None else said.at(chosen)

    def asker(self, graph: Graph) -> LazyPredictor:
        """To be asked often about nodes of one graph.

        Raises
        ------
        InvalidInput
            If its nodes do not halt, or not in steps that can be taken one by one; `predict` answers then, too.
        """
        self._check(graph)
        if not isinstance(self.model, APGCNConfig) or not supports_lazy(self.model):
            raise InvalidInput(
                f"only what is needed can be computed of AP-GCN and AP-APPNP, with numba and at most {MAX_STEPS} "
                f"steps, not of {self.model.title} as it is here; use predict, which computes all."
            )
        weights = {name: weight.numpy() for name, weight in self.weights.items()}
        return LazyPredictor(self.model, weights, self.temperature, graph)

    @torch.no_grad()
    def _whole(self, graph: Graph, device: torch.device | str) -> Predictions:
        """What it says about every node, all of it computed."""
        with one_thread():
            network, tensors = self.built(graph, device=device)
            output, steps, remainder = (value.cpu() for value in network(tensors))
        return Predictions.of((output / self.temperature).softmax(-1).numpy(), steps.numpy(), remainder.numpy())

    def _check(self, graph: Graph) -> None:
        if graph.num_features != self.features:
            raise InvalidInput(
                f"{graph.name} must have the {self.features} features that the model was trained on, "
                f"got {graph.num_features}."
            )

    def built(self, graph: Graph, *, device: torch.device | str = "cpu") -> tuple[Network, DeviceGraph]:
        """The networks of all initialisations with their weights, and a graph for them."""
        self._check(graph)
        place = resolve(str(device))
        tensors = replace(DeviceGraph.of(graph, device=place), classes=len(self.class_names))
        network = self.model.build(tensors, RandomStream([0] * self.initialisations, device=place))
        network.load_state_dict({name: weight.to(place) for name, weight in self.weights.items()})
        return network, tensors
