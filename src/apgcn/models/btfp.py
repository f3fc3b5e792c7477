"""Bt.FP: Buchnik and Cohen, Bootstrapped Graph Diffusions: Exposing the Power of Nonlinearity, SIGMETRICS 2018."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig, num_edges_with_self_loops
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import PropagationOutput, propagate
from apgcn.ops.device_graph import DeviceGraph

TOLERANCE = 1e-6  # of the residual of a round's equations, relative to their right-hand side
MAX_ITERATIONS = 1000
CHECK_INTERVAL = 10  # iterations between tests of convergence, each of which makes a GPU wait
FEATURE_CHUNK = 256  # columns of the features that are propagated at once
MIN_RIDGE, MAX_RIDGE = 1e-9, 1e9
MAX_STEPS = 10_000
ABSENT_CLASS_SCORE = -1000.0  # of a class that no training node has: never the highest


@dataclass(frozen=True)
class BtFPConfig(ModelConfig):
    """Hyperparameters of bootstrapped feature propagation.

    `teleport` is the return probability and `max_steps` the number of steps of the diffusion; each of `rounds` of
    self-training adds the fraction `growth` of all nodes; `ridge` is the classifier's l2 regularisation.
    """

    name: ClassVar[str] = "btfp"
    title: ClassVar[str] = "Bt.FP"
    citation: ClassVar[str] = "Buchnik and Cohen, SIGMETRICS 2018"
    memory_advice: ClassVar[str] = "give the graph fewer features"
    has_weights: ClassVar[bool] = False

    teleport: float = 0.2
    max_steps: int = 10
    rounds: int = 10
    growth: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        check_int("max_steps", self.max_steps, maximum=MAX_STEPS)
        check_int("rounds", self.rounds, minimum=0)
        for name in ("teleport", "growth"):
            check_fraction(name, getattr(self, name))
        check_number("ridge", self.ridge, positive=True)
        if not MIN_RIDGE <= self.ridge <= MAX_RIDGE:
            raise InvalidInput(f"ridge must be between {MIN_RIDGE:g} and {MAX_RIDGE:g}, got {self.ridge:g}.")

    def solve(self, graph: DeviceGraph, train: Tensor) -> PropagationOutput:
        """The prediction from training nodes `train` of shape (runs, m).

            F     = the features, diffused: z^k = (1 - teleport) A z^(k-1) + teleport X, every row scaled to length 1
            W     = argmin |F W - Y|^2 over labelled nodes + ridge |W|^2          Y: 1 at the label, 0 elsewhere
            then, `rounds` times: the unlabelled nodes whose softmax(F W) has the lowest entropy are labelled with their
            predicted class, `growth` n of them, distributed over the classes as the predictions are; and W is fitted
            again

        No random numbers are drawn: a run depends on its split alone. Which nodes are added depends on an order, which
        the last digit can decide; so everything after the diffusion is in double precision, and each run iterates as
        far as it would alone.

        Raises
        ------
        InvalidInput
            If the equations of a round cannot be solved.
        """
        f = diffuse_features(graph, teleport=self.teleport, steps=self.max_steps)
        labels = torch.full((len(train), len(f)), -1, device=f.device)
        labels.scatter_(1, train, graph.labels[train])
        absent = (
            functional.one_hot(graph.labels[train], graph.num_classes).sum(1, keepdim=True) == 0
        )  # (runs, 1, classes)
        w = f.new_zeros(f.shape[1], len(train), graph.num_classes)
        for round_index in range(self.rounds + 1):
            w = ridge_regression(f, labels, w, strength=self.ridge)
            scores = (f @ w.flatten(1)).view(len(f), *w.shape[1:]).transpose(0, 1)  # (runs, nodes, classes)
            scores = scores.masked_fill(absent, ABSENT_CLASS_SCORE)
            if round_index < self.rounds:
                labels = add_confident_labels(labels, scores, growth=self.growth)
        return PropagationOutput.fixed_steps(scores.to(graph.adjacency.weights), steps=self.max_steps)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch."""
        return 20 * (graph.num_nodes + graph.num_features) * graph.num_classes

    def floats_shared(self, graph: Graph) -> int:
        """Estimated number of further floats of a batch: features in single and in double precision, and buffers."""
        return (5 * graph.num_features + 6 * FEATURE_CHUNK) * graph.num_nodes + num_edges_with_self_loops(graph)


