"""What does a trained model say about some nodes of a large graph? Loaded once, asked often, and only what is needed.

A node's features are looked at when somebody who listens can hear it; see `asking`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from apgcn._utils.validation import as_nodes
from apgcn.data.graph import Graph
from apgcn.inference.lazy_propagation import LANES, MAX_STEPS, LazyGraph, LazyModel, LazyOutput, PropagationCost, ask
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.base import ModelConfig
from apgcn.ops.devices import one_thread
from apgcn.ops.dispatch import kernels_for_device
from apgcn.ops.kernels.adaptive_propagation import Halting


def supports_lazy(model: ModelConfig) -> bool:
    """Whether the nodes of a model halt, in not too many steps that are written out, and numba is there."""
    halts = isinstance(model, APGCNConfig) and model.has_fused_kernel and model.max_steps <= MAX_STEPS
    return halts and kernels_for_device(torch.device("cpu")) is not None


class LazyPredictor:
    """A model and a graph, ready to be asked about any of its nodes, by several threads if need be.

    Parameters
    ----------
    model : APGCNSettings
    weights : dict of arrays, the initialisations first
    temperature : float
    graph : Graph

    Attributes
    ----------
    heard : Heard
        Who hears whom.
    initialisations : int
    """

    def __init__(self, model: APGCNConfig, weights: dict[str, np.ndarray], temperature: float, graph: Graph):
        self._model, self._weights, self._temperature, self._graph = model, weights, temperature, graph
        self.heard = LazyGraph.of(graph.adjacency)
        self.initialisations = len(next(iter(weights.values())))

    def ask(self, nodes: np.ndarray | None = None) -> Predictions:
        """What the model says about these nodes, or about all."""
        count = self._graph.num_nodes
        asked = np.arange(count) if nodes is None else as_nodes(nodes, count=count)
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told below
            answers = [ask(self.heard, self.listeners(number), asked) for number in range(self.initialisations)]
        return self._mean(answers)

    @property
    def fixed(self) -> PropagationCost:
        """What it costs when every node takes all steps, in all initialisations."""
        channels = self._weights["predict.second.weight"].shape[-1]
        heard, steps = self.heard, self._model.max_steps
        one = PropagationCost.fixed(nodes=heard.nodes, edges=heard.edges, steps=steps, channels=channels)
        return PropagationCost(*(self.initialisations * cost for cost in one))

    def listeners(self, number: int) -> LazyModel:
        """How the nodes listen in one initialisation."""
        model = self._model
        decay, home = model.mixing
        return LazyModel(
            z0=lambda rows: self.z0(rows, number),
            unit=self._weights["propagation.halting_unit.weight"][number, :, 0],
            bias=float(self._weights["propagation.halting_unit.bias"][number, 0, 0]),
            halting=Halting(model.max_steps, model.epsilon, model.freeze_halted),
            decay=decay,
            home=home,
        )

    def z0(self, rows: np.ndarray, number: int) -> np.ndarray:
        """z^0 of some nodes in one initialisation: ReLU(X W_1 + b_1) W_2 + b_2."""
        first, second = ((self._part(f"predict.{name}", number)) for name in ("first", "second"))
        x = self._graph.features
        if sparse.issparse(x):
            return _hidden(x, rows, *first)[:, : len(second[0])] @ second[0] + second[1]
        chosen = x if len(rows) == len(x) else x[rows]
        return np.maximum(chosen @ first[0] + first[1], 0) @ second[0] + second[1]

    def _part(self, name: str, number: int) -> tuple[np.ndarray, np.ndarray]:
        return self._weights[f"{name}.weight"][number], self._weights[f"{name}.bias"][number, 0]

    def _mean(self, answers: list[LazyOutput]) -> Predictions:
        work = answers[0].work
        for answer in answers[1:]:
            work = work + answer.work
        return Predictions.of(
            np.stack([_softmax(answer.output / self._temperature) for answer in answers]),
            np.stack([answer.steps for answer in answers]),
            np.stack([answer.remainder for answer in answers]),
            work=work,
            fixed=self.fixed,
        )


def _hidden(x: Any, rows: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """ReLU(X W + b) of some rows of sparse features, with columns of zeros up to a round width."""
    from apgcn.ops.kernels.cpu.lazy import hidden_of

    width = -(-weight.shape[1] // LANES) * LANES
    wide, offset = np.zeros((len(weight), width), np.float32), np.zeros(width, np.float32)
    wide[:, : weight.shape[1]], offset[: weight.shape[1]] = weight, bias
    into = np.empty((len(rows), width), np.float32)
    unsigned = (array.view(array.dtype.str.replace("i", "u")) for array in (x.indptr, x.indices))
    hidden_of(width)(*unsigned, x.data, rows, wide, offset, into)
    return into


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
