"""How does a GPU multiply a sparse matrix, all runs at once?"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from apgcn.kernels.gpu.entries import Tossed, entries_left, parts_of, rows_of, tossed
from apgcn.noise import Coins
from apgcn.pattern import Pattern


def multiply(
    pattern: Pattern,
    values: Tensor,
    coins: Coins | None,
    dense: Tensor,
    *,
    turned: bool,
    bias: Tensor | None = None,
    hidden_coins: Coins | None = None,
) -> Tensor:
    """The product, or that with the transposed matrix; with a bias, its ReLU after dropout by `hidden_coins`.

    Shapes
    ------
    values : (1 or runs, entries)
    dense : (runs, columns, channels); rows instead of columns for the transposed
    bias : (runs, 1, channels)
    """
    dense = dense.contiguous()
    runs, _, channels = dense.shape
    rows = pattern.shape[1 if turned else 0]
    output = dense.new_empty(runs, rows, channels)
    if turned:
        values = values.index_select(1, pattern.order)
    features, hidden = Tossed.of(coins, values), Tossed.of(hidden_coins, values)
    for part in parts_of(pattern, channels, turned=turned):
        _multiply[part.programs, runs, triton.cdiv(channels, part.sizes["CHANNELS"])](
            *rows_of(pattern, turned=turned), part.first, part.last,
            values.contiguous(), 0 if len(values) == 1 else pattern.entries,
            dense, dense.shape[1], dense if bias is None else bias.contiguous(), output, rows, channels,
            features.words, features.per_run, features.dropped, features.factor,
            hidden.words, hidden.per_run, hidden.dropped, hidden.factor,
            TURNED=turned, KIND=features.kind, HIDDEN=bias is not None, HIDDEN_KIND=hidden.kind, **part.sizes,
        )  # fmt: skip
    return output


@triton.jit(do_not_specialize=["begin", "end"])
def _multiply(
    pointers, columns, schedule, order, begin, end,
    values, values_per_run, dense, dense_rows, bias, output, rows, channels,
    words, words_per_run, dropped, factor,
    hidden_words, hidden_words_per_run, hidden_dropped, hidden_factor,
    TURNED: tl.constexpr, KIND: tl.constexpr, HIDDEN: tl.constexpr, HIDDEN_KIND: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1)
    number = begin + tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(schedule + number, mask=number < end, other=0)
    first = tl.load(pointers + row, mask=number < end, other=0)
    last = tl.load(pointers + row + 1, mask=number < end, other=0)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    wide = channel < channels
    values += run.to(tl.int64) * values_per_run
    dense += run.to(tl.int64) * dense_rows * channels
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    for at in range(0, tl.max(last - first), ENTRIES):
        entry = first[:, None] + at + tl.arange(0, ENTRIES)[None, :]
        column, value, left = entries_left(
            row[:, None], entry, entry < last[:, None], columns, order, values, words, words_per_run, dropped, factor,
            run, 0, TURNED, KIND, False,
        )  # fmt: skip
        place = column[:, :, None] * channels + channel[None, None, :]
        said = tl.load(dense + place, mask=left[:, :, None] & wide[None, None, :], other=0.0)
        total += tl.sum(value[:, :, None] * said, axis=1)
    there = (number < end)[:, None] & wide[None, :]
    place = row[:, None] * channels + channel[None, :]
    if HIDDEN:
        total = tl.maximum(total + tl.load(bias + run * channels + channel, mask=wide, other=0.0)[None, :], 0.0)
        if HIDDEN_KIND != 0:
            kept = tossed(hidden_words, hidden_words_per_run, run, place, there, HIDDEN_KIND, hidden_dropped)
            total = tl.where(kept != 0, total * hidden_factor, 0.0)
    tl.store(output + run.to(tl.int64) * rows * channels + place, total, mask=there)
