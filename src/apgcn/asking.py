"""What must be computed so that some nodes get their answer? Only what they can still hear.

A node that asks listens step by step, until it halts. For step k it needs what its neighbours say after step k - 1, and
these, if nobody has needed it before, what theirs say after step k - 2. So every state z_j^k is computed when somebody
who listens needs it, and never otherwise; whoever is not reached is not touched, not even its features.

    bring(rows, k):  bring(rows, k - 1);  bring(neighbours of those who have not halted, k - 1);  step k of these rows

Without freezing "have not halted" is everybody: in the paper a halted node goes on changing for those who hear it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from apgcn.kernels.listening import Halting

LANES = 8  # floats that a processor handles at once: channels are filled up with zeros


class Work(NamedTuple):
    """What an answer cost.

    Attributes
    ----------
    node_steps : int
        How many states z_j^k were computed, k >= 1.
    messages : int
        How many times a node heard another one.
    multiply_adds : int
        Of listening: messages, a node's own voice, and the halting unit.
    seeds : int
        For how many nodes z^0 was computed.
    """

    node_steps: int
    messages: int
    multiply_adds: int
    seeds: int

    @classmethod
    def of(cls, node_steps: int, messages: int, *, channels: int, seeds: int) -> Work:
        return cls(node_steps, messages, channels * (messages + 2 * node_steps), seeds)

    @classmethod
    def fixed(cls, heard: Heard, *, steps: int, channels: int) -> Work:
        """When every node takes all steps."""
        return cls.of(steps * heard.nodes, steps * heard.edges, channels=channels, seeds=heard.nodes)

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Heard:
    """Who hears whom, ready to be asked: A = S W S, with W the weights of the edges and 1 for a node's own voice.

    Attributes
    ----------
    pointers : array of shape (nodes + 1,)
    columns, weights : arrays of shape (entries,)
    scale : array of shape (nodes,)
        S = D^-1/2, D the row sums of W.
    """

    pointers: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, adjacency: sparse.csr_matrix) -> Heard:
        """From an adjacency whose entry (i, j) is the edge from i to j."""
        heard = adjacency.T.tocsr()
        heard = (heard - sparse.diags(heard.diagonal()) + sparse.eye(heard.shape[0])).tocsr()
        heard.sort_indices()
        weights = heard.data.astype(np.float32)
        size = "u4" if heard.nnz < 2**31 else "u8"
        scale = (1 / np.sqrt(np.add.reduceat(weights, heard.indptr[:-1]))).astype(np.float32)
        return cls(heard.indptr.astype(size), heard.indices.astype(size), weights, scale)

    @property
    def nodes(self) -> int:
        return len(self.scale)

    @property
    def edges(self) -> int:
        """In one direction each, nobody's own voice among them."""
        return len(self.columns) - self.nodes

    def degrees(self, rows: np.ndarray) -> np.ndarray:
        """How many others each of these hears."""
        return self.pointers[rows + 1].astype(np.int64) - self.pointers[rows] - 1


class Listeners(NamedTuple):
    """How the nodes of one network listen: z^k = decay A z^(k-1) + home z^0, h = sigmoid(z Q + q).

    `seeds(rows)` gives z^0 of some nodes, (rows, channels).
    """

    seeds: Callable[[np.ndarray], np.ndarray]
    unit: np.ndarray
    bias: float
    halting: Halting
    decay: float = 1.0
    home: float = 0.0


class Answers(NamedTuple):
    """For every node that asked: output (asked, channels), steps and remainder (asked,), and what all of it cost."""

    output: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    work: Work


def ask(heard: Heard, listeners: Listeners, nodes: np.ndarray) -> Answers:
    """Let some nodes, each named once, listen until they halt."""
    return _Asking(heard, listeners).answers(np.asarray(nodes, dtype=np.int64))


