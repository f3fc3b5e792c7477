"""What does one step of listening do?

An operator is asked once per forward pass to `begin`, with the seeds z^0 and the number of steps, and answers with a
function `step(k, z)` that makes z^k from z^(k-1). Edge dropout is drawn from the untouched graph for every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_share, check_whole
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.kernels.adaptive_propagation import Matrices
from apgcn.ops.rng import Coins, Noise, keep_factor
from apgcn.ops.sparse import Pattern, SparseMatrix

Step = Callable[[int, Tensor], Tensor]

SAME = 0.99  # of every channel's mixture is that channel itself when an ARMA filter starts


class Operator(Protocol):
    """One kind of listening.

    Where a step is z^k = decay A_k z^(k-1) + home z^0, an operator may also have a method `matrices`, which gives all
    of it at once: then written-out loops can take over, see `kernels.listening`.
    """

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

    def matrices(self, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Matrices:
        return _normalized(adjacency, self.edge_dropout, steps=steps, noise=noise)


@dataclass(frozen=True)
class PageRank:
    """z^k = (1 - teleport) A_k z^(k-1) + teleport z^0, the step of APPNP.

    A_k is as in `NormalizedAdjacency`; or, with `renormalize=False`, the entries of the whole graph's normalised matrix
    are dropped and the others enlarged to make up for it, which is the dropout of the PPNP paper.
    """

    teleport: float = 0.1
    edge_dropout: float = 0.5
    renormalize: bool = True

    def __post_init__(self) -> None:
        check_share("teleport", self.teleport)
        check_share("edge_dropout", self.edge_dropout)

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        if self.renormalize:
            matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, noise=noise)
        else:
            matrices = dropped_matrices(adjacency.normalized, self.edge_dropout, steps=steps, noise=noise)
        home = self.teleport * seeds
        return lambda k, z: (1 - self.teleport) * (matrices[k - 1] @ z) + home

    def matrices(self, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Matrices:
        if self.renormalize:
            all_steps = _normalized(adjacency, self.edge_dropout, steps=steps, noise=noise)
        else:
            whole = adjacency.normalized
            coins = _tossed(whole.pattern, self.edge_dropout, steps=steps, noise=noise)
            given = {"keeps_loops": False, "renormalize": False, "exchange": adjacency.exchange}
            all_steps = Matrices(whole.pattern, whole.values, coins=coins, **given)
        return all_steps._replace(decay=1 - self.teleport, home=self.teleport)


@dataclass(frozen=True)
class Chebyshev:
    """z^k = T_k(L) z^0, the polynomials of the paper's equation 2.

        z^1 = L z^0,   z^k = 2 L z^(k-1) - z^(k-2)

    L = 2 (I - M) / 2 - I = -M is the Laplacian of the graph, its eigenvalues moved from [0, 2] to [-1, 1], with
    M = D^-1/2 A D^-1/2, no node hearing itself.
    """

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        matrix = adjacency.normalized_without_loops
        before = [torch.zeros_like(seeds)]  # z^(k-2), once k is 2 or more

        def step(k: int, z: Tensor) -> Tensor:
            earlier, before[0] = before[0], z
            return -(matrix @ z) if k == 1 else -2 * (matrix @ z) - earlier

        return step


class ARMA(nn.Module):
    """z^k = (1 - teleport) M z^(k-1) W + teleport z^0 V, the step of an ARMA filter (Bianchi et al., 2019).

    M = D^-1/2 A D^-1/2, no node hearing itself but through z^0. W and V are learned, within limits that an ARMA filter
    does not have: every channel of the result is a mixture of channels, of what is heard and of what was known. Being
    mixtures, the softmax of what is learned, they make nothing larger, so that the recursion converges however often it
    is repeated; with free W and V it learns ten steps badly (docs/rivals.md). At the start both are nearly I, which is
    PageRank without loops. Edge dropout takes entries of M.

    Parameters
    ----------
    channels : int
        Width of the seeds.
    noise : Noise
        Says how many runs there are; nothing is drawn.
    """

    def __init__(self, *, channels: int, noise: Noise, teleport: float = 0.1, edge_dropout: float = 0.5):
        super().__init__()
        check_whole("channels", channels)
        check_share("teleport", teleport)
        check_share("edge_dropout", edge_dropout)
        self.teleport, self.edge_dropout = teleport, edge_dropout
        start = math.log(max(1, channels - 1) * SAME / (1 - SAME))  # before the softmax
        same = start * torch.eye(channels, device=noise.device).repeat(noise.runs, 1, 1)
        self.w, self.v = nn.Parameter(same), nn.Parameter(same.clone())  # (runs, from channels, to channels)

    def begin(self, seeds: Tensor, adjacency: Adjacency, *, steps: int, noise: Noise | None) -> Step:
        matrices = dropped_matrices(adjacency.normalized_without_loops, self.edge_dropout, steps=steps, noise=noise)
        w, v = (1 - self.teleport) * self.w.softmax(1), self.teleport * self.v.softmax(1)
        home = seeds @ v
        return lambda k, z: matrices[k - 1] @ (z @ w) + home

    def extra_repr(self) -> str:
        return f"channels={self.w.shape[-1]}, teleport={self.teleport}, edge_dropout={self.edge_dropout}"


# By name, each from the number of channels and a noise that says how many runs there are; most need neither.
OPERATORS: Mapping[str, Callable[[int, Noise], Any]] = {
    "NormalizedAdjacency": lambda channels, noise: NormalizedAdjacency(),
    "PageRank": lambda channels, noise: PageRank(),
    "PageRank of PPNP": lambda channels, noise: PageRank(renormalize=False),
    "Chebyshev": lambda channels, noise: Chebyshev(),
    "ARMA": lambda channels, noise: ARMA(channels=channels, noise=noise),
}


def _normalized(adjacency: Adjacency, rate: float, *, steps: int, noise: Noise | None) -> Matrices:
    """`step_matrices`, for written-out loops."""
    coins = _tossed(adjacency.pattern, rate, steps=steps, noise=noise)
    given = {"keeps_loops": True, "renormalize": True, "exchange": adjacency.exchange}
    return Matrices(adjacency.pattern, adjacency.weights, coins=coins, **given)


def _tossed(pattern: Pattern, rate: float, *, steps: int, noise: Noise | None) -> Coins | None:
    return None if noise is None or rate == 0 else noise.toss(steps, pattern.entries, rate=rate)


def step_matrices(adjacency: Adjacency, rate: float, *, steps: int, noise: Noise | None) -> list[SparseMatrix]:
    """A_1, ..., A_steps: the normalised adjacency, fresh edge dropout in each."""
    if noise is None or rate == 0:
        return [adjacency.normalized] * steps
    kept = noise.keep(steps, adjacency.pattern.entries, rate=rate).to(adjacency.weights)
    dropped = drop_edges(adjacency, kept, factor=keep_factor(rate))  # (runs, steps, entries)
    return adjacency.normalize(dropped.unbind(1))


def dropped_matrices(matrix: SparseMatrix, rate: float, *, steps: int, noise: Noise | None) -> list[SparseMatrix]:
    """The same matrix for every step, fresh dropout of its entries in each; what is left is not normalised again."""
    if noise is None or rate == 0:
        return [matrix] * steps
    kept = noise.keep(steps, matrix.pattern.entries, rate=rate).to(matrix.values)  # (runs, steps, entries)
    return [replace(matrix, values=values) for values in (kept * matrix.values).unbind(1)]


def drop_edges(adjacency: Adjacency, kept: Tensor, *, factor: float) -> Tensor:
    """The weights that are left of the edges, of the shape of `kept`.

    `kept` (..., entries) is 0 for a dropped edge and `factor` for every other; a node's own entry gets the factor
    always. Being common to all entries, it cancels in the normalisation.
    """
    return torch.maximum(kept, adjacency.loops * factor) * adjacency.weights
