"""NDLS-F: Zhang et al., Node Dependent Local Smoothing for Scalable Graph Learning, NeurIPS 2021, on features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.errors import FitWarning
from apgcn.models.base import BatchedModel, ModelConfig
from apgcn.nn.layers import MLP
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix


@dataclass(frozen=True)
class NDLSConfig(ModelConfig):
    """Hyperparameters of NDLS-F; `epsilon` is the distance to the stationary features at which a node halts."""

    name: ClassVar[str] = "ndls"
    title: ClassVar[str] = "NDLS-F"
    citation: ClassVar[str] = "Zhang et al., NeurIPS 2021"
    memory_advice: ClassVar[str] = "use a model that propagates class scores, such as appnp"

    hidden_channels: int = 64
    dropout: float = 0.5
    max_steps: int = 199
    epsilon: float = 0.03
    teleport: float = 0.15

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "teleport"):
            check_fraction(name, getattr(self, name))
        check_number("epsilon", self.epsilon)

    @property
    def min_steps(self) -> int:
        """A node whose features are close to the stationary ones takes no step."""
        return 0

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedNDLS:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedNDLS(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training: the smoothed features are dense."""
        hidden = graph.num_nodes * self.hidden_channels
        weights = self.hidden_channels * (graph.num_features + graph.num_classes)
        scores = graph.num_nodes * graph.num_classes
        return 3 * graph.num_nodes * graph.num_features + 6 * hidden + 10 * scores + 8 * weights

    def floats_shared(self, graph: Graph) -> int:
        """Estimated number of further floats of a batch, independent of the number of runs."""
        return 4 * graph.num_nodes * graph.num_features


class SmoothedFeatures(NamedTuple):
    """Features after as many propagation steps as each node takes.

    Attributes
    ----------
    features : Tensor of shape (nodes, features)
    steps : int64 Tensor of shape (nodes,)
        K of every node.
    """

    features: Tensor
    steps: Tensor


class BatchedNDLS(BatchedModel):
    """A two-layer MLP on features that were smoothed before training, each node's by its own number of steps.

        X^k  = P X^(k-1),  P = D^-1 (A + I)                        X^0: every row divided by its l1 norm
        K_i  = the first k with |x_i^k - x^inf| < epsilon, at most max_steps; x^inf = sum_j d_j x_j / sum_j d_j
        x_i  = 1/K_i * sum over k < K_i of (1 - teleport) x_i^k + teleport x_i^0;  x_i^0 where K_i = 0
        output = ReLU(X W_1 + b_1) W_2 + b_2                       dropout before each layer

    Nothing of the propagation is learned. As in the authors' program, the distance is that of features, and the last
    state of the mean is x^(K - 1), so that a node of K = 1 keeps its features. Wide dense features of length about 0
    after the division halt at once: `epsilon` must fit them. The paper smooths the predictions in the same way; the
    program reports the number of steps with the best accuracy on test nodes, and so that stage is left out here. l2
    regularisation is on all weights.
    """

    def __init__(self, config: NDLSConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        smoothed = smooth_features(graph, self.config)
        output = self.predict(smoothed.features, rng)
        steps = smoothed.steps.expand(len(output), -1)
        return PropagationOutput(output, steps=steps, remainder=output.new_zeros(steps.shape))

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: all."""
        return self.predict.first.weight, self.predict.second.weight


_smoothed: WeakKeyDictionary[DeviceGraph, dict[tuple[float, ...], SmoothedFeatures]] = WeakKeyDictionary()


@torch.no_grad()
def smooth_features(graph: DeviceGraph, config: NDLSConfig) -> SmoothedFeatures:
    """The smoothed features of a graph; computed once for a graph and these hyperparameters."""
    key = (config.max_steps, config.epsilon, config.teleport)
    results = _smoothed.setdefault(graph, {})
    if key not in results:
        results[key] = _smooth_features(graph, config)
    return results[key]


def _smooth_features(graph: DeviceGraph, config: NDLSConfig) -> SmoothedFeatures:
    features = graph.features.to_dense() if isinstance(graph.features, SparseMatrix) else graph.features
    initial = functional.normalize(features, p=1, dim=1)
    adjacency = graph.adjacency
    degrees = SparseMatrix(adjacency.structure, adjacency.weights).row_sums()
    random_walk = SparseMatrix(adjacency.structure, adjacency.weights / degrees[adjacency.structure.row])
    stationary = (degrees / degrees.sum()) @ initial
    steps = torch.full((len(initial),), config.max_steps, device=initial.device)
    total, state = torch.zeros_like(initial), initial
    active = torch.ones(len(initial), dtype=torch.bool, device=initial.device)
    for k in range(config.max_steps):
        reached = active & ((state - stationary).norm(dim=1) < config.epsilon)
        steps[reached] = k
        active &= ~reached
        if not active.any():
            break
        total += torch.where(active[:, None], state, 0.0)
        state = (random_walk @ state[None])[0]
    has_neighbours = torch.bincount(adjacency.structure.row, minlength=len(steps)) > 1  # besides its self-loop
    if (steps[has_neighbours] <= 1).all():
        message = (
            f"NDLS-F does not use the graph: the features of all connected nodes are within epsilon={config.epsilon:g} "
            "of the stationary ones after one step; try a smaller epsilon."
        )
        warnings.warn(message, FitWarning, stacklevel=2)
    mean = (1 - config.teleport) * total / steps.clamp(min=1)[:, None] + config.teleport * initial
    return SmoothedFeatures(torch.where((steps == 0)[:, None], initial, mean), steps)