class _Asking:
    """States z_j^k, scaled as j says them, and how far each node is."""

    def __init__(self, heard: Heard, listeners: Listeners):
        from apgcn.kernels.cpu import asking

        self._loops = asking
        self._heard, self._listeners = heard, listeners
        channels, nodes = len(listeners.unit), heard.nodes
        self._width = -(-channels // LANES) * LANES
        # memory that nobody writes to is not taken
        self._levels = np.empty((listeners.halting.steps + 1, nodes, self._width), np.float32)
        self._step = asking.step_of(self._width, large=asking.is_large(nodes, self._width))
        self._reached = np.full(nodes, -1, np.int16)
        self._taken, self._filled = np.zeros(nodes, np.int16), np.zeros(nodes, np.float32)
        self._at = np.zeros(listeners.halting.steps + 1, np.int64)  # how many nodes have reached each level
        self._stamps, self._stamp = np.zeros(nodes, np.int32), 0
        self._found, self._count = np.empty(nodes, np.int64), np.empty(1, np.int64)
        unit = np.zeros(self._width, np.float32)
        unit[:channels] = listeners.unit
        budget, bias = np.float32(listeners.halting.budget), np.float32(listeners.bias)
        self._halting = unit, bias, budget, self._filled, self._taken, self._reached
        self._node_steps = self._messages = 0

    def answers(self, asked: np.ndarray) -> Answers:
        steps, channels = self._listeners.halting.steps, len(self._listeners.unit)
        listening = asked
        for k in range(1, steps + 1):
            self._bring(listening, k)
            listening = listening[self._taken[listening] == 0]
            if not len(listening):
                break
        self._taken[listening] = steps
        output, remainder = np.empty((len(asked), channels), np.float32), np.empty(len(asked), np.float32)
        unit, bias, *_ = self._halting
        self._loops.weigh(asked, self._levels, self._heard.scale, unit, bias, self._taken, output, remainder)
        work = Work.of(self._node_steps, self._messages, channels=channels, seeds=int(self._at[0]))
        return Answers(output, self._taken[asked].astype(np.int64), remainder, work)

    def _bring(self, rows: np.ndarray, level: int) -> None:
        """See to it that the states of these nodes after step `level` are there."""
        if self._at[level] == self._heard.nodes:
            return
        rows = rows[self._reached[rows] < level]
        if not len(rows):
            return
        if level == 0:
            self._begin(rows)
            return
        self._bring(rows, level - 1)
        if self._listeners.halting.freeze:
            halted = self._taken[rows] > 0
            self._loops.hold(rows[halted], level, self._taken, self._reached, self._levels)
            self._at[level] += halted.sum()
            rows = rows[~halted]
        self._bring(self._neighbours(rows, level - 1), level - 1)
        heard, given = self._heard, self._listeners
        factors = np.float32(given.decay), np.float32(given.home)
        csr = heard.pointers, heard.columns, heard.weights, heard.scale
        self._step(
            *csr, *factors, rows, level, self._levels[level - 1], self._levels[0], self._levels[level], self._halting
        )
        self._at[level] += len(rows)
        self._node_steps += len(rows)
        self._messages += int(heard.degrees(rows).sum())

    def _begin(self, rows: np.ndarray) -> None:
        channels = len(self._listeners.unit)
        self._levels[0, rows, :channels] = self._heard.scale[rows, None] * self._listeners.seeds(rows)
        self._levels[0, rows, channels:] = 0
        self._reached[rows] = 0
        self._at[0] += len(rows)

    def _neighbours(self, rows: np.ndarray, level: int) -> np.ndarray:
        """Whom these hear and who has not reached the level."""
        if self._at[level] == self._heard.nodes or not len(rows):
            return rows[:0]
        self._stamp += 1
        self._loops.heard_by(
            self._heard.pointers, self._heard.columns, rows, level, self._reached, self._stamps, self._stamp,
            self._found, self._count,
        )  # fmt: skip
        return self._found[: self._count[0]].copy()
