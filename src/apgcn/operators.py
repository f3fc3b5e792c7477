"""What does one step of listening do?

An operator is asked once per forward pass to `begin`, with the seeds z^0 and the number of steps, and answers with a
function `step(k, z)` that makes z^k from z^(k-1). Edge dropout is drawn from the untouched graph for every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from apgcn.checks import check_share
from apgcn.noise import Noise, keep_factor
from apgcn.sparse import SparseMatrix
from apgcn.tensors import Adjacency, normalize

Step = Callable[[int, Tensor], Tensor]


class Operator(Protocol):
    """One kind of listening."""

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        """Get ready for `steps` steps from seeds of shape (runs, nodes, channels)."""
        ...


@dataclass(frozen=True)
class NormalizedAdjacency:
    """z^k = A_k z^(k-1), the step of AP-GCN and of a GCN layer.

    A_k = D^-1/2 (A + I) D^-1/2 of the graph that is left after dropping each directed edge with probability
    `edge_dropout`, anew at every step, and normalising what is left; a node always hears itself. In evaluation (no
    noise) the whole graph.
    """

    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        check_share("edge_dropout", self.edge_dropout)

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, noise=noise)
        return lambda k, z: matrices[k - 1] @ z


@dataclass(frozen=True)
class PageRank:
    """z^k = (1 - teleport) A_k z^(k-1) + teleport z^0, the step of APPNP, with A_k as in `NormalizedAdjacency`."""

    teleport: float = 0.1
    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        check_share("teleport", self.teleport)
        check_share("edge_dropout", self.edge_dropout)

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, noise=noise)
        home = self.teleport * seeds
        return lambda k, z: (1 - self.teleport) * (matrices[k - 1] @ z) + home


OPERATORS: tuple[Operator, ...] = (NormalizedAdjacency(), PageRank())


def step_matrices(adjacency: Adjacency, rate: float, *, steps: int, noise: Noise | None) -> list[SparseMatrix]:
    """A_1, ..., A_steps: the normalised adjacency, fresh edge dropout in each."""
    if noise is None or rate == 0:
        return [adjacency.normalized] * steps
    kept = noise.keep(steps, adjacency.pattern.entries, rate=rate).to(adjacency.weights)
    dropped = drop_edges(adjacency, kept, factor=keep_factor(rate))  # (runs, steps, entries)
    return [normalize(SparseMatrix(adjacency.pattern, weights)) for weights in dropped.unbind(1)]


def drop_edges(adjacency: Adjacency, kept: Tensor, *, factor: float) -> Tensor:
    """The weights that are left of the edges, of the shape of `kept`.

    `kept` (..., entries) is 0 for a dropped edge and `factor` for every other; a node's own entry gets the factor
    always. Being common to all entries, it cancels in the normalisation.
    """
    return torch.maximum(kept, adjacency.loops * factor) * adjacency.weights
