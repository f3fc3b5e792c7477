"""How does a GPU multiply a sparse matrix, all runs at once?"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.kernels.gpu.csr_blocks import Shares, Tossed, rows_at, tossed
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure


def spmm(
    structure: CSRStructure,
    values: Tensor,
    mask: PackedMask | None,
    dense: Tensor,
    *,
    transposed: bool,
    bias: Tensor | None = None,
    hidden_mask: PackedMask | None = None,
) -> Tensor:
    """The product, or that with the transposed matrix; with a bias, its ReLU after dropout by `hidden_mask`.

    Shapes
    ------
    values : (1 or runs, entries)
    dense : (runs, columns, channels); rows instead of columns for the transposed
    bias : (runs, 1, channels)
    """
    dense = dense.contiguous()
    runs, _, channels = dense.shape
    rows = structure.shape[1 if transposed else 0]
    output = dense.new_empty(runs, rows, channels)
    if transposed:
        values = values.index_select(1, structure.order)
    features, hidden = Tossed.of(mask, values), Tossed.of(hidden_mask, values)
    csr = structure.transposed if transposed else structure.straight
    shares = Shares.of(csr, channels)
    _spmm[shares.programs, runs, triton.cdiv(channels, shares.sizes["CHANNELS"])](
        csr.pointers, csr.columns, csr.schedule, structure.order, shares.heavy,
        values.contiguous(), 0 if len(values) == 1 else structure.nnz,
        dense, dense.shape[1], dense if bias is None else bias.contiguous(), output, rows, channels,
        features.words, features.per_run, features.dropped, features.factor,
        hidden.words, hidden.per_run, hidden.dropped, hidden.factor,
        TRANSPOSED=transposed, KIND=features.kind, HIDDEN=bias is not None, HIDDEN_KIND=hidden.kind,
        num_warps=1, **shares.sizes,
    )  # fmt: skip
    return output


@triton.jit
def _entries_at(
    entry,
    last,
    columns,
    values,
    order,
    words,
    words_per_run,
    run,
    dropped,
    TRANSPOSED: tl.constexpr,
    KIND: tl.constexpr,
):
    """The columns of some entries, their values, and which of them are left.

    The values stand in the order of the entries; what the coins are tossed for stands, TURNED, in another.
    """
    left = entry < last
    column = tl.load(columns + entry, mask=left, other=0)
    value = tl.load(values + entry, mask=left, other=0.0)
    if KIND != 0:
        place = tl.load(order + entry, mask=left, other=0) if TRANSPOSED else entry
        left = left & tossed(words, words_per_run, run, place, left, KIND, dropped)
    return column, value, left


@triton.jit(do_not_specialize=["heavy"])
def _spmm(
    pointers, columns, schedule, order, heavy,
    values, values_per_run, dense, dense_rows, bias, output, rows, channels,
    words, words_per_run, dropped, factor,
    hidden_words, hidden_words_per_run, hidden_dropped, hidden_factor,
    TRANSPOSED: tl.constexpr, KIND: tl.constexpr, HIDDEN: tl.constexpr, HIDDEN_KIND: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    share, run = tl.program_id(0), tl.program_id(1)
    values += run.to(tl.int64) * values_per_run
    dense += run.to(tl.int64) * dense_rows * channels
    bias += run * channels
    output += run.to(tl.int64) * rows * channels
    if share < heavy:
        _multiply_rows(
            share + tl.arange(0, 1), heavy, run, pointers, columns, schedule, order, values, dense, bias, output,
            channels, words, words_per_run, dropped, factor,
            hidden_words, hidden_words_per_run, hidden_dropped, hidden_factor,
            TRANSPOSED, KIND, HIDDEN, HIDDEN_KIND, 1, ENTRIES if ROWS == 1 else 32, CHANNELS,
        )  # fmt: skip
    elif ROWS > 1:
        _multiply_rows(
            heavy + (share - heavy) * ROWS + tl.arange(0, ROWS), rows, run, pointers, columns, schedule, order,
            values, dense, bias, output, channels, words, words_per_run, dropped, factor,
            hidden_words, hidden_words_per_run, hidden_dropped, hidden_factor,
            TRANSPOSED, KIND, HIDDEN, HIDDEN_KIND, ROWS, ENTRIES, CHANNELS,
        )  # fmt: skip


@triton.jit
def _multiply_rows(
    number, end, run, pointers, columns, schedule, order, values, dense, bias, output, channels,
    words, words_per_run, dropped, factor,
    hidden_words, hidden_words_per_run, hidden_dropped, hidden_factor,
    TRANSPOSED: tl.constexpr, KIND: tl.constexpr, HIDDEN: tl.constexpr, HIDDEN_KIND: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The rows at some places of the schedule."""
    row, first, last = rows_at(number, end, pointers, schedule)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    wide = channel < channels
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    entry = first[:, None] + tl.arange(0, ENTRIES)[None, :]
    column, value, left = _entries_at(
        entry, last[:, None], columns, values, order, words, words_per_run, run, dropped, TRANSPOSED, KIND
    )
    for _ in range(0, tl.max(last - first), ENTRIES):
        entry += ENTRIES
        place = column[:, :, None] * channels + channel[None, None, :]
        known, kept = value, left
        column, value, left = _entries_at(
            entry, last[:, None], columns, values, order, words, words_per_run, run, dropped, TRANSPOSED, KIND
        )
        said = tl.load(dense + place, mask=kept[:, :, None] & wide[None, None, :], other=0.0)
        total += tl.sum(known[:, :, None] * said, axis=1)
    total *= factor
    there = (number < end)[:, None] & wide[None, :]
    place = row[:, None] * channels + channel[None, :]
    if HIDDEN:
        total += tl.load(bias + channel, mask=wide, other=0.0)[None, :]
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
        if HIDDEN_KIND != 0:
            kept = tossed(hidden_words, hidden_words_per_run, run, place, there, HIDDEN_KIND, hidden_dropped)
            total = tl.where(kept, total * hidden_factor, 0.0)
    tl.store(output + place, total, mask=there)
