"""Lazy propagation: only the node states that a prediction depends on are computed.

A node that is still propagating needs the states of its in-neighbours after the step before, and these need the states
of theirs. Each state is computed when a node that has not halted needs it, and only once. Where finding these states
would take longer than computing all, as in the first steps of a prediction for all nodes, all nodes take the step, in
one kernel; when few are active and many of them halt, the active ones take it alone. `PropagationCost` counts the
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from apgcn.ops.device_graph import adjacency_with_self_loops
from apgcn.ops.kernels.autograd import HaltingParameters


class PropagationCost(NamedTuple):
    """Number of operations of a propagation.

    Attributes
    ----------
    node_steps : int
        States z_j^k that were computed, k >= 1.
    messages : int
        Messages from an in-neighbour, self-loops not counted.
    multiply_adds : int
        Of the propagation: messages, self-loops and the halting unit.
    z0_nodes : int
        Nodes for which z^0 was computed.
    """

    node_steps: int
    messages: int
    multiply_adds: int
    z0_nodes: int

    @classmethod
    def from_counts(cls, node_steps: int, messages: int, *, channels: int, z0_nodes: int) -> PropagationCost:
        """The cost of so many states and messages of so many channels."""
        return cls(node_steps, messages, channels * (messages + 2 * node_steps), z0_nodes)

    @classmethod
    def all_steps(cls, *, nodes: int, edges: int, steps: int, channels: int) -> PropagationCost:
        """The cost when every node takes all steps; `edges` counts each direction."""
        return cls.from_counts(steps * nodes, steps * edges, channels=channels, z0_nodes=nodes)

    def relative_to(self, full: PropagationCost) -> str:
        """A sentence that compares it with the cost of all steps of all nodes."""
        comparisons = (
            f"{count:,} of {total:,} {name} ({_percent(count, total)})"
            for count, total, name in (
                (self.node_steps, full.node_steps, "node-steps"),
                (self.messages, full.messages, "messages"),
                (self.multiply_adds, full.multiply_adds, "multiply-adds"),
            )
        )
        return "computed " + ", ".join(comparisons)

    def __add__(self, other: PropagationCost) -> PropagationCost:  # type: ignore[override]
        return PropagationCost(*(first + second for first, second in zip(self, other, strict=True)))


def _percent(part: int, total: int) -> str:
    percent = 100 * part / max(1, total)
    return f"{percent:.1f} %" if percent >= 0.05 or not part else "under 0.1 %"


SIMD_WIDTH = 8  # floats per CPU instruction: channels are padded with zeros to a multiple of it
MAX_STEPS = 255  # limit of the recursion over steps
NODE_COST, Z0_COST = 4, 64  # a step of a node without in-neighbours, and z^0 of a node, in messages
FULL_STEP_RATIO = 1.5  # cost of testing whether a message is needed, in messages (eight channels, a million nodes)
STEP_OVERHEAD = 40_000  # cost of a step whose rows are chosen in Python, in messages


@dataclass(frozen=True, eq=False)
class LazyGraph:
    """Normalised adjacency A = S W S in CSR, with W the edge weights and 1 for each self-loop.

    Attributes
    ----------
    indptr : array of shape (nodes + 1,)
    indices, weights : arrays of shape (nnz,)
        Row i lists the in-neighbours of node i and i itself.
    deg_inv_sqrt : array of shape (nodes,)
        S = D^-1/2, D the row sums of W.

    It also keeps buffers of finished propagations, which the next ones reuse.
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    deg_inv_sqrt: np.ndarray
    _buffers: list[np.ndarray] = field(default_factory=list, repr=False)

    @classmethod
    def from_adjacency(cls, adjacency: sparse.csr_matrix) -> LazyGraph:
        """Build it from an adjacency matrix whose entry (i, j) is the edge from i to j."""
        matrix = adjacency_with_self_loops(adjacency)
        weights = matrix.data.astype(np.float32)
        dtype = "u4" if matrix.nnz < 2**31 else "u8"
        deg_inv_sqrt = (1 / np.sqrt(np.add.reduceat(weights, matrix.indptr[:-1]))).astype(np.float32)
        return cls(matrix.indptr.astype(dtype), matrix.indices.astype(dtype), weights, deg_inv_sqrt)

    @property
    def num_nodes(self) -> int:
        return len(self.deg_inv_sqrt)

    @property
    def num_edges(self) -> int:
        """Number of directed edges, self-loops not counted."""
        return len(self.indices) - self.num_nodes

    @cached_property
    def in_degrees(self) -> np.ndarray:
        """Number of in-neighbours of each node, itself not counted."""
        return np.diff(self.indptr.astype(np.int64)) - 1

    def take_buffer(self, width: int) -> np.ndarray:
        """An uninitialised array of shape (nodes, width); rows that are never written occupy no memory."""
        while self._buffers:
            with suppress(IndexError):  # another thread took the last one
                buffer = self._buffers.pop()
                if buffer.shape[1] == width:
                    return buffer
        return np.empty((self.num_nodes, width), np.float32)

    def release_buffers(self, buffers: Iterable[np.ndarray]) -> None:
        """Return buffers that are no longer used."""
        self._buffers.extend(buffers)


