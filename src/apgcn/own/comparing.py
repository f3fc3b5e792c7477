"""How long does listening take, and how long when every node takes all steps? Timed in turns, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from apgcn.asking import Heard, Listeners, ask
from apgcn.devices import one_thread
from apgcn.kernels.listening import Halting
from apgcn.own.asker import Asker
from apgcn.work import Work


class Compared(NamedTuple):
    """What listening costs, and what it costs when every node takes all steps; seconds on one thread of a processor."""

    work: Work
    fixed: Work
    seconds: float
    fixed_seconds: float

    def __str__(self) -> str:
        own, every = 1000 * self.seconds, 1000 * self.fixed_seconds
        took = f"listening took {own:.1f} ms, all steps of all nodes {every:.1f} ms"
        small = "" if own < 1.1 * every else ": here keeping track costs more than it saves"
        return f"{self.work.beside(self.fixed)}; {took}{small}"


def compare(asker: Asker, *, rounds: int = 3) -> Compared:
    """Let all nodes listen as they want, and all steps, in turns, and look at the clock; the least time counts.

    Seeds are computed before, and both have been done once before the first look. All steps are taken by the fastest
    loop there is for a question: that of nodes which freeze, and which never halt.
    """
    every = np.arange(asker.heard.nodes)
    seconds, work = [0.0, 0.0], Work(0, 0, 0, 0)
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        for number in range(asker.initialisations):
            own = asker.listeners(number)
            own = own._replace(seeds=_always(asker.seeds(every, number)))
            never = own._replace(halting=Halting(own.halting.steps, epsilon=-np.inf, freeze=True))
            work = work + ask(asker.heard, own, every).work
            ask(asker.heard, never, every)
            times = [[_seconds(asker.heard, one, every) for one in (own, never)] for _ in range(rounds)]
            seconds = [so_far + min(took) for so_far, took in zip(seconds, zip(*times, strict=True), strict=True)]
    return Compared(work, asker.fixed, *seconds)


def _seconds(heard: Heard, listeners: Listeners, nodes: np.ndarray) -> float:
    started = time.perf_counter()
    ask(heard, listeners, nodes)
    return time.perf_counter() - started


def _always(seeds: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: seeds
