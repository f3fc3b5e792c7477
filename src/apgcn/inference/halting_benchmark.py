"""How long does listening take, and how long when every node takes all steps? Timed in turns, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apgcn._utils.validation import check_number
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import SavedModel
from apgcn.inference.fit import fit
from apgcn.inference.lazy_predictor import LazyPredictor
from apgcn.inference.lazy_propagation import LazyGraph, LazyModel, PropagationCost, ask
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.devices import one_thread
from apgcn.ops.kernels.adaptive_propagation import Halting


class Compared(NamedTuple):
    """What listening costs, and what it costs when every node takes all steps; seconds on one thread of a processor."""

    work: PropagationCost
    fixed: PropagationCost
    seconds: float
    fixed_seconds: float

    def __str__(self) -> str:
        own, every = 1000 * self.seconds, 1000 * self.fixed_seconds
        took = f"listening took {own:.1f} ms, all steps of all nodes {every:.1f} ms"
        small = "" if own < 1.1 * every else ": here keeping track costs more than it saves"
        return f"{self.work.beside(self.fixed)}; {took}{small}"


def compare(asker: LazyPredictor, *, rounds: int = 3) -> Compared:
    """Let all nodes listen as they want, and all steps, in turns, and look at the clock; the least time counts.

    Seeds are computed before, and both have been done once before the first look. All steps are taken by the fastest
    loop there is for a question: that of nodes which freeze, and which never halt.
    """
    every = np.arange(asker.heard.nodes)
    seconds, work = [0.0, 0.0], PropagationCost(0, 0, 0, 0)
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        for number in range(asker.initialisations):
            own = asker.listeners(number)
            own = own._replace(z0=_always(asker.z0(every, number)))
            never = own._replace(halting=Halting(own.halting.steps, epsilon=-np.inf, freeze=True))
            work = work + ask(asker.heard, own, every).work
            ask(asker.heard, never, every)
            times = [[_seconds(asker.heard, one, every) for one in (own, never)] for _ in range(rounds)]
            seconds = [so_far + min(took) for so_far, took in zip(seconds, zip(*times, strict=True), strict=True)]
    return Compared(work, asker.fixed, *seconds)


def _seconds(heard: LazyGraph, listeners: LazyModel, nodes: np.ndarray) -> float:
    started = time.perf_counter()
    ask(heard, listeners, nodes)
    return time.perf_counter() - started


def _always(z0: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: z0


class Point(NamedTuple):
    """A model with one price of a step.

    `accuracy` is that of the test nodes, or, if there are none, of those that said when to stop; `messages` the share
    that was computed of those of all steps, None where nobody counted.
    """

    penalty: float
    accuracy: float
    steps: float
    messages: float | None


def curve(saved: SavedModel, penalties: Sequence[float], *, tell: Callable[[Point], None] | None = None) -> list[Point]:
    """Train the model anew with each penalty, as it was trained, and see how good it is and what it costs.

    `tell` is told each point when it is found.
    """
    fitted, points = saved.fitted, []
    if not isinstance(fitted.model, APGCNConfig):
        raise InvalidInput(f"only nodes that halt have a price of a step, but the model is {fitted.model.title}.")
    for penalty in penalties:
        check_number("penalty", penalty)
    for penalty in penalties:
        model = replace(fitted.model, penalty=penalty)
        other = fit(
            saved.graph,
            fitted.split,
            model,
            fitted.training,
            initialisations=fitted.initialisations,
            seed=fitted.split.seed,
        )
        said = other.predict(saved.graph)
        held = other.notes["test" if len(fitted.split.test) else "stopping"]
        share = said.work.messages / max(1, said.fixed.messages) if said.work and said.fixed else None
        points.append(Point(penalty, held["accuracy"], float(said.steps.mean()), share))
        if tell:
            tell(points[-1])
    return points
