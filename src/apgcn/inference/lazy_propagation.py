"""What did an answer cost? Counted, and beside what all steps of all nodes cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from apgcn.ops.device_graph import adjacency_with_self_loops
from apgcn.ops.kernels.adaptive_propagation import Halting


class PropagationCost(NamedTuple):
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
    z0: int

    @classmethod
    def of(cls, node_steps: int, messages: int, *, channels: int, z0: int) -> PropagationCost:
        return cls(node_steps, messages, channels * (messages + 2 * node_steps), z0)

    @classmethod
    def fixed(cls, *, nodes: int, edges: int, steps: int, channels: int) -> PropagationCost:
        """When every node takes all steps; `edges` counts each direction."""
        return cls.of(steps * nodes, steps * edges, channels=channels, z0=nodes)

    def beside(self, fixed: PropagationCost) -> str:
        """What it cost beside what all steps of all nodes cost, in words."""
        parts = (
            f"{cost:,} of {whole:,} {what} ({_percent(cost, whole)})"
            for cost, whole, what in (
                (self.node_steps, fixed.node_steps, "node-steps"),
                (self.messages, fixed.messages, "messages"),
                (self.multiply_adds, fixed.multiply_adds, "multiply-adds"),
            )
        )
        return "computed " + ", ".join(parts)

    def __add__(self, other: PropagationCost) -> PropagationCost:  # type: ignore[override]
        return PropagationCost(*(one + more for one, more in zip(self, other, strict=True)))


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / max(1, whole)
    return f"{percent:.1f} %" if percent >= 0.05 or not part else "under 0.1 %"


LANES = 8  # floats that a processor handles at once: channels are filled up with zeros
MAX_STEPS = 255  # that a question may go down: each is a call within a call
NODE, SEED = 4, 64  # messages cost about as much as a step of a node that hears nobody, and as z^0
GENEROUS = 1.5  # messages cost about as much as to look whether one is needed (eight channels, a million nodes)


@dataclass(frozen=True, eq=False)
class LazyGraph:
    """Who hears whom, ready to be asked: A = S W S, with W the weights of the edges and 1 for a node's own voice.

    Attributes
    ----------
    pointers : array of shape (nodes + 1,)
    columns, weights : arrays of shape (entries,)
    scale : array of shape (nodes,)
        S = D^-1/2, D the row sums of W.

    It lends memory to questions, and keeps what they give back for the next.
    """

    pointers: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    scale: np.ndarray
    _rooms: list[np.ndarray] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, adjacency: sparse.csr_matrix) -> LazyGraph:
        """From an adjacency whose entry (i, j) is the edge from i to j."""
        heard = adjacency_with_self_loops(adjacency)
        weights = heard.data.astype(np.float32)
        size = "u4" if heard.nnz < 2**31 else "u8"
        scale = (1 / np.sqrt(np.add.reduceat(weights, heard.indptr[:-1]))).astype(np.float32)
        return cls(heard.indptr.astype(size), heard.indices.astype(size), weights, scale)

    @property
    def nodes(self) -> int:
        return len(self.scale)

    def room(self, width: int) -> np.ndarray:
        """Memory for a row of each node, with whatever is in it; what nobody writes to is not taken."""
        while self._rooms:
            with suppress(IndexError):  # another thread took it
                there = self._rooms.pop()
                if there.shape[1] == width:
                    return there
        return np.empty((self.nodes, width), np.float32)

    def give_back(self, rooms: Iterable[np.ndarray]) -> None:
        """Memory that is not needed any more."""
        self._rooms.extend(rooms)

    @property
    def edges(self) -> int:
        """In one direction each, nobody's own voice among them."""
        return len(self.columns) - self.nodes

    @cached_property
    def degrees(self) -> np.ndarray:
        """How many others each node hears."""
        return np.diff(self.pointers.astype(np.int64)) - 1


