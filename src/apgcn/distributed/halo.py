"""What do ranks tell each other at a step? The rows of their nodes that others hear, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apgcn.distributed.communication import Communicator
from apgcn.distributed.graph_shard import Part
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.sparse import CSRStructure, SparseMatrix


@dataclass(frozen=True, eq=False)
class HaloExchange:
    """Who of a rank's nodes is heard by whom.

    Attributes
    ----------
    world : World
    sent : Tensor of shape (rows to send,)
        Own rows, those for rank 0 first, each in the order in which that rank has its ghosts.
    sizes_sent, sizes_received : list of int
        How many go to, and come from, each rank.
    """

    world: Communicator
    sent: Tensor
    sizes_sent: list[int]
    sizes_received: list[int]

    @classmethod
    def of(cls, part: Part, owner: np.ndarray, world: Communicator) -> HaloExchange:
        """Every rank tells the others whom it hears."""
        received = np.bincount(owner[part.ghosts], minlength=world.size).tolist()
        one_each = [1] * world.size
        sizes = world.all_to_all(torch.tensor(received, device=world.device), sent=one_each, received=one_each).tolist()
        wanted = world.all_to_all(torch.as_tensor(part.ghosts, device=world.device), sent=received, received=sizes)
        rows = np.searchsorted(part.own, wanted.cpu().numpy())
        return cls(world, torch.as_tensor(rows, device=world.device), sizes, received)

    def ghosts(self, rows: Tensor) -> Tensor:
        """The rows of others that are heard here, (runs, ghosts, channels), from own ones, (runs, rows, channels)."""
        return _Ghosts.apply(rows, self)

    def send(self, rows: Tensor) -> Tensor:
        """The same without gradient."""
        said = rows.index_select(1, self.sent).transpose(0, 1)  # rows first
        heard = self.world.all_to_all(said, sent=self.sizes_sent, received=self.sizes_received)
        return heard.transpose(0, 1)

    def anybody(self, here: bool) -> bool:
        """Whether something holds in any rank."""
        (count,) = self.world.sums(torch.tensor([float(here)], device=self.world.device))
        return bool(count > 0)

    def send_back(self, gradient: Tensor, rows: int) -> Tensor:
        """What ghosts are told goes home, and is added up there."""
        heard = self.world.all_to_all(gradient.transpose(0, 1), sent=self.sizes_received, received=self.sizes_sent)
        home = gradient.new_zeros(gradient.shape[0], rows, gradient.shape[2])
        return home.index_add_(1, self.sent, heard.transpose(0, 1).contiguous())


class _Ghosts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, exchange: HaloExchange) -> Tensor:
        ctx.exchange, ctx.rows = exchange, rows.shape[1]
        return exchange.send(rows)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return ctx.exchange.send_back(gradient, ctx.rows), None


@dataclass(frozen=True, eq=False)
class PartMatrix(SparseMatrix):
    """A sparse matrix of own rows, to be multiplied with own rows of a tensor."""

    exchange: HaloExchange | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Times (runs, own rows, channels): (runs, own rows, channels)."""
        assert self.exchange is not None
        return super().__matmul__(torch.cat([dense, self.exchange.ghosts(dense)], dim=1))


class PartAdjacency(Adjacency):
    """Who is heard by the nodes of one rank; see `Adjacency`."""

    def __init__(self, part: Part, exchange: HaloExchange, *, device: torch.device, dtype: torch.dtype = torch.float32):
        self.exchange = exchange
        self.structure = CSRStructure(part.heard, device=device)
        self.weights = torch.as_tensor(part.heard.data, device=device, dtype=dtype)
        self.loops = (self.structure.rows == self.structure.columns).to(dtype)

    def scaled(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[SparseMatrix]:
        """Rows and columns times a number of each node, of which those of ghosts are heard from others, all at once."""
        stacked = torch.stack([torch.atleast_2d(scale) for scale in scales], dim=-1)  # (runs, rows, matrices)
        theirs = self.exchange.send(stacked)
        matrices: list[SparseMatrix] = []
        for number, (values, scale) in enumerate(zip(weights, scales, strict=True)):
            ghosts = theirs[..., number].view(*scale.shape[:-1], -1)
            columns = torch.cat([scale, ghosts], dim=-1).index_select(-1, self.structure.columns)
            values = values * scale.index_select(-1, self.structure.rows) * columns
            matrices.append(PartMatrix(self.structure, values, exchange=self.exchange))
        return matrices
