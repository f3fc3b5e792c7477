"""Operators: what one propagation step computes.

Once per forward pass, `Operator.prepare` receives the initial prediction z^0 and the number of steps, and returns a
function `step(k, z)` that computes z^k from z^(k-1). Edge dropout masks of all steps apply to the unchanged graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.ops.dense import matmul
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.kernels.autograd import PropagationMatrices
from apgcn.ops.rng import PackedMask, RandomStream, dropout_scale
from apgcn.ops.sparse import CSRStructure, SparseMatrix

Step = Callable[[int, Tensor], Tensor]

INITIAL_DIAGONAL = 0.99  # diagonal of the initial mixing weights of an ARMA filter, which start near I


class Operator(Protocol):
    """Protocol of the operators.

    Where a step is z^k = adjacency_weight A_k z^(k-1) + z0_weight z^0, an operator may also have a method `matrices`,
    which describes all steps at once, `PropagationMatrices`: then fused kernels are used, see
    `ops.kernels.autograd`.
    """

    def prepare(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        """The step function for `steps` steps from the initial prediction z^0 of shape (runs, nodes, channels)."""
        ...


@dataclass(frozen=True)
class NormalizedAdjacency:
    """z^k = A_k z^(k-1), the step of AP-GCN and of a GCN layer.

    A_k = D^-1/2 (A + I) D^-1/2 of the graph after dropping each directed edge with probability `edge_dropout`: a new
    mask at every step, and D the row sums of the remaining edges. Self-loops are never dropped. In evaluation (without
    `rng`) no edge is dropped.
    """

    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        check_fraction("edge_dropout", self.edge_dropout)

    def prepare(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)
        return lambda k, z: matrices[k - 1] @ z

    def matrices(self, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> PropagationMatrices:
        return _normalized_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)


@dataclass(frozen=True)
class PageRank:
    """z^k = (1 - teleport) A_k z^(k-1) + teleport z^0, the step of APPNP.

    A_k is as in `NormalizedAdjacency`; or, with `renormalize=False`, dropout is applied to the entries of the
    normalised matrix of the full graph, as in the PPNP paper.
    """

    teleport: float = 0.1
    edge_dropout: float = 0.5
    renormalize: bool = True

    def __post_init__(self) -> None:
        check_fraction("teleport", self.teleport)
        check_fraction("edge_dropout", self.edge_dropout)

    def prepare(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        if self.renormalize:
            matrices = step_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)
        else:
            matrices = matrices_with_dropout(adjacency.normalized, self.edge_dropout, steps=steps, rng=rng)
        teleported = self.teleport * z0
        return lambda k, z: (1 - self.teleport) * (matrices[k - 1] @ z) + teleported

    def matrices(self, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> PropagationMatrices:
        if self.renormalize:
            matrices = _normalized_matrices(adjacency, self.edge_dropout, steps=steps, rng=rng)
        else:
            normalized = adjacency.normalized
            matrices = PropagationMatrices(
                normalized.structure,
                normalized.values,
                keep_self_loops=False,
                mask=_edge_mask(normalized.structure, self.edge_dropout, steps=steps, rng=rng),
                renormalize=False,
                halo=adjacency.halo,
            )
        return matrices._replace(adjacency_weight=1 - self.teleport, z0_weight=self.teleport)


@dataclass(frozen=True)
class Chebyshev:
    """z^k = T_k(L) z^0, the polynomials of the paper's equation 2.

        z^1 = L z^0,   z^k = 2 L z^(k-1) - z^(k-2)

    L = 2 (I - M) / 2 - I = -M is the Laplacian of the graph, its eigenvalues shifted from [0, 2] to [-1, 1], with
    M = D^-1/2 A D^-1/2, without self-loops.
    """

    def prepare(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrix = adjacency.normalized_without_self_loops
        previous = [torch.zeros_like(z0)]  # z^(k-2), from k = 2 on

        def step(k: int, z: Tensor) -> Tensor:
            z_before, previous[0] = previous[0], z
            return -(matrix @ z) if k == 1 else -2 * (matrix @ z) - z_before

        return step


class ARMA(nn.Module):
    """z^k = (1 - teleport) M z^(k-1) W + teleport z^0 V, the step of an ARMA filter (Bianchi et al., 2019).

    M = D^-1/2 A D^-1/2, without self-loops: a node's own features enter through z^0. W and V are learned, under a
    constraint that an ARMA filter does not have: their columns are softmaxes of the parameters, so that every output
    channel is a convex combination of input channels. The recursion then converges for any number of steps; with
    unconstrained W and V ten steps train poorly (docs/baselines.md). Initially both are nearly I, which is PageRank
    without self-loops. Edge dropout is applied to the entries of M.

    Parameters
    ----------
    channels : int
        Channels of z^0.
    rng : RandomStream
        Determines the number of runs; nothing is drawn.
    """

    def __init__(self, *, channels: int, rng: RandomStream, teleport: float = 0.1, edge_dropout: float = 0.5):
        super().__init__()
        check_int("channels", channels)
        check_fraction("teleport", teleport)
        check_fraction("edge_dropout", edge_dropout)
        self.teleport, self.edge_dropout = teleport, edge_dropout
        logit = math.log(max(1, channels - 1) * INITIAL_DIAGONAL / (1 - INITIAL_DIAGONAL))  # before the softmax
        initial = logit * torch.eye(channels, device=rng.device).repeat(rng.runs, 1, 1)
        self.w, self.v = nn.Parameter(initial), nn.Parameter(initial.clone())  # (runs, in channels, out channels)

    def prepare(self, z0: Tensor, adjacency: Adjacency, *, steps: int, rng: RandomStream | None) -> Step:
        matrices = matrices_with_dropout(
            adjacency.normalized_without_self_loops, self.edge_dropout, steps=steps, rng=rng
        )
        w, v = (1 - self.teleport) * self.w.softmax(1), self.teleport * self.v.softmax(1)
        teleported = matmul(z0, v)
        return lambda k, z: matrices[k - 1] @ matmul(z, w) + teleported

    def extra_repr(self) -> str:
        return f"channels={self.w.shape[-1]}, teleport={self.teleport}, edge_dropout={self.edge_dropout}"


# By name, each built from the number of channels and a random stream, which most do not need.
OPERATORS: Mapping[str, Callable[[int, RandomStream], Any]] = {
    "NormalizedAdjacency": lambda channels, rng: NormalizedAdjacency(),
    "PageRank": lambda channels, rng: PageRank(),
    "PageRank of PPNP": lambda channels, rng: PageRank(renormalize=False),
    "Chebyshev": lambda channels, rng: Chebyshev(),
    "ARMA": lambda channels, rng: ARMA(channels=channels, rng=rng),
}


def _normalized_matrices(
    adjacency: Adjacency, rate: float, *, steps: int, rng: RandomStream | None
) -> PropagationMatrices:
    """`step_matrices`, as the fused kernels take them."""
    return PropagationMatrices(
        adjacency.structure,
        adjacency.weights,
        keep_self_loops=True,
        mask=_edge_mask(adjacency.structure, rate, steps=steps, rng=rng),
        renormalize=True,
        unit_weights=adjacency.unit_weights,
        halo=adjacency.halo,
    )


def _edge_mask(structure: CSRStructure, rate: float, *, steps: int, rng: RandomStream | None) -> PackedMask | None:
    return None if rng is None or rate == 0 else rng.packed_dropout_mask(steps, structure.nnz, rate=rate)


def step_matrices(adjacency: Adjacency, rate: float, *, steps: int, rng: RandomStream | None) -> list[SparseMatrix]:
    """A_1, ..., A_steps: the normalised adjacency matrix with edge dropout, a new mask in each."""
    if rng is None or rate == 0:
        return [adjacency.normalized] * steps
    mask = rng.dropout_mask(steps, adjacency.structure.nnz, rate=rate).to(adjacency.weights)
    dropped = drop_edges(adjacency, mask, factor=dropout_scale(rate))  # (runs, steps, nnz)
    return adjacency.normalize(dropped.unbind(1))


def matrices_with_dropout(
    matrix: SparseMatrix, rate: float, *, steps: int, rng: RandomStream | None
) -> list[SparseMatrix]:
    """The same matrix for each of `steps` steps after dropout of its entries, a new mask each; not normalised again."""
    if rng is None or rate == 0:
        return [matrix] * steps
    mask = rng.dropout_mask(steps, matrix.structure.nnz, rate=rate).to(matrix.values)  # (runs, steps, nnz)
    return [replace(matrix, values=values) for values in (mask * matrix.values).unbind(1)]


def drop_edges(adjacency: Adjacency, mask: Tensor, *, factor: float) -> Tensor:
    """The edge weights after edge dropout, of the shape of `mask`.

    `mask` (..., nnz) is 0 for a dropped edge and `factor` for every other; a self-loop always gets `factor`, which is
    common to all entries and cancels in the normalisation.
    """
    return torch.maximum(mask, adjacency.self_loops * factor) * adjacency.weights