class LazyModel(NamedTuple):
    """Propagation of one trained network: z^k = adjacency_weight A z^(k-1) + z0_weight z^0, h = sigmoid(z Q + q).

    Attributes
    ----------
    z0 : function
        `z0(nodes)` computes z^0 of some nodes, (nodes, channels).
    halting_weight : array of shape (channels,)
        Q.
    halting_bias : float
        q.
    halting : HaltingParameters
    adjacency_weight, z0_weight : float
    """

    z0: Callable[[np.ndarray], np.ndarray]
    halting_weight: np.ndarray
    halting_bias: float
    halting: HaltingParameters
    adjacency_weight: float = 1.0
    z0_weight: float = 0.0

    def with_z0(self, z0: np.ndarray) -> LazyModel:
        """The same model when z^0 of all nodes, (nodes, channels), is known."""
        return self._replace(z0=lambda nodes: z0 if len(nodes) == len(z0) else z0[nodes])

    def without_halting(self) -> LazyModel:
        """The same model when every node takes all steps; with frozen states, for which the kernel is fastest."""
        return self._replace(halting=HaltingParameters(self.halting.max_steps, epsilon=-np.inf, freeze_halted=True))


class LazyOutput(NamedTuple):
    """Output of the requested nodes: output (nodes, channels), steps and remainder (nodes,), and the total cost."""

    output: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray
    cost: PropagationCost


