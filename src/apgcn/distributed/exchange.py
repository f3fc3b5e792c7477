"""What do ranks tell each other at a step? The rows of their nodes that others hear, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apgcn.distributed.part import Part
from apgcn.distributed.world import World


@dataclass(frozen=True, eq=False)
class Exchange:
    """Who of a rank's nodes is heard by whom.

    Attributes
    ----------
    world : World
    sent : Tensor of shape (rows to send,)
        Own rows, those for rank 0 first, each in the order in which that rank has its ghosts.
    sizes_sent, sizes_received : list of int
        How many go to, and come from, each rank.
    """

    world: World
    sent: Tensor
    sizes_sent: list[int]
    sizes_received: list[int]

    @classmethod
    def of(cls, part: Part, owner: np.ndarray, world: World) -> Exchange:
        """Every rank tells the others whom it hears."""
        received = np.bincount(owner[part.ghosts], minlength=world.size).tolist()
        one_each = [1] * world.size
        sizes = world.swap(torch.tensor(received, device=world.device), sent=one_each, received=one_each).tolist()
        wanted = world.swap(torch.as_tensor(part.ghosts, device=world.device), sent=received, received=sizes)
        rows = np.searchsorted(part.own, wanted.cpu().numpy())
        return cls(world, torch.as_tensor(rows, device=world.device), sizes, received)

    def ghosts(self, rows: Tensor) -> Tensor:
        """The rows of others that are heard here, (runs, ghosts, channels), from own ones, (runs, rows, channels)."""
        return _Ghosts.apply(rows, self)

    def send(self, rows: Tensor) -> Tensor:
        """The same without gradient."""
        said = rows.index_select(1, self.sent).transpose(0, 1)  # rows first
        heard = self.world.swap(said, sent=self.sizes_sent, received=self.sizes_received)
        return heard.transpose(0, 1)

    def anybody(self, here: bool) -> bool:
        """Whether something holds in any rank."""
        (count,) = self.world.sums(torch.tensor([float(here)], device=self.world.device))
        return bool(count > 0)

    def send_back(self, gradient: Tensor, rows: int) -> Tensor:
        """What ghosts are told goes home, and is added up there."""
        heard = self.world.swap(gradient.transpose(0, 1), sent=self.sizes_received, received=self.sizes_sent)
        home = gradient.new_zeros(gradient.shape[0], rows, gradient.shape[2])
        return home.index_add_(1, self.sent, heard.transpose(0, 1).contiguous())


class _Ghosts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange, ctx.rows = exchange, rows.shape[1]
        return exchange.send(rows)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return ctx.exchange.send_back(gradient, ctx.rows), None
