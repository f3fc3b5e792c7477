"""Bt.FP: Buchnik and Cohen, Bootstrapped Graph Diffusions: Exposing the Power of Nonlinearity, SIGMETRICS 2018."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig, heard
from apgcn.models.presets import PPNP, Preset
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import FixedPropagation, PropagationOutput
from apgcn.ops.device_graph import DeviceGraph

VALIDATION = "not in the papers, as far as we know; ours, on validation seeds: scripts/ridge (cora as cora_ml)"
TOLERANCE = 1e-6  # of what the equations of a round leave over, against their right side
MAX_ITERATIONS = 1000
LOOK_EVERY = 10  # iterations: a look at what is left makes a GPU wait
COLUMNS = 256  # of the features diffuse at once
MIN_RIDGE, MAX_RIDGE = 1e-9, 1e9
MAX_STEPS = 10_000
UNKNOWN = -1000.0  # the score of a class that no training node has: never the highest


@dataclass(frozen=True)
class BtFPConfig(ModelConfig):
    """What can be chosen about bootstrapped feature propagation.

    `teleport` is the return probability and `max_steps` the number of steps of the diffusion; `rounds` of
    self-training each add the share `growth` of all nodes; `ridge` is how much the classifier shrinks its weights.
    """

    name: ClassVar[str] = "btfp"
    title: ClassVar[str] = "Bt.FP"
    citation: ClassVar[str] = "Buchnik and Cohen, SIGMETRICS 2018"
    given: ClassVar[tuple[Preset, ...]] = (
        Preset("published", PPNP, {"teleport": 0.2, "max_steps": 10, "rounds": 10, "growth": 0.1}),
        Preset("published", VALIDATION, {"ridge": 1.0}),
        Preset("published", VALIDATION, {"ridge": 10.0}, ("citeseer",)),
        Preset("published", VALIDATION, {"ridge": 3.0}, ("ms_academic",)),
        Preset("published", VALIDATION, {"ridge": 0.01}, ("pubmed", *AMAZON_GRAPHS)),
    )
    memory_advice: ClassVar[str] = "give the graph fewer features"
    has_weights: ClassVar[bool] = False

    teleport: float = 0.2
    max_steps: int = 10
    rounds: int = 10
    growth: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        check_int("max_steps", self.max_steps, most=MAX_STEPS)
        check_int("rounds", self.rounds, least=0)
        for name in ("teleport", "growth"):
            check_fraction(name, getattr(self, name))
        check_number("ridge", self.ridge, positive=True)
        if not MIN_RIDGE <= self.ridge <= MAX_RIDGE:
            raise InvalidInput(f"ridge must be between {MIN_RIDGE:g} and {MAX_RIDGE:g}, got {self.ridge:g}.")

    def solve(self, graph: DeviceGraph, train: Tensor) -> PropagationOutput:
        """The answer for training nodes `train` of shape (runs, m).

            F     = the features, diffused: z^k = (1 - teleport) A z^(k-1) + teleport X, every row scaled to length 1
            W     = argmin |F W - Y|^2 over labelled nodes + ridge |W|^2          Y: 1 at the label, 0 elsewhere
            then, `rounds` times: nodes without a label whose softmax(F W) has the lowest entropy get the class that it
            names, `growth` n of them, shared among classes as the predictions are; and W anew

        Nothing is drawn: a run depends on its split alone. Which nodes join is a matter of order, where a last digit
        can decide; so all that follows the diffusion is in double precision, every run as far as if it were alone.

        Raises
        ------
        InvalidInput
            If the equations of a round cannot be solved.
        """
        f = diffused(graph, teleport=self.teleport, steps=self.max_steps)
        known = torch.full((len(train), len(f)), -1, device=f.device)
        known.scatter_(1, train, graph.labels[train])
        absent = functional.one_hot(graph.labels[train], graph.classes).sum(1, keepdim=True) == 0  # (runs, 1, classes)
        w = f.new_zeros(f.shape[1], len(train), graph.classes)
        for round_number in range(self.rounds + 1):
            w = ridge_regression(f, known, w, strength=self.ridge)
            scores = (f @ w.flatten(1)).view(len(f), *w.shape[1:]).transpose(0, 1)  # (runs, nodes, classes)
            scores = scores.masked_fill(absent, UNKNOWN)
            if round_number < self.rounds:
                known = grown(known, scores, growth=self.growth)
        return PropagationOutput.everywhere(scores.to(graph.adjacency.weights), steps=self.max_steps)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it is solved."""
        return 20 * (graph.num_nodes + graph.num_features) * graph.num_classes

    def floats_shared(self, graph: Graph) -> int:
        """About how many more numbers a pack keeps: features, once single for diffusion and once double, and room."""
        return (5 * graph.num_features + 6 * COLUMNS) * graph.num_nodes + heard(graph)


