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

from apgcn._utils.validation import check_fraction, check_int
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.kernels.adaptive_propagation import PropagationMatrices
from apgcn.ops.rng import PackedMask, RandomStream, dropout_scale
from apgcn.ops.sparse import CSRStructure, SparseMatrix

Step = Callable[[int, Tensor], Tensor]

SAME = 0.99  # of every channel's mixture is that channel itself when an ARMA filter starts


class Operator(Protocol):
    """One kind of listening.

    Where a step is z^k = decay A_k z^(k-1) + home z^0, an operator may also have a method `matrices`, which gives all
    of it at once: then written-out loops can take over, see `kernels.listening`.
    """

    def begin(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
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
        check_fraction("edge_dropout", self.edge_dropout)

    def begin(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)
        return lambda k, z: matrices[k - 1] @ z

    def matrices(self, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> PropagationMatrices:
        return _normalized(adjacency, self.edge_dropout, steps=steps, rng=rng)


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
        check_fraction("teleport", self.teleport)
        check_fraction("edge_dropout", self.edge_dropout)

    def begin(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        if self.renormalize:
            matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)
        else:
            matrices = dropped_matrices(adjacency.normalized, self.edge_dropout, steps=steps, rng=rng)
        home = self.teleport * z0
        return lambda k, z: (1 - self.teleport) * (matrices[k - 1] @ z) + home

    def matrices(self, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> PropagationMatrices:
        if self.renormalize:
            all_steps = _normalized(adjacency, self.edge_dropout, steps=steps, rng=rng)
        else:
            whole = adjacency.normalized
            mask = _tossed(whole.structure, self.edge_dropout, steps=steps, rng=rng)
            given = {"keep_self_loops": False, "renormalize": False, "exchange": adjacency.exchange}
            all_steps = PropagationMatrices(whole.structure, whole.values, mask=mask, **given)
        return all_steps._replace(decay=1 - self.teleport, home=self.teleport)


@dataclass(frozen=True)
class Chebyshev:
    """z^k = T_k(L) z^0, the polynomials of the paper's equation 2.

        z^1 = L z^0,   z^k = 2 L z^(k-1) - z^(k-2)

    L = 2 (I - M) / 2 - I = -M is the Laplacian of the graph, its eigenvalues moved from [0, 2] to [-1, 1], with
    M = D^-1/2 A D^-1/2, no node hearing itself.
    """

    def begin(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrix = adjacency.normalized_without_self_loops
        before = [torch.zeros_like(z0)]  # z^(k-2), once k is 2 or more

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

    def __init__(self, *, channels: int, rng: RandomStream, teleport: float = 0.1, edge_dropout: float = 0.5):
        super().__init__()
        check_int("channels", channels)
        check_fraction("teleport", teleport)
        check_fraction("edge_dropout", edge_dropout)
        self.teleport, self.edge_dropout = teleport, edge_dropout
        start = math.log(max(1, channels - 1) * SAME / (1 - SAME))  # before the softmax
        same = start * torch.eye(channels, device=rng.device).repeat(rng.runs, 1, 1)
        self.w, self.v = nn.Parameter(same), nn.Parameter(same.clone())  # (runs, from channels, to channels)

    def begin(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrices = dropped_matrices(adjacency.normalized_without_self_loops, self.edge_dropout, steps=steps, rng=rng)
        w, v = (1 - self.teleport) * self.w.softmax(1), self.teleport * self.v.softmax(1)
        home = z0 @ v
        return lambda k, z: matrices[k - 1] @ (z @ w) + home

    def extra_repr(self) -> str:
        return f"channels={self.w.shape[-1]}, teleport={self.teleport}, edge_dropout={self.edge_dropout}"


# By name, each from the number of channels and a noise that says how many runs there are; most need neither.
OPERATORS: Mapping[str, Callable[[int, RandomStream], Any]] = {
    "NormalizedAdjacency": lambda channels, rng: NormalizedAdjacency(),
    "PageRank": lambda channels, rng: PageRank(),
    "PageRank of PPNP": lambda channels, rng: PageRank(renormalize=False),
    "Chebyshev": lambda channels, rng: Chebyshev(),
    "ARMA": lambda channels, rng: ARMA(channels=channels, rng=rng),
}


def _normalized(adjacency: Adjacency, rate: float, *, steps: int, rng: RandomStream | None) -> PropagationMatrices:
    """`step_matrices`, for written-out loops."""
    mask = _tossed(adjacency.structure, rate, steps=steps, rng=rng)
    given = {"keep_self_loops": True, "renormalize": True, "exchange": adjacency.exchange}
    return PropagationMatrices(adjacency.structure, adjacency.weights, mask=mask, **given)


def _tossed(structure: CSRStructure, rate: float, *, steps: int, rng: RandomStream | None) -> PackedMask | None:
    return None if rng is None or rate == 0 else rng.packed_dropout_mask(steps, structure.nnz, rate=rate)


def step_matrices(adjacency: Adjacency, rate: float, *, steps: int, rng: RandomStream | None) -> list[SparseMatrix]:
    """A_1, ..., A_steps: the normalised adjacency, fresh edge dropout in each."""
    if rng is None or rate == 0:
        return [adjacency.normalized] * steps
    kept = rng.dropout_mask(steps, adjacency.structure.nnz, rate=rate).to(adjacency.weights)
    dropped = drop_edges(adjacency, kept, factor=dropout_scale(rate))  # (runs, steps, entries)
    return adjacency.normalize(dropped.unbind(1))


def dropped_matrices(matrix: SparseMatrix, rate: float, *, steps: int, rng: RandomStream | None) -> list[SparseMatrix]:
    """The same matrix for every step, fresh dropout of its entries in each; what is left is not normalised again."""
    if rng is None or rate == 0:
        return [matrix] * steps
    kept = rng.dropout_mask(steps, matrix.structure.nnz, rate=rate).to(matrix.values)  # (runs, steps, entries)
    return [replace(matrix, values=values) for values in (kept * matrix.values).unbind(1)]


def drop_edges(adjacency: Adjacency, kept: Tensor, *, factor: float) -> Tensor:
    """The weights that are left of the edges, of the shape of `kept`.

    `kept` (..., entries) is 0 for a dropped edge and `factor` for every other; a node's own entry gets the factor
    always. Being common to all entries, it cancels in the normalisation.
    """
    return torch.maximum(kept, adjacency.loops * factor) * adjacency.weights