class LazyModel(NamedTuple):
    """How the nodes of one network listen: z^k = decay A z^(k-1) + home z^0, h = sigmoid(z Q + q).

    `z0(rows)` gives z^0 of some nodes, (rows, channels).
    """

    z0: Callable[[np.ndarray], np.ndarray]
    unit: np.ndarray
    bias: float
    halting: Halting
    decay: float = 1.0
    home: float = 0.0


class LazyOutput(NamedTuple):
    """For every node that asked: output (asked, channels), steps and remainder (asked,), and what all of it cost."""

    output: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    work: PropagationCost


def ask(heard: LazyGraph, listeners: LazyModel, nodes: np.ndarray, *, generous: float = GENEROUS) -> LazyOutput:
    """Let some nodes, each named once, listen until they halt; at most `MAX_STEPS` steps.

    Where what others lack of a step costs less than `generous` times the messages of those who need some of it, all of
    it is computed, and nobody looks who needs what; with 0 nothing is computed that nobody needs.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is the caller's business
        return _Asking(heard, listeners, generous).answers(np.asarray(nodes, dtype=np.int64))


class _Asking:
    """States z_j^k, scaled as j says them, and how far each node is."""

    def __init__(self, heard: LazyGraph, listeners: LazyModel, generous: float):
        from apgcn.ops.kernels.cpu import lazy

        self._loops = lazy
        self._heard, self._listeners, self._generous = heard, listeners, generous
        halting, nodes = listeners.halting, heard.nodes
        self._channels = len(listeners.unit)
        self._width = -(-self._channels // LANES) * LANES
        self._step, self._weigh = lazy.step_of(self._width, large=lazy.is_large(nodes, self._width))
        self._filled, self._remainder = np.zeros(nodes, np.float32), np.empty(nodes, np.float32)
        self._taken, self._reached = np.zeros(nodes, np.int16), np.full(nodes, -1, np.int16)
        self._sums = heard.room(self._width)
        self._levels: dict[int, np.ndarray] = {}  # states after so many steps, as long as somebody may need them
        self._at = np.zeros(halting.steps + 1, np.int64)  # how many nodes have reached each level
        self._missing = np.full(halting.steps + 1, heard.edges)  # the messages of those who have not
        self._stamps, self._stamp = np.zeros(nodes, np.int32), 0
        self._found, self._count = np.empty(nodes, np.int64), np.empty(1, np.int64)
        self._messages, self._node_steps = np.zeros(1, np.int64), 0
        unit = np.zeros(self._width, np.float32)
        unit[: self._channels] = listeners.unit
        self._unit = unit

    def answers(self, asked: np.ndarray) -> LazyOutput:
        """Let these listen until they halt."""
        if self._listeners.halting.freeze and len(asked) == self._heard.nodes:
            self._together()
        else:
            self._one_by_one(asked)
        output = np.empty((len(asked), self._channels), np.float32)
        self._loops.finish(asked, self._sums, self._heard.scale, self._taken, output)
        self._heard.give_back([self._sums])
        work = PropagationCost.of(
            self._node_steps, int(self._messages[0]), channels=self._channels, z0=int(self._at[0])
        )
        return LazyOutput(output, self._taken[asked].astype(np.int64), self._remainder[asked], work)

    def _together(self) -> None:
        """All nodes, frozen: whoever listens hears what everybody says now, and memory for one step is enough."""
        rows = np.arange(self._heard.nodes)
        said, after = (self._heard.room(self._width) for _ in range(2))
        self._begin(rows, said)
        start = said.copy() if self._listeners.home else said
        for level in range(1, self._listeners.halting.steps + 1):
            self._take(rows, level, said, start, after, together=True)
            rows = rows[: self._count[0]]
            if not len(rows):
                break
        self._heard.give_back([said, after])

    def _one_by_one(self, asked: np.ndarray) -> None:
        listening = asked
        for k in range(1, self._listeners.halting.steps + 1):
            self._bring(listening, k)
            listening = listening[self._taken[listening] == 0]
            if not len(listening):
                break
        self._heard.give_back(self._levels.values())

    def _level(self, number: int) -> np.ndarray:
        if number not in self._levels:
            self._levels[number] = self._heard.room(self._width)
        return self._levels[number]

    def _bring(self, rows: np.ndarray, level: int) -> None:
        """See to it that the states of these nodes after step `level` are there."""
        if self._at[level] == self._heard.nodes:
            return
        rows = rows[self._reached[rows] < level]
        if not len(rows):
            return
        if level == 0:
            self._begin(rows, self._level(0))
            return
        if self._listeners.halting.freeze:
            self._bring(rows, level - 1)
            halted = self._taken[rows] > 0
            self._hold(rows[halted], level)
            rows = rows[~halted]
        self._bring(self._neighbours(rows, level - 1), level - 1)
        if len(rows):
            before = self._level(level - 1)
            self._take(rows, level, before, self._levels.get(0, before), self._level(level))
            self._arrive(rows, level)

    def _hold(self, rows: np.ndarray, level: int) -> None:
        """Those who have halted say at this level, too, what they said at the one before."""
        self._level(level)[rows] = self._level(level - 1)[rows]
        self._reached[rows] = level
        self._arrive(rows, level)

    def _begin(self, rows: np.ndarray, into: np.ndarray) -> None:
        """Seeds, as they are said."""
        if len(rows) == self._heard.nodes:  # in their order, which is faster
            rows = np.arange(len(rows))
        z0 = np.asarray(self._listeners.z0(rows), np.float32)
        self._loops.begin(rows, z0, self._heard.scale, into, self._sums)
        self._reached[rows] = 0
        self._arrive(rows, 0)

    def _take(
        self,
        rows: np.ndarray,
        level: int,
        said: np.ndarray,
        start: np.ndarray,
        after: np.ndarray,
        *,
        together: bool = False,
    ) -> None:
        """One step of these rows."""
        heard, given = self._heard, self._listeners
        csr = heard.pointers, heard.columns, heard.weights, heard.scale
        factors = np.float32(given.decay), np.float32(given.home)
        answers = np.empty(len(rows), np.float32)
        self._step(*csr, *factors, rows, said, start, after, self._unit, answers, self._messages)
        h = 1 / (1 + np.exp(-(answers + np.float32(given.bias))))
        limits = given.halting.steps, np.float32(given.halting.budget)
        so_far = self._filled, self._taken, self._remainder, self._sums, self._reached
        self._weigh(rows, h, level, *limits, said, after, together, *so_far, self._count)
        self._node_steps += len(rows)

    def _arrive(self, rows: np.ndarray, level: int) -> None:
        """Count who is there.

        When those are who are at the level before, they hear nobody else, and nobody will ever ask for the levels
        below: memory does not grow with the steps.
        """
        self._at[level] += len(rows)
        self._missing[level] -= self._messages_of(rows)
        if level and self._at[level] == self._at[level - 1]:
            below = [number for number in self._levels if number < level and (number or not self._listeners.home)]
            self._heard.give_back([self._levels.pop(number) for number in below])

    def _messages_of(self, rows: np.ndarray) -> int:
        return self._heard.edges if len(rows) == self._heard.nodes else int(self._heard.degrees[rows].sum())

    def _neighbours(self, rows: np.ndarray, level: int) -> np.ndarray:
        """Whom these hear, themselves among them, and who has not reached the level."""
        if self._at[level] == self._heard.nodes or not len(rows):
            return rows[:0]
        own = rows[self._reached[rows] < level]
        others = self._heard.nodes - self._at[level] - len(own)
        cost = self._missing[level] - self._messages_of(own) + (NODE if level else SEED) * others
        if not others or self._generous * self._messages_of(rows) > cost:
            return np.flatnonzero(self._reached < level)
        self._stamp += 1
        csr = self._heard.pointers, self._heard.columns
        self._loops.heard_by(*csr, rows, level, self._reached, self._stamps, self._stamp, self._found, self._count)
        found = self._found[: self._count[0]]
        return np.sort(found) if len(found) < self._heard.nodes / 32 else np.flatnonzero(self._stamps == self._stamp)
