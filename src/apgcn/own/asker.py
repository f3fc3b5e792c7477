"""What does a trained model say about some nodes of a large graph? Loaded once, asked often, and only what is needed.

A node's features are looked at when somebody who listens can hear it; see `asking`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import softmax

from apgcn.asking import Answers, Heard, Listeners, Work, ask
from apgcn.devices import one_thread
from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.kernels.listening import Halting
from apgcn.loops import loops_on
from apgcn.models.apgcn import APGCNSettings
from apgcn.models.network import ModelSettings
from apgcn.own.predicted import Predicted


def can_be_asked(model: ModelSettings) -> bool:
    """Whether the nodes of a model halt, in steps that are written out, and numba is there."""
    return isinstance(model, APGCNSettings) and model.in_loops and loops_on(torch.device("cpu")) is not None


class Compared(NamedTuple):
    """What listening costs, and what it costs when every node takes all steps; seconds on one thread of a processor."""

    work: Work
    fixed: Work
    seconds: float
    fixed_seconds: float

    def __str__(self) -> str:
        own, every = 1000 * self.seconds, 1000 * self.fixed_seconds
        took = f"listening took {own:.1f} ms, all steps of all nodes {every:.1f} ms"
        small = "" if own < every else ": of a graph this small, keeping track costs more than it saves"
        return f"{self.work.beside(self.fixed)}; {took}{small}"


class Asker:
    """A model and a graph, ready to be asked about any of its nodes.

    Parameters
    ----------
    model : APGCNSettings
    weights : dict of arrays, the initialisations first
    temperature : float
    graph : Graph
    """

    def __init__(self, model: APGCNSettings, weights: dict[str, np.ndarray], temperature: float, graph: Graph):
        self._model, self._weights, self._temperature, self._graph = model, weights, temperature, graph
        self._heard = Heard.of(graph.adjacency)

    def ask(self, nodes: np.ndarray | None = None) -> Predicted:
        """What the model says about these nodes, or about all."""
        asked = np.arange(self._graph.num_nodes) if nodes is None else np.asarray(nodes, dtype=np.int64)
        if len(np.unique(asked)) < len(asked):
            raise InvalidInput("every node must be asked for once, but some are named twice.")
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told below
            answers = [ask(self._heard, self._listeners(number), asked) for number in range(self._initialisations)]
        return self._mean(answers)

    def compare(self, *, rounds: int = 3) -> Compared:
        """Let all nodes listen as they want and then all steps, and look at the clock; seeds are computed before."""
        every = np.arange(self._graph.num_nodes)
        seconds, work = [0.0, 0.0], Work(0, 0, 0, 0)
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            for number in range(self._initialisations):
                seeds = self._seeds(every, number)
                own = self._listeners(number)._replace(seeds=_always(seeds))
                never = own._replace(halting=Halting(self._model.max_steps, epsilon=-np.inf))
                work = work + ask(self._heard, own, every).work
                times = [[_seconds(self._heard, one, every) for one in (own, never)] for _ in range(rounds)]
                seconds = [so_far + min(took) for so_far, took in zip(seconds, zip(*times, strict=True), strict=True)]
        return Compared(work, self.fixed, *seconds)

    @property
    def fixed(self) -> Work:
        """What it costs when every node takes all steps, in all initialisations."""
        channels = self._weights["predict.second.weight"].shape[-1]
        one = Work.fixed(self._heard, steps=self._model.max_steps, channels=channels)
        return Work(*(self._initialisations * cost for cost in one))

    @property
    def _initialisations(self) -> int:
        return len(next(iter(self._weights.values())))

    def _listeners(self, number: int) -> Listeners:
        model = self._model
        decay, home = model.mixing
        return Listeners(
            seeds=lambda rows: self._seeds(rows, number),
            unit=self._weights["propagation.halting_unit.weight"][number, :, 0],
            bias=float(self._weights["propagation.halting_unit.bias"][number, 0, 0]),
            halting=Halting(model.max_steps, model.epsilon, model.freeze_halted),
            decay=decay,
            home=home,
        )

    def _seeds(self, rows: np.ndarray, number: int) -> np.ndarray:
        """z^0 of some nodes: ReLU(X W_1 + b_1) W_2 + b_2."""
        first, second = ((self._part(f"predict.{name}", number)) for name in ("first", "second"))
        x: Any = self._graph.features if len(rows) == self._graph.num_nodes else self._graph.features[rows]
        hidden = np.maximum(x @ first[0] + first[1], 0)
        return hidden @ second[0] + second[1]

    def _part(self, name: str, number: int) -> tuple[np.ndarray, np.ndarray]:
        return self._weights[f"{name}.weight"][number], self._weights[f"{name}.bias"][number, 0]

    def _mean(self, answers: list[Answers]) -> Predicted:
        work = answers[0].work
        for answer in answers[1:]:
            work = work + answer.work
        return Predicted.of(
            np.stack([softmax(answer.output / self._temperature, axis=-1) for answer in answers]),
            np.stack([answer.steps for answer in answers]),
            np.stack([answer.remainder for answer in answers]),
            work=work,
            fixed=self.fixed,
        )


def _seconds(heard: Heard, listeners: Listeners, nodes: np.ndarray) -> float:
    started = time.perf_counter()
    ask(heard, listeners, nodes)
    return time.perf_counter() - started


def _always(seeds: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: seeds
