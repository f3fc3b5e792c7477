"""Receptive fields: which nodes can influence the output of some nodes, and after how many steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.sparse import CSRStructure


class ReceptiveField(NamedTuple):
    """The hop distance of every node to the nearest of the requested nodes.

    A requested node that takes T steps depends on the state of a node after step k if its distance is at most T - k.

    Attributes
    ----------
    distance : int32 Tensor of shape (1 or runs, nodes)
        Number of edges of the shortest path from a node to a requested node; larger than `hops` where there is none.
    slots : int32 Tensor of shape (1 or runs, nodes)
        The position of a node among the requested nodes, -1 for other nodes.
    """

    distance: Tensor
    slots: Tensor


def cached_receptive_field(structure: CSRStructure, nodes: Tensor | None, *, hops: int) -> ReceptiveField:
    """`receptive_field`, computed once for each tensor `nodes`; of all nodes where it is None."""
    cache = structure.receptive_fields if nodes is None else structure.receptive_fields_of.setdefault(nodes, {})
    if hops not in cache:
        cache[hops] = _all_nodes(structure) if nodes is None else receptive_field(structure, nodes, hops=hops)
    return cache[hops]


def _all_nodes(structure: CSRStructure) -> ReceptiveField:
    """The receptive field of all nodes."""
    slots = torch.arange(structure.shape[0], dtype=torch.int32)[None]
    return ReceptiveField(torch.zeros_like(slots), slots)


def receptive_field(structure: CSRStructure, nodes: Tensor, *, hops: int) -> ReceptiveField:
    """The receptive field of nodes (runs, m), on the CPU; row i of the structure lists the in-neighbours of node i."""
    indptr, indices = (array.cpu().numpy() for array in (structure.csr.indptr, structure.csr.indices))
    fields = [_one_run(indptr.astype(np.int64), indices, requested, hops) for requested in nodes.cpu().numpy()]
    return ReceptiveField(*(torch.as_tensor(np.stack(arrays)) for arrays in zip(*fields, strict=True)))


def _one_run(
    indptr: np.ndarray, indices: np.ndarray, requested: np.ndarray, hops: int
) -> tuple[np.ndarray, np.ndarray]:
    distance = np.full(len(indptr) - 1, hops + 1, dtype=np.int32)
    distance[requested] = 0
    slots = np.full(len(distance), -1, dtype=np.int32)
    slots[requested] = np.arange(len(requested))
    frontier = requested
    for hop in range(1, hops + 1):
        neighbours = np.unique(_columns(indptr, indices, frontier))
        frontier = neighbours[distance[neighbours] > hop]
        if not len(frontier):
            break
        distance[frontier] = hop
    return distance, slots


def _columns(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The column indices of some rows."""
    lengths = indptr[rows + 1] - indptr[rows]
    starts = np.repeat(indptr[rows] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return indices[starts + np.arange(lengths.sum())]
