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


class Csr(NamedTuple):
    """Where each row begins in the list of columns, the list, and the rows, those with most entries first."""

    pointers: Tensor
    columns: Tensor
    schedule: Tensor


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
        self.rows, self.columns, self.order = (
            torch.as_tensor(np.asarray(numbers, np.int64), device=device)
            for numbers in (rows, matrix.indices, turned.data - 1)
        )
        self.longest = int(np.diff(matrix.indptr).max(initial=0)) + 1
        self._blocks = _Blocks(self.straight, self.shape), _Blocks(self.turned, turned.shape)

    def matrix(self, values: Tensor, *, turned: bool = False) -> Tensor:
        """A CSR tensor of as many copies as there are sets of values (copies, entries); or that of the transposed."""
        if turned:
            values = values.index_select(-1, self.order)
        return self._blocks[turned].matrix(values)


def _csr(matrix: sparse.csr_matrix, device: torch.device | str) -> Csr:
    """In 32 bits where they suffice: the libraries below are faster with them."""
    size = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    schedule = np.argsort(-np.diff(matrix.indptr), kind="stable")
    arrays = (matrix.indptr, matrix.indices, schedule)
    return Csr(*(torch.as_tensor(np.asarray(one, size), device=device) for one in arrays))


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
        pointers, columns, _ = self._one
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
