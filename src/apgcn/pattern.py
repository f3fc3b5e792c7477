"""Where are the entries of a matrix, on a device?

All runs share one pattern. R copies of the matrix stand along the diagonal of one large one; R' < R copies are its
prefix. The pattern of the transposed matrix, which the backward pass needs, and where each value goes in it, are found
once.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

HEAVY = 64  # entries of a row, and a warp of a GPU has it for itself


class Csr(NamedTuple):
    """The entries of a matrix, row by row.

    Attributes
    ----------
    pointers : Tensor of shape (rows + 1,)
        Where each row begins in the list of columns.
    columns : Tensor of shape (entries,)
    schedule : Tensor of shape (rows,)
        The rows, those with most entries first.
    heavy : int
        How many of them have more than `HEAVY` entries.
    """

    pointers: Tensor
    columns: Tensor
    schedule: Tensor
    heavy: int


class Pattern:
    """Where the entries of a matrix are, on a device.

    Attributes
    ----------
    shape : (rows, columns)
    entries : int
        How many places hold a value.
    rows, columns : Tensor of shape (entries,)
        The place of every value, row by row.
    straight, turned : Csr
        The same, of the matrix and of the transposed one.
    order : Tensor of shape (entries,)
        The transposed matrix' values, as positions in ours.
    longest : int
        No row has as many entries.
    """

    def __init__(self, matrix: sparse.csr_matrix, *, device: torch.device | str = "cpu"):
        self.shape: tuple[int, int] = matrix.shape
        self.entries: int = matrix.nnz
        self.device = torch.device(device)
        numbered = sparse.csr_matrix(
            (np.arange(1, matrix.nnz + 1), matrix.indices, matrix.indptr), shape=matrix.shape
        )  # counted from 1, because 0 is no entry
        turned = numbered.T.tocsr()
        self.straight, self.turned = (_csr(one, device) for one in (matrix, turned))
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.rows, self.columns = (
            torch.as_tensor(np.array(one, np.int64), device=device) for one in (rows, matrix.indices)
        )
        self.order = torch.as_tensor(np.array(turned.data - 1, _size(matrix)), device=device)
        self.longest = int(np.diff(matrix.indptr).max(initial=0)) + 1
        self._blocks = _Blocks(self.straight, self.shape), _Blocks(self.turned, turned.shape)

    def matrix(self, values: Tensor, *, turned: bool = False) -> Tensor:
        """A CSR tensor of as many copies as there are sets of values (copies, entries); or that of the transposed."""
        if turned:
            values = values.index_select(-1, self.order)
        return self._blocks[turned].matrix(values)


def _csr(matrix: sparse.csr_matrix, device: torch.device | str) -> Csr:
    """In 32 bits where they suffice, which makes everything faster."""
    lengths = np.diff(matrix.indptr)
    arrays = (matrix.indptr, matrix.indices, np.argsort(-lengths, kind="stable"))
    pointers, columns, schedule = (torch.as_tensor(np.array(one, _size(matrix)), device=device) for one in arrays)
    return Csr(pointers, columns, schedule, heavy=int((lengths > HEAVY).sum()))


def _size(matrix: sparse.csr_matrix) -> type[np.integer]:
    return np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64


class _Blocks:
    """Copies of one pattern along the diagonal of a large one, as many as were ever asked for."""

    def __init__(self, one: Csr, shape: tuple[int, int]):
        self.rows, self.width = shape
        self.entries = len(one.columns)
        self._one = one
        self._copies = 0

    def matrix(self, values: Tensor) -> Tensor:
        copies = len(values)
        if copies > self._copies:
            self._lay(copies)
        return torch.sparse_csr_tensor(
            self._pointers[: copies * self.rows + 1],
            self._columns[: copies * self.entries],
            values.reshape(-1),
            size=(copies * self.rows, copies * self.width),
            check_invariants=False,
        )

    def _lay(self, copies: int) -> None:
        _hear_the_warnings()
        pointers, columns = self._one[:2]
        number = torch.arange(copies, device=columns.device)[:, None]
        fits = max(copies * self.entries, copies * self.width) < 2**31
        dtype = torch.int32 if fits else torch.int64
        starts = (number * self.entries + pointers[:-1]).view(-1)
        end = starts.new_tensor([copies * self.entries])
        self._pointers = torch.cat([starts, end]).to(dtype)
        self._columns = (number * self.width + columns).view(-1).to(dtype)
        self._copies = copies


@cache
def _hear_the_warnings() -> None:
    """PyTorch says once per process that CSR tensors are young and unchecked; that is known here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1), check_invariants=False)
