"""Trained models: an ensemble of weights, known labels or both, that predict the classes of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from apgcn._utils.formatting import format_names
from apgcn._utils.validation import as_node_indices
from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.known_labels import CorrectAndSmooth, cross_fit
from apgcn.inference.lazy_predictor import LazyPredictor, Minimize, supports_lazy
from apgcn.inference.lazy_propagation import MAX_STEPS
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import BatchedAPGCN
from apgcn.models.base import BatchedModel, ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import resolve_device
from apgcn.ops.dispatch import MAX_WIDTH
from apgcn.ops.rng import RandomStream
from apgcn.ops.threads import kernel_threads, resolve_threads
from apgcn.training.config import TrainingConfig

MIN_PROBABILITY = 1e-6  # before its logarithm is taken


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with its weights, which predicts for any graph with the same features.

    Its predictions are the mean over an ensemble: the same model trained from several initialisations.

    Attributes
    ----------
    config : ModelConfig
        The architecture.
    training : TrainingConfig
    weights : dict of Tensor
        Parameters with a leading run axis, one run per member of the ensemble; empty for a model without weights.
    class_names : tuple of str
    num_features : int
    split : Split
        The split of the graph that it was trained on.
    temperature : float
        The logits are divided by it, so that the confidence of predictions is close to their accuracy.
    metrics : dict
        Epochs, accuracy and calibration of the training, as JSON values.
    correct_and_smooth : CorrectAndSmooth or None
        Whether and how the labels that are known in a graph correct the predictions.
    """

    config: ModelConfig
    training: TrainingConfig
    weights: dict[str, Tensor]
    class_names: tuple[str, ...]
    num_features: int
    split: Split
    temperature: float = 1.0
    metrics: dict[str, Any] = field(default_factory=dict)
    correct_and_smooth: CorrectAndSmooth | None = None

    @property
    def title(self) -> str:
        """The name of the model in tables."""
        return self.config.title + (" + C&S" if self.correct_and_smooth else "")

    @property
    def ensemble_size(self) -> int:
        return len(next(iter(self.weights.values()))) if self.weights else 1

    @property
    def uses_known_labels(self) -> bool:
        """Whether predictions depend on the labels that are known in a graph."""
        return not self.config.has_weights or self.correct_and_smooth is not None

    def member(self, number: int) -> TrainedModel:
        """One member of the ensemble as a model of its own."""
        return replace(self, weights={name: weight[number : number + 1] for name, weight in self.weights.items()})

    def predict(
        self,
        graph: Graph,
        nodes: np.ndarray | None = None,
        *,
        device: torch.device | str = "cpu",
        threads: int | None = None,
        minimize: Minimize = "time",
    ) -> Predictions:
        """Predictions for these nodes of a graph, or for all.

        On a CPU only the states that these nodes depend on are computed, where the model halts; see `lazy_predictor`.

        Parameters
        ----------
        graph : Graph
        nodes : array of shape (m,), optional
        device : "cpu", "cuda" or "cuda:N"
        threads : int, optional
            Maximum number of CPU threads, see `apgcn.train`.
        minimize : "time" or "operations"
            With "time", states that no node depends on are computed where finding them would take longer, as on small
            graphs; with "operations" none is. The predictions are the same; their cost differs.

        Raises
        ------
        InvalidInput
            If the graph has other features than the model, or no labels where the model has no weights, or labels of
            other classes where the model uses known labels.
        """
        if self.uses_known_labels:
            return self.predict_with_labels(graph, nodes, device=device, threads=threads)
        if resolve_device(str(device)).type == "cpu" and self._supports_lazy:
            return self.lazy_predictor(graph).predict(nodes, threads=threads, minimize=minimize)
        if nodes is not None:
            nodes = as_node_indices(nodes, num_nodes=graph.num_nodes)
        predictions = self._predict_all(graph, device, threads)
        return predictions if nodes is None else predictions.select(nodes)

    def lazy_predictor(self, graph: Graph) -> LazyPredictor:
        """A predictor for repeated queries about nodes of one graph.

        Raises
        ------
        InvalidInput
            If the model has no halting unit, too many steps or classes, or no kernel that computes single nodes;
            `predict` works for it.
        """
        self._check_features(graph)
        if not self._supports_lazy:
            raise InvalidInput(
                f"lazy prediction needs AP-GCN or AP-APPNP with min_steps=1, at most {MAX_STEPS} steps and {MAX_WIDTH} "
                f"classes (got {len(self.class_names):,}), and numba, but the model is {self.config.title} with "
                f"{self.config.min_steps} to {self.config.max_steps} steps; use predict, which computes all nodes."
            )
        members = [self.member(number).build_without_graph() for number in range(self.ensemble_size)]
        assert all(isinstance(member, BatchedAPGCN) for member in members)
        return LazyPredictor(members, graph, temperature=self.temperature)  # type: ignore[arg-type]

    @property
    def _supports_lazy(self) -> bool:
        return not self.uses_known_labels and supports_lazy(self.config, num_classes=len(self.class_names))

    @torch.no_grad()
    def _predict_all(self, graph: Graph, device: torch.device | str, threads: int | None = None) -> Predictions:
        """Predictions for every node by a forward pass over the whole graph."""
        with kernel_threads(resolve_threads(threads)):
            model, device_graph = self.build(graph, device=device)
            output, steps, remainder = (value.cpu() for value in model(device_graph))
        probabilities = (output / self.temperature).softmax(-1)
        return Predictions.from_ensemble(probabilities.numpy(), steps.numpy(), remainder.numpy())

    def predict_without_labels(
        self, graph: Graph, *, device: torch.device | str = "cpu", threads: int | None = None
    ) -> Predictions | None:
        """Predictions for all nodes before known labels and temperature correct them; None without weights."""
        if not self.config.has_weights:
            return None
        return replace(self, correct_and_smooth=None, temperature=1.0)._predict_all(graph, device, threads)

    @torch.no_grad()
    def predict_with_labels(
        self,
        graph: Graph,
        nodes: np.ndarray | None = None,
        *,
        device: torch.device | str = "cpu",
        threads: int | None = None,
        uncorrected: Predictions | None = None,
    ) -> Predictions:
        """Predictions for some nodes from known labels, of no node from its own.

        `uncorrected` are those of `predict_without_labels`, if they are known: they do not depend on the labels.
        """
        nodes = np.arange(graph.num_nodes) if nodes is None else as_node_indices(nodes, num_nodes=graph.num_nodes)
        graph = with_classes(graph, self.class_names)
        known = np.flatnonzero(graph.labels >= 0)
        if self.config.has_weights and not len(known):
            return replace(self, correct_and_smooth=None).predict(graph, nodes, device=device, threads=threads)
        if not len(known):
            raise InvalidInput(
                f"{graph.name} must have labels of some nodes, from which {self.config.title} predicts the others, got "
                "none; pass its known labels, or fit a model with weights."
            )
        self._check_features(graph)
        device = resolve_device(str(device))
        device_graph = replace(DeviceGraph.from_graph(graph, device=device), num_classes=len(self.class_names))
        num_steps = np.full(len(nodes), float(self.config.max_steps), dtype=np.float32)
        steps, remainder, probabilities = num_steps, np.zeros_like(num_steps), None
        if uncorrected is None:
            uncorrected = self.predict_without_labels(graph, device=device, threads=threads)
        if uncorrected is not None:
            steps, remainder = uncorrected.steps[nodes], uncorrected.remainder[nodes]
            probabilities = torch.as_tensor(uncorrected.probabilities, device=device)

        def predict_from(labelled: np.ndarray) -> np.ndarray:
            index = torch.as_tensor(labelled, device=device)
            if self.correct_and_smooth is None:
                return self.config.solve(device_graph, index[None]).output[0].softmax(-1).cpu().numpy()
            assert probabilities is not None
            return (
                self.correct_and_smooth.apply(probabilities, device_graph.labels, index, device_graph.adjacency)
                .cpu()
                .numpy()
            )

        with kernel_threads(resolve_threads(threads)):
            rows = cross_fit(predict_from, known, nodes, ids=graph.node_ids)
        return Predictions(sharpen(rows, self.temperature), steps, remainder)

    def build(self, graph: Graph, *, device: torch.device | str = "cpu") -> tuple[BatchedModel, DeviceGraph]:
        """The ensemble as a batch of runs with its weights, and the graph on its device."""
        self._check_features(graph)
        device = resolve_device(str(device))
        device_graph = replace(DeviceGraph.from_graph(graph, device=device), num_classes=len(self.class_names))
        model = self.config.build(device_graph, RandomStream([0] * self.ensemble_size, device=device))
        model.load_state_dict({name: weight.to(device) for name, weight in self.weights.items()})
        return model, device_graph

    def build_without_graph(self) -> BatchedModel:
        """The ensemble as a batch of runs on the CPU, for its modules alone: it is built for a graph of one node."""
        return self.build(Graph(np.zeros((1, 1)), np.zeros((1, self.num_features)), class_names=self.class_names))[0]

    def _check_features(self, graph: Graph) -> None:
        if graph.num_features != self.num_features:
            raise InvalidInput(
                f"{graph.name} must have the {self.num_features} features that the model was trained on, "
                f"got {graph.num_features}."
            )


def with_classes(graph: Graph, class_names: tuple[str, ...]) -> Graph:
    """The graph with the classes of a model, in their order: a label is found by its name.

    Raises
    ------
    InvalidInput
        If a node is labelled with another class.
    """
    if graph.class_names == class_names:
        return graph
    class_index = {name: index for index, name in enumerate(class_names)}
    other = [graph.class_names[label] for label in np.unique(graph.labels[graph.labels >= 0])]
    other = [name for name in other if name not in class_index]
    if other:
        raise InvalidInput(
            f"the labels of {graph.name} must be classes of the model, {format_names(class_names)}, got "
            f"{format_names(other)}; leave out the labels of other classes."
        )
    label_of_model = np.array([*(class_index.get(name, -1) for name in graph.class_names), -1])  # the last for -1
    return replace(graph, labels=label_of_model[graph.labels], class_names=class_names)


def sharpen(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (nodes, classes) whose logarithms are divided by a temperature."""
    logits = np.log(np.maximum(probabilities, MIN_PROBABILITY)) / temperature
    return softmax(logits, axis=-1)
