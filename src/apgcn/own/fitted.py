"""What does a trained model say about a graph? The mean of what its initialisations say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apgcn.devices import one_thread, resolve
from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.models.network import ModelSettings, Network
from apgcn.noise import Noise
from apgcn.splits import Split
from apgcn.tensors import GraphTensors
from apgcn.training.settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Predicted:
    """What is said of every node.

    Attributes
    ----------
    probabilities : array of shape (nodes, classes)
    steps, remainder : arrays of shape (nodes,)
        K and R, the mean over the initialisations.
    """

    probabilities: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def certainty(self) -> np.ndarray:
        """The probability of the class that is said."""
        return self.probabilities.max(axis=1)


@dataclass(frozen=True, eq=False)
class Fitted:
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

    model: ModelSettings
    training: TrainingSettings
    weights: dict[str, Tensor]
    class_names: tuple[str, ...]
    features: int
    split: Split
    temperature: float = 1.0
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def initialisations(self) -> int:
        return len(next(iter(self.weights.values())))

    def predict(self, graph: Graph, *, device: torch.device | str = "cpu") -> Predicted:
        """What it says about every node of a graph."""
        output, steps, remainder = self._asked(graph, device)
        if not torch.isfinite(output).all():
            raise InvalidInput(
                f"what the model says of {graph.name} is not finite; are its features of the size they had in training?"
            )
        return Predicted(
            probabilities=(output / self.temperature).softmax(-1).mean(0).numpy(),
            steps=steps.double().mean(0).numpy(),
            remainder=remainder.mean(0).numpy(),
        )

    @torch.no_grad()
    def _asked(self, graph: Graph, device: torch.device | str) -> tuple[Tensor, ...]:
        """Logits, steps and remainder of every initialisation."""
        with one_thread():
            network, tensors = self.built(graph, device=device)
            return tuple(value.cpu() for value in network(tensors))

    def built(self, graph: Graph, *, device: torch.device | str = "cpu") -> tuple[Network, GraphTensors]:
        """The networks of all initialisations with their weights, and a graph for them."""
        if graph.num_features != self.features:
            raise InvalidInput(
                f"{graph.name} must have the {self.features} features that the model was trained on, "
                f"got {graph.num_features}."
            )
        place = resolve(str(device))
        tensors = replace(GraphTensors.of(graph, device=place), classes=len(self.class_names))
        network = self.model.build(tensors, Noise([0] * self.initialisations, device=place))
        network.load_state_dict({name: weight.to(place) for name, weight in self.weights.items()})
        return network, tensors
