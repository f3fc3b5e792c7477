"""Accuracy and cost of adaptive propagation: for several penalties, and timed against all steps of all nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from apgcn._utils.validation import check_number
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle
from apgcn.inference.fit import fit
from apgcn.inference.lazy_predictor import LazyPredictor
from apgcn.inference.lazy_propagation import PropagationCost, lazy_propagate
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.threads import kernel_threads


class PropagationTiming(NamedTuple):
    """Cost and seconds of an adaptive propagation, and of one with all steps, on one CPU thread."""

    cost: PropagationCost
    full_cost: PropagationCost
    seconds: float
    full_seconds: float

    def __str__(self) -> str:
        seconds = f"{1000 * self.seconds:.1f} ms against {1000 * self.full_seconds:.1f} ms for all steps of all nodes"
        return f"{self.cost.relative_to(self.full_cost)}; the propagation took {seconds}"


def time_propagation(predictor: LazyPredictor, *, repeats: int = 3) -> PropagationTiming:
    """Time the propagation of all nodes against one with all steps; the smallest of `repeats` times counts.

    z^0 is computed beforehand. All steps are timed with the fastest lazy kernel: frozen states that never halt.
    """
    nodes = np.arange(predictor.lazy_graph.num_nodes)
    seconds, cost = [0.0, 0.0], PropagationCost(0, 0, 0, 0)
    with kernel_threads(1), np.errstate(over="ignore", invalid="ignore"):
        for number in range(predictor.ensemble_size):
            model = predictor.lazy_model(number).with_z0(predictor.z0(nodes, number))
            cost = cost + lazy_propagate(predictor.lazy_graph, model, nodes).cost
            times = time_in_turns(
                partial(lazy_propagate, predictor.lazy_graph, model, nodes),
                partial(lazy_propagate, predictor.lazy_graph, model.without_halting(), nodes),
                repeats=repeats,
            )
            seconds = [total + times_of_model.min() for total, times_of_model in zip(seconds, times, strict=True)]
    return PropagationTiming(cost, predictor.full_cost, *(float(total) for total in seconds))


def time_in_turns(*functions: Callable[[], object], repeats: int) -> np.ndarray:
    """Seconds of functions that are called in turns, (functions, repeats); a first turn as warm-up is not timed.

    Each turn has a random order, because a function is faster after another one that leaves its data in the caches.
    """
    times, random = np.empty((len(functions), repeats + 1)), np.random.default_rng(0)
    for turn in range(repeats + 1):
        for number in random.permutation(len(functions)):
            start = time.perf_counter()
            functions[number]()
            times[number, turn] = time.perf_counter() - start
    return times[:, 1:]


class PenaltyPoint(NamedTuple):
    """Accuracy and cost of a model that was trained with one penalty.

    Attributes
    ----------
    penalty : float
    accuracy : float
        On stopping nodes.
    steps : float
        The mean K.
    messages : float or None
        Computed messages as a fraction of those of all steps; None where they were not counted.
    """

    penalty: float
    accuracy: float
    steps: float
    messages: float | None


def penalty_curve(
    bundle: ModelBundle, penalties: Sequence[float], *, callback: Callable[[PenaltyPoint], None] | None = None
) -> list[PenaltyPoint]:
    """Train the model of a bundle again with each penalty, on the same split, and measure accuracy and cost.

    The accuracy is that of the stopping nodes: a penalty that is chosen here would otherwise be chosen on test nodes.
    `callback` is called with each point.
    """
    model, graph, points = bundle.model, bundle.graph, []
    if not isinstance(model.config, APGCNConfig):
        raise InvalidInput(f"a model must have a halting unit to have a penalty, but it is {model.config.title}.")
    for penalty in penalties:
        check_number("penalty", penalty)
    for penalty in penalties:
        config = replace(model.config, penalty=penalty)
        retrained = fit(
            graph, model.split, config, model.training, ensemble_size=model.ensemble_size, seed=model.split.seed
        )
        predictions = retrained.predict(graph, minimize="operations")
        messages = None
        if predictions.cost and predictions.full_cost:
            messages = predictions.cost.messages / max(1, predictions.full_cost.messages)
        accuracy = retrained.metrics["stopping"]["accuracy"]
        points.append(PenaltyPoint(penalty, accuracy, float(predictions.steps.mean()), messages))
        if callback:
            callback(points[-1])
    return points
