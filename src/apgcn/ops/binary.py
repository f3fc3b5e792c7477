"""Matrices as bits, for products on a GPU: features that are 0 or one value in each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

BITS = 32  # bits in a number
MAX_ENTRIES = 2**28  # positions of a matrix: the numbers of its entries then take a GB
BINARY_THRESHOLD = 0.2  # above this density a GPU multiplies a matrix of bits faster than a sparse one


class BinaryForm(NamedTuple):
    """A matrix whose stored values are equal within each row, as one bit per position.

    Features that tell whether a text has a term are such a matrix, also after each row was divided by its sum.

    Attributes
    ----------
    bits : int32 Tensor of shape (1, rows, numbers)
        Bit b of number w of a row tells whether the matrix has an entry in column 32 w + b.
    entries : int32 Tensor of shape (rows, numbers, 32)
        Which of the stored values is at each position, or -1.
    row_values : Tensor of shape (rows,)
    columns : int
    """

    bits: Tensor
    entries: Tensor
    row_values: Tensor
    columns: int

    @classmethod
    def from_matrix(cls, matrix: sparse.csr_matrix, *, device: torch.device | str) -> BinaryForm | None:
        """Convert a matrix; None if its rows have different values, or are so few or so many that
        the sparse form is better."""
        rows, columns = matrix.shape
        numbers = -(-columns // BITS)
        if matrix.nnz <= BINARY_THRESHOLD * rows * columns or rows * numbers * BITS > MAX_ENTRIES:
            return None
        lengths = np.diff(matrix.indptr)
        row_values = np.zeros(rows, matrix.data.dtype)
        row_values[lengths > 0] = matrix.data[matrix.indptr[:-1][lengths > 0]]
        if (matrix.data != np.repeat(row_values, lengths)).any():
            return None
        entries = np.full((rows, numbers * BITS), -1, np.int32)
        entries[np.repeat(np.arange(rows), lengths), matrix.indices] = np.arange(matrix.nnz)
        packed = np.packbits(entries >= 0, axis=1, bitorder="little").view("<i4")
        return cls(
            bits=torch.as_tensor(packed[None].astype(np.int32), device=device),
            entries=torch.as_tensor(entries.reshape(rows, numbers, BITS), device=device),
            row_values=torch.as_tensor(row_values, device=device, dtype=torch.float32),
            columns=columns,
        )
