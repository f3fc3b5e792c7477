"""Halo exchange: before each propagation step every rank sends the rows that are halo nodes of others, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apgcn.distributed.communication import Communicator
from apgcn.distributed.graph_shard import GraphShard
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.sparse import CSRStructure, SparseMatrix


@dataclass(frozen=True, eq=False)
class HaloExchange:
    """The rows that a rank sends to and receives from each other rank.

    Attributes
    ----------
    comm : Communicator
    send_rows : Tensor of shape (rows to send,)
        Own rows, those for rank 0 first, each in the order of that rank's halo nodes.
    send_sizes, receive_sizes : list of int
        Number of rows to and from each rank.
    """

    comm: Communicator
    send_rows: Tensor
    send_sizes: list[int]
    receive_sizes: list[int]

    @classmethod
    def create(cls, shard: GraphShard, partition: np.ndarray, comm: Communicator) -> HaloExchange:
        """Send the indices of the halo nodes to the ranks that own them."""
        receive_sizes = np.bincount(partition[shard.halo_nodes], minlength=comm.size).tolist()
        one_each = [1] * comm.size
        counts = torch.tensor(receive_sizes, device=comm.device)
        send_sizes = comm.all_to_all(counts, send_sizes=one_each, receive_sizes=one_each).tolist()
        requested = comm.all_to_all(
            torch.as_tensor(shard.halo_nodes, device=comm.device), send_sizes=receive_sizes, receive_sizes=send_sizes
        )
        rows = np.searchsorted(shard.nodes, requested.cpu().numpy())
        return cls(comm, torch.as_tensor(rows, device=comm.device), send_sizes, receive_sizes)

    def halo_rows(self, rows: Tensor) -> Tensor:
        """Rows of the halo nodes, (runs, halo nodes, channels), from own rows, (runs, rows, channels)."""
        return _HaloRows.apply(rows, self)

    def exchange_rows(self, rows: Tensor) -> Tensor:
        """The same as `halo_rows`, without gradient."""
        to_send = rows.index_select(1, self.send_rows).transpose(0, 1)  # (rows, runs, channels)
        received = self.comm.all_to_all(to_send, send_sizes=self.send_sizes, receive_sizes=self.receive_sizes)
        return received.transpose(0, 1)

    def exchange_gradients(self, gradient: Tensor, num_rows: int) -> Tensor:
        """Backward pass of `halo_rows`: gradients of halo nodes are sent to their ranks and summed there."""
        received = self.comm.all_to_all(
            gradient.transpose(0, 1), send_sizes=self.receive_sizes, receive_sizes=self.send_sizes
        )
        own_gradient = gradient.new_zeros(gradient.shape[0], num_rows, gradient.shape[2])
        return own_gradient.index_add_(1, self.send_rows, received.transpose(0, 1).contiguous())

    def any_rank(self, condition: bool) -> bool:
        """Whether a condition holds on any rank."""
        (count,) = self.comm.all_reduce(torch.tensor([float(condition)], device=self.comm.device))
        return bool(count > 0)


class _HaloRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, halo: HaloExchange) -> Tensor:
        ctx.halo, ctx.num_rows = halo, rows.shape[1]
        return halo.exchange_rows(rows)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return ctx.halo.exchange_gradients(gradient, ctx.num_rows), None


@dataclass(frozen=True, eq=False)
class ShardedMatrix(SparseMatrix):
    """The rows of a sparse matrix that belong to one rank."""

    halo: HaloExchange | None = None

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Product with own rows, (runs, rows, channels), and those of the halo nodes: (runs, rows, channels)."""
        assert self.halo is not None
        return super().__matmul__(torch.cat([dense, self.halo.halo_rows(dense)], dim=1))


class ShardedAdjacency(Adjacency):
    """The rows of the adjacency matrix with self-loops that belong to one rank; see `Adjacency`."""

    def __init__(
        self, shard: GraphShard, halo: HaloExchange, *, device: torch.device, dtype: torch.dtype = torch.float32
    ):
        self.halo = halo
        self.structure = CSRStructure(shard.adjacency, device=device)
        self.weights = torch.as_tensor(shard.adjacency.data, device=device, dtype=dtype)
        self.self_loops = (self.structure.row == self.structure.col).to(dtype)

    def scale_symmetric(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[SparseMatrix]:
        """S W S for several sets of edge weights; one exchange fetches the scales of the halo nodes for all of them."""
        stacked = torch.stack([torch.atleast_2d(scale) for scale in scales], dim=-1)  # (runs, rows, matrices)
        halo_scales = self.halo.exchange_rows(stacked)
        matrices: list[SparseMatrix] = []
        for number, (values, scale) in enumerate(zip(weights, scales, strict=True)):
            halo_scale = halo_scales[..., number].view(*scale.shape[:-1], -1)
            col_scale = torch.cat([scale, halo_scale], dim=-1).index_select(-1, self.structure.col)
            values = values * scale.index_select(-1, self.structure.row) * col_scale
            matrices.append(ShardedMatrix(self.structure, values, halo=self.halo))
        return matrices
