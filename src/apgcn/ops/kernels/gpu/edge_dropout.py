"""Which edges are left at each step, and how large is the rest of the graph then? All steps of all runs at once.

The coins of an edge, one for each step, are gathered into words, so that each step reads them in the order in which
it reads the edges, forward and, after one sorting, backward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from apgcn.ops.kernels.adaptive_propagation import PropagationMatrices
from apgcn.ops.kernels.gpu.csr_blocks import Tossed, rows_at, tossed

BITS = 32  # steps in a word
BLOCK = 1024  # edges that a program gathers coins for
ROWS = 8  # nodes that a program sums up, if they have few edges


class Edges(NamedTuple):
    """What is left of the edges, and the scale D_k^-1/2 of every node.

    Attributes
    ----------
    words : int32 Tensor of shape (runs, words, entries), or None if nothing is dropped
        Bit k of an entry's words says whether it is left at step k.
    scale : Tensor of shape (1 or runs, 1 or steps, nodes)
    """

    words: Tensor | None
    scale: Tensor

    def transposed(self, matrices: PropagationMatrices) -> Edges:
        """The same of the transposed matrix."""
        if self.words is None:
            return self
        return self._replace(words=self.words.index_select(2, matrices.structure.order))

    def words_at(self, k: int) -> tuple[Tensor, int, int]:
        """Those of step k, how many words a run has, and the bit."""
        if self.words is None:
            return self.scale, 0, 0
        return self.words[:, k // BITS], self.words.stride(0), k % BITS

    def scale_at(self, k: int) -> Tensor:
        return self.scale[:, k % self.scale.shape[1]]

    @property
    def scale_per_run(self) -> int:
        return 0 if len(self.scale) == 1 else self.scale.stride(0)


def edges_of(matrices: PropagationMatrices, steps: int) -> Edges:
    """What the coins leave, and the scales where the matrices are to be normalised again."""
    structure, weights = matrices.structure, matrices.weights
    words, runs, tosses = None, 1, 1
    if matrices.mask is not None:
        mask = Tossed.of(matrices.mask, weights)
        runs, tosses = len(mask.words), steps
        words = torch.empty(runs, triton.cdiv(steps, BITS), structure.nnz, dtype=torch.int32, device=weights.device)
        _gather[triton.cdiv(structure.nnz, BLOCK), words.shape[1], runs](
            structure.rows, structure.columns, words, structure.nnz, steps,
            mask.words, mask.per_run, mask.dropped, KIND=mask.kind, LOOPS=matrices.keep_self_loops,
            BLOCK=BLOCK, BITS=BITS,
        )  # fmt: skip
    if not matrices.renormalize:
        return Edges(words, weights.new_ones(1, 1, structure.shape[0]))
    scale = weights.new_empty(runs, tosses, structure.shape[0])
    edges, at_once = Edges(words, scale), min(BITS, triton.next_power_of_2(tosses))
    rows = structure.straight
    for k in range(0, tosses, BITS):
        _scales[rows.heavy + triton.cdiv(structure.shape[0] - rows.heavy, ROWS), runs](
            rows.pointers, rows.schedule, rows.heavy, weights, *edges.words_at(k)[:2], scale[:, k:],
            structure.shape[0], tosses, min(tosses - k, BITS), matrices.factor,
            DROPS=words is not None, ROWS=ROWS, STEPS=at_once, num_warps=2,
        )  # fmt: skip
    return edges


@triton.jit
def _gather(
    rows, columns, words, nnz, steps, tossed_words, tossed_per_run, dropped,
    KIND: tl.constexpr, LOOPS: tl.constexpr, BLOCK: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(2)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = entry < nnz
    word = tl.zeros((BLOCK,), tl.int32)
    first = tl.program_id(1) * BITS
    place = first.to(tl.int64) * nnz + entry
    for k in range(first, min(first + BITS, steps)):
        kept = tossed(tossed_words, tossed_per_run, run, place, there, KIND, dropped)
        word |= kept.to(tl.int32) << (k - first)
        place += nnz
    if LOOPS:  # never dropped
        loop = tl.load(rows + entry, mask=there, other=0) == tl.load(columns + entry, mask=there, other=1)
        word = tl.where(loop, -1, word)
    into = words + (run.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * nnz
    tl.store(into + entry, word, mask=there)


@triton.jit(do_not_specialize=["heavy", "steps"])
def _scales(
    pointers, schedule, heavy, weights, words, words_per_run, scale, nodes, all_steps, steps, factor,
    DROPS: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    share, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    words += run * words_per_run
    scale += run * all_steps * nodes
    if share < heavy:
        _scales_of(
            share + tl.arange(0, 1), heavy, pointers, schedule, weights, words, scale, nodes, steps, factor,
            DROPS, 1, 64, STEPS,
        )  # fmt: skip
    else:
        _scales_of(
            heavy + (share - heavy) * ROWS + tl.arange(0, ROWS), nodes, pointers, schedule, weights, words, scale,
            nodes, steps, factor, DROPS, ROWS, 4, STEPS,
        )  # fmt: skip


@triton.jit
def _scales_of(
    number, end, pointers, schedule, weights, words, scale, nodes, steps, factor,
    DROPS: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The scales of the nodes at some places of the schedule, all steps at once."""
    node, first, last = rows_at(number, end, pointers, schedule)
    step = tl.arange(0, STEPS)
    total = tl.zeros((ROWS, ENTRIES, STEPS), tl.float32)
    for at in range(0, tl.max(last - first), ENTRIES):
        entry = first[:, None] + at + tl.arange(0, ENTRIES)[None, :]
        there = entry < last[:, None]
        weight = tl.load(weights + entry, mask=there, other=0.0)
        if DROPS:
            word = tl.load(words + entry, mask=there, other=0)
            total += tl.where(((word[:, :, None] >> step[None, None, :]) & 1) != 0, weight[:, :, None], 0.0)
        else:
            total += weight[:, :, None]
    both = (number < end)[:, None] & (step < steps)[None, :]
    found = tl.where(both, factor * tl.sum(total, axis=1), 1.0)
    tl.store(scale + step[None, :] * nodes + node[:, None], 1.0 / tl.sqrt(found), mask=both)