def diffused(graph: DeviceGraph, *, teleport: float, steps: int) -> Tensor:
    """The features after so many steps of PageRank, each node's scaled to length 1; (nodes, features), double."""
    x = graph.features.to_dense()
    diffuse = FixedPropagation(PageRank(teleport, edge_dropout=0.0), steps=steps)
    f = torch.empty_like(x, dtype=torch.float64)
    for columns, into in zip(x.split(COLUMNS, dim=1), f.split(COLUMNS, dim=1), strict=True):
        into.copy_(diffuse(columns[None], graph.adjacency).output[0])
    if not bool(f.isfinite().all()):
        raise InvalidInput("features must be small enough to be summed over neighbours, got some that overflow.")
    return f.div_(f.norm(dim=1, keepdim=True).clamp(min=torch.finfo(f.dtype).tiny))


def ridge_regression(f: Tensor, known: Tensor, w: Tensor, *, strength: float) -> Tensor:
    """(F^T S F + strength I)^-1 F^T S Y, with S keeping labelled nodes, by conjugate gradients begun at w.

    Every column, a class of a run, goes its own way and stands still once it is there.

    Parameters
    ----------
    f : Tensor of shape (nodes, features)
    known : Tensor of shape (runs, nodes)
        Classes, -1 for none.
    w : Tensor of shape (features, runs, classes)
        The runs stand side by side, so that every product is one wide one.
    """
    shape, w = w.shape, w.flatten(1)
    labelled = (known.T >= 0).repeat_interleave(shape[2], dim=1).to(f)  # (nodes, runs * classes)
    y = functional.one_hot(known.T.clamp(min=0), shape[2]).flatten(1) * labelled
    right = f.T @ y
    residual = right - f.T @ (labelled * (f @ w)) - strength * w
    direction, size = residual, residual.square().sum(0)
    enough = TOLERANCE**2 * right.square().sum(0)
    for iteration in range(MAX_ITERATIONS + 1):
        left = ~(size <= enough)  # what is not a number never gets there
        if iteration % LOOK_EVERY == 0 and not bool(left.any()):
            return w.view(shape)
        curved = f.T @ (labelled * (f @ direction)) + strength * direction
        step = torch.where(left, size / (direction * curved).sum(0), 0)
        w = w + step * direction
        residual = residual - step * curved
        size, before = residual.square().sum(0), size
        direction = residual + torch.where(left, size / before, 0) * direction
    raise InvalidInput(
        f"Bt.FP's equations must be solved within {MAX_ITERATIONS} iterations, which ridge={strength:g} does not "
        "allow on this graph; make ridge larger."
    )


def grown(known: Tensor, scores: Tensor, *, growth: float) -> Tensor:
    """The known classes (runs, nodes) and, besides, those of the nodes whose prediction is most certain."""
    surprise = functional.log_softmax(scores, dim=-1)
    entropy = -(surprise.exp() * surprise).sum(-1)
    predicted = scores.argmax(-1)
    after = known.clone()
    for label in range(scores.shape[-1]):
        named = predicted == label
        wanted = (growth * named.sum(1, keepdim=True)).round()  # growth n, times the share of the class
        candidates = named & (known < 0)
        order = entropy.masked_fill(~candidates, torch.inf).argsort(dim=1, stable=True)
        place = order.argsort(dim=1)  # of every node, the most certain candidate first
        after[candidates & (place < wanted)] = label
    return after
