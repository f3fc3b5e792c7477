"""How do rows that lie on several ranks multiply? Each hears its ghosts first; a model does not notice.

An `Adjacency` of the rows of one rank: its matrices have a column for every own node and one for every ghost, and a
product begins with an exchange of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from apgcn.distributed.exchange import Exchange
from apgcn.distributed.part import Part
from apgcn.pattern import Pattern
from apgcn.sparse import SparseMatrix
from apgcn.tensors import Adjacency


@dataclass(frozen=True, eq=False)
class PartMatrix(SparseMatrix):
    """A sparse matrix of own rows, to be multiplied with own rows of a tensor."""

    exchange: Exchange | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Times (runs, own rows, channels): (runs, own rows, channels)."""
        assert self.exchange is not None
        return super().__matmul__(torch.cat([dense, self.exchange.ghosts(dense)], dim=1))


class PartAdjacency(Adjacency):
    """Who is heard by the nodes of one rank; see `Adjacency`."""

    def __init__(self, part: Part, exchange: Exchange, *, device: torch.device, dtype: torch.dtype = torch.float32):
        self.exchange = exchange
        self.pattern = Pattern(part.heard, device=device)
        self.weights = torch.as_tensor(part.heard.data, device=device, dtype=dtype)
        self.loops = (self.pattern.rows == self.pattern.columns).to(dtype)

    def scaled(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[SparseMatrix]:
        """Rows and columns times a number of each node, of which those of ghosts are heard from others, all at once."""
        stacked = torch.stack([torch.atleast_2d(scale) for scale in scales], dim=-1)  # (runs, rows, matrices)
        theirs = self.exchange.send(stacked)
        matrices: list[SparseMatrix] = []
        for number, (values, scale) in enumerate(zip(weights, scales, strict=True)):
            ghosts = theirs[..., number].view(*scale.shape[:-1], -1)
            columns = torch.cat([scale, ghosts], dim=-1).index_select(-1, self.pattern.columns)
            values = values * scale.index_select(-1, self.pattern.rows) * columns
            matrices.append(PartMatrix(self.pattern, values, exchange=self.exchange))
        return matrices