def diffuse_features(graph: DeviceGraph, *, teleport: float, steps: int) -> Tensor:
    """The features after so many steps of PageRank, each row scaled to length 1; (nodes, features), double."""
    x = graph.features.to_dense()
    operator = PageRank(teleport, edge_dropout=0.0)
    f = torch.empty_like(x, dtype=torch.float64)
    for chunk, diffused in zip(x.split(FEATURE_CHUNK, dim=1), f.split(FEATURE_CHUNK, dim=1), strict=True):
        states = propagate(operator, chunk[None], graph.adjacency, steps=steps, rng=None)
        diffused.copy_(deque(states, maxlen=1).pop()[0])  # only the last is kept
    if not bool(f.isfinite().all()):
        raise InvalidInput("features must be small enough to be summed over neighbours, got values that overflow.")
    return f.div_(f.norm(dim=1, keepdim=True).clamp(min=torch.finfo(f.dtype).tiny))


def ridge_regression(f: Tensor, labels: Tensor, w: Tensor, *, strength: float) -> Tensor:
    """(F^T S F + strength I)^-1 F^T S Y, with S selecting labelled nodes, by conjugate gradients started at w.

    Every column, a class of a run, has its own step size and is not updated after it has converged.

    Parameters
    ----------
    f : Tensor of shape (nodes, features)
    known : Tensor of shape (runs, nodes)
        Class of each node, -1 for an unlabelled one.
    w : Tensor of shape (features, runs, classes)
        The runs are adjacent columns, so that all are computed in one product.
    """
    shape, w = w.shape, w.flatten(1)
    labelled = (labels.T >= 0).repeat_interleave(shape[2], dim=1).to(f)  # (nodes, runs * classes)
    y = functional.one_hot(labels.T.clamp(min=0), shape[2]).flatten(1) * labelled
    rhs = f.T @ y
    residual = rhs - f.T @ (labelled * (f @ w)) - strength * w
    direction, squared_norm = residual, residual.square().sum(0)
    threshold = TOLERANCE**2 * rhs.square().sum(0)
    for iteration in range(MAX_ITERATIONS + 1):
        active = ~(squared_norm <= threshold)  # NaN never converges
        if iteration % CHECK_INTERVAL == 0 and not bool(active.any()):
            return w.view(shape)
        product = f.T @ (labelled * (f @ direction)) + strength * direction
        step = torch.where(active, squared_norm / (direction * product).sum(0), 0)
        w = w + step * direction
        residual = residual - step * product
        squared_norm, previous = residual.square().sum(0), squared_norm
        direction = residual + torch.where(active, squared_norm / previous, 0) * direction
    raise InvalidInput(
        f"Bt.FP's equations must be solved within {MAX_ITERATIONS} iterations, which ridge={strength:g} does not "
        "allow on this graph; make ridge larger."
    )


def add_confident_labels(labels: Tensor, scores: Tensor, *, growth: float) -> Tensor:
    """The labels (runs, nodes), and as new labels the predicted classes of the unlabelled nodes of lowest entropy."""
    log_p = functional.log_softmax(scores, dim=-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    predicted = scores.argmax(-1)
    extended = labels.clone()
    for label in range(scores.shape[-1]):
        in_class = predicted == label
        count = (growth * in_class.sum(1, keepdim=True)).round()  # growth n, times the fraction of the class
        candidates = in_class & (labels < 0)
        order = entropy.masked_fill(~candidates, torch.inf).argsort(dim=1, stable=True)
        rank = order.argsort(dim=1)  # of every node, the candidate with the lowest entropy first
        extended[candidates & (rank < count)] = label
    return extended