def lazy_propagate(
    graph: LazyGraph,
    model: LazyModel,
    nodes: np.ndarray,
    *,
    full_step_ratio: float = FULL_STEP_RATIO,
    step_overhead: float = STEP_OVERHEAD,
) -> LazyOutput:
    """Propagate until the requested nodes have halted, at most `MAX_STEPS` steps.

    The result has the same bits whichever nodes are requested together, and with any number of threads.

    Parameters
    ----------
    graph : LazyGraph
    model : LazyModel
    nodes : array of shape (m,)
        Distinct nodes.
    full_step_ratio, step_overhead : float
        Estimated costs of testing whether a message is needed, and of choosing the rows of a step, relative to
        computing a message. Where these would cost more than the unneeded states of a step, the step is computed for
        all nodes. With 0 for both no unneeded state is computed.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # callers check for values that are not finite
        return _LazyPropagation(graph, model, full_step_ratio, step_overhead).run(np.asarray(nodes, dtype=np.int64))


class _LazyPropagation:
    """States of one propagation, and the last step that was computed of each node.

    States are stored as s_j z_j^k, scaled by `deg_inv_sqrt`, in which form in-neighbours are summed.
    """

    def __init__(self, graph: LazyGraph, model: LazyModel, full_step_ratio: float, step_overhead: float):
        from apgcn.ops.kernels.cpu import lazy

        self._kernels = lazy
        self._graph, self._model, self._full_step_ratio = graph, model, full_step_ratio
        self._min_saving = 2 * step_overhead  # of a step of the active nodes: the others may have to follow in another
        max_steps, num_nodes = model.halting.max_steps, graph.num_nodes
        self._channels = len(model.halting_weight)
        self._width = -(-self._channels // SIMD_WIDTH) * SIMD_WIDTH
        self._take_steps = lazy.steps_kernel(self._width, prefetch=lazy.exceeds_cache(num_nodes, self._width))
        self._halting_sum, self._remainder = np.zeros(num_nodes, np.float32), np.empty(num_nodes, np.float32)
        self._halting_steps = np.zeros(num_nodes, np.int16)  # K, 0 before a node has halted
        self._last_step = np.full(num_nodes, -1, np.int16)  # of which the state was computed
        self._output_sum = graph.take_buffer(self._width)
        self._states: dict[int, np.ndarray] = {}  # by step, as long as a node may need them
        self._num_computed = np.zeros(max_steps + 1, np.int64)  # nodes whose state after each step was computed
        self._missing_messages = np.full(max_steps + 1, graph.num_edges)  # messages of all other nodes
        self._counts = np.zeros((max_steps + 1, 4), np.int64)  # by step: see the kernel
        self._counts[0, 2:] = num_nodes, graph.num_edges
        self._visited, self._visit = np.zeros(num_nodes, np.int32), 0
        self._neighbours, self._count = np.empty(num_nodes, np.int64), np.empty(1, np.int64)
        self._halting_weight = np.zeros(self._width, np.float32)
        self._halting_weight[: self._channels] = model.halting_weight

    def run(self, nodes: np.ndarray) -> LazyOutput:
        """Propagate until these nodes have halted."""
        if len(nodes) == self._graph.num_nodes:
            self._run_all_nodes()
        else:
            self._run_nodes(nodes)
        output = np.empty((len(nodes), self._channels), np.float32)
        threads = self._kernels.choose_threads(len(nodes) * self._width)
        self._kernels.finalize_rows(
            threads, nodes, self._output_sum, self._graph.deg_inv_sqrt, self._halting_steps, output
        )
        self._graph.release_buffers([self._output_sum, *self._states.values()])
        node_steps, messages, *_ = self._counts.sum(axis=0).tolist()
        cost = PropagationCost.from_counts(
            node_steps, messages, channels=self._channels, z0_nodes=int(self._num_computed[0])
        )
        return LazyOutput(output, self._halting_steps[nodes].astype(np.int64), self._remainder[nodes], cost)

    def _run_all_nodes(self) -> None:
        """Steps of all nodes, which drop those that are frozen; steps of the active nodes alone where that pays."""
        num_nodes, max_steps = self._graph.num_nodes, self._model.halting.max_steps
        nodes = active = np.arange(num_nodes)
        self._compute_z0(nodes, self._states_after(0))
        step = 0
        while len(active):
            step = self._take_full_steps(nodes, step + 1)
            active = np.flatnonzero(self._halting_steps == 0)
            while len(active) and self._active_nodes_alone(step):
                step += 1
                self._compute_states(active, step)
                active = active[self._halting_steps[active] == 0]
            if len(active) and step < max_steps:
                self._compute_states(nodes, step)

    def _take_full_steps(self, nodes: np.ndarray, first_step: int) -> int:
        """Take steps of all nodes until none is active or the active ones alone pay; return the last step."""
        states, new_states = self._states_after(first_step - 1), self._graph.take_buffer(self._width)
        z0 = self._states.get(0, states)
        frozen = self._model.halting.freeze_halted
        if self._model.z0_weight and first_step == 1:
            states = states.copy()  # z^0 is not overwritten
        self._call_kernel(
            nodes, (first_step, self._model.halting.max_steps), states, z0, new_states, drop_halted=frozen,
            min_saving=np.inf if frozen else self._min_saving,
        )  # fmt: skip
        step = int(np.flatnonzero(self._counts[:, 0])[-1])
        last, other = (new_states, states) if (step - first_step) % 2 == 0 else (states, new_states)
        self._graph.release_buffers([other])
        self._states = {step: last} | ({0: z0} if self._model.z0_weight else {})
        self._num_computed[first_step : step + 1] = self._graph.num_nodes
        self._missing_messages[first_step : step + 1] = 0
        return step

    def _active_nodes_alone(self, step: int) -> bool:
        """Whether the next step should be taken by the active nodes alone."""
        before, messages = self._counts[step - 1 : step + 1, 3]
        return self._kernels.expected_saving(before, messages, self._graph.num_edges) >= self._min_saving

    def _run_nodes(self, nodes: np.ndarray) -> None:
        for step in range(1, self._model.halting.max_steps + 1):
            self._compute_states(nodes, step)
            nodes = nodes[self._halting_steps[nodes] == 0]
            if not len(nodes):
                break

    def _states_after(self, step: int) -> np.ndarray:
        if step not in self._states:
            self._states[step] = self._graph.take_buffer(self._width)
        return self._states[step]

    def _compute_states(self, nodes: np.ndarray, step: int) -> None:
        """Compute the states of these nodes after `step` where they were not computed before."""
        if self._num_computed[step] == self._graph.num_nodes:
            return
        nodes = nodes[self._last_step[nodes] < step]
        if not len(nodes):
            return
        if step == 0:
            self._compute_z0(nodes, self._states_after(0))
            return
        if self._model.halting.freeze_halted:
            self._compute_states(nodes, step - 1)
            halted = self._halting_steps[nodes] > 0
            self._copy_frozen(nodes[halted], step)
            nodes = nodes[~halted]
        self._compute_states(self._missing_in_neighbours(nodes, step - 1), step - 1)
        if len(nodes):
            states = self._states_after(step - 1)
            self._call_kernel(
                nodes, (step, step), states, self._states.get(0, states), self._states_after(step), drop_halted=False
            )
            self._count_computed(nodes, step)

    def _copy_frozen(self, nodes: np.ndarray, step: int) -> None:
        """Nodes that have halted keep their state of the step before."""
        self._states_after(step)[nodes] = self._states_after(step - 1)[nodes]
        self._last_step[nodes] = step
        self._count_computed(nodes, step)

    def _compute_z0(self, nodes: np.ndarray, states: np.ndarray) -> None:
        """Compute z^0."""
        if len(nodes) == self._graph.num_nodes:  # in their order, which is faster
            nodes = np.arange(len(nodes))
        z0 = np.asarray(self._model.z0(nodes), np.float32)
        threads = self._kernels.choose_threads(len(nodes) * self._width)
        self._kernels.initialize_rows(threads, nodes, z0, self._graph.deg_inv_sqrt, states, self._output_sum)
        self._last_step[nodes] = 0
        self._count_computed(nodes, 0)

    def _call_kernel(
        self,
        nodes: np.ndarray,
        steps: tuple[int, int],
        states: np.ndarray,
        z0: np.ndarray,
        new_states: np.ndarray,
        *,
        drop_halted: bool,
        min_saving: float = np.inf,
    ) -> None:
        """Take the first to the last of `steps` of these nodes, and add the states to their output."""
        graph, model = self._graph, self._model
        messages = (steps[1] - steps[0] + 1) * (self._num_messages(nodes) + len(nodes))
        self._take_steps(
            self._kernels.choose_threads(messages * (1 + self._width / 16)),
            *(graph.indptr, graph.indices, graph.weights, graph.deg_inv_sqrt),
            *(np.float32(model.adjacency_weight), np.float32(model.z0_weight)),
            *(self._halting_weight, np.float32(model.halting_bias)),
            *(model.halting.max_steps, np.float32(model.halting.budget)),
            *(*steps, float(min_saving), drop_halted),
            *(nodes, states, new_states, z0),
            *(self._halting_sum, self._halting_steps, self._remainder, self._output_sum, self._last_step),
            *(np.empty(len(nodes), np.int64), np.empty(max(1, len(nodes)), np.int64), np.empty(len(nodes), np.float32)),
            self._counts,
        )

    def _count_computed(self, nodes: np.ndarray, step: int) -> None:
        """Count the nodes whose state after `step` is now computed.

        When these are all whose state after the step before is computed, they have no other in-neighbours, and the
        states of earlier steps are never needed again: memory does not grow with the number of steps.
        """
        self._num_computed[step] += len(nodes)
        self._missing_messages[step] -= self._num_messages(nodes)
        if step and self._num_computed[step] == self._num_computed[step - 1]:
            earlier = [number for number in self._states if number < step and (number or not self._model.z0_weight)]
            self._graph.release_buffers([self._states.pop(number) for number in earlier])

    def _num_messages(self, nodes: np.ndarray) -> int:
        every_node = len(nodes) == self._graph.num_nodes
        return self._graph.num_edges if every_node else int(self._graph.in_degrees[nodes].sum())

    def _missing_in_neighbours(self, nodes: np.ndarray, step: int) -> np.ndarray:
        """In-neighbours of these nodes, and the nodes themselves, whose state after `step` was not computed."""
        if self._num_computed[step] == self._graph.num_nodes or not len(nodes):
            return nodes[:0]
        missing = nodes[self._last_step[nodes] < step]
        num_others = self._graph.num_nodes - self._num_computed[step] - len(missing)
        cost_per_node = NODE_COST if step else Z0_COST
        cost = self._missing_messages[step] - self._num_messages(missing) + cost_per_node * num_others
        if not num_others or self._full_step_ratio * self._num_messages(nodes) > cost:
            return np.flatnonzero(self._last_step < step)
        self._visit += 1
        csr = self._graph.indptr, self._graph.indices
        marks = self._last_step, self._visited, self._visit
        self._kernels.in_neighbors(*csr, nodes, step, *marks, self._neighbours, self._count)
        neighbours = self._neighbours[: self._count[0]]
        if len(neighbours) < self._graph.num_nodes / 32:
            return np.sort(neighbours)
        return np.flatnonzero(self._visited == self._visit)
