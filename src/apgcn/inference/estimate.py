"""A rough estimate of the time that a fit takes, before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apgcn._utils.formatting import format_duration
from apgcn.data.graph import Graph
from apgcn.inference.known_labels import NUM_FOLDS, CorrectAndSmooth
from apgcn.inference.selection import AUTO, FitOptions
from apgcn.models.base import num_edges_with_self_loops
from apgcn.ops.devices import resolve_device
from apgcn.ops.threads import resolve_threads
from apgcn.training.batching import CPU_SECONDS_PER_FLOAT, estimate_training

LONG_FIT = 60  # seconds; a longer one is announced
# Solutions of label propagation: one for each fold of the stopping set, one for validation and test set each. A
# candidate of "auto" needs the last two.
SOLUTIONS, SOLUTIONS_OF_CANDIDATE = NUM_FOLDS + 2, 2


class Estimate(NamedTuple):
    """Expected seconds of one model: of an epoch, and in all."""

    title: str
    epoch_seconds: float
    seconds: float


def estimate_fit(graph: Graph, options: FitOptions) -> list[Estimate]:
    """The expected times of all models of the options, in the order in which they are trained."""
    device, threads = resolve_device(str(options.device)), resolve_threads(options.threads)
    estimates = []
    for name in options.models:
        model, training = options.configs(name)
        epoch, total = estimate_training(
            graph, model, training, runs=options.ensemble_size, device=device, threads=threads
        )
        steps = 0 if model.has_weights else model.max_steps
        smooths = options.model == AUTO and options.correct_and_smooth is not False
        if model.has_weights and (smooths or (options.correct_and_smooth and name == options.model)):
            steps = 2 * CorrectAndSmooth().steps
        solutions = SOLUTIONS_OF_CANDIDATE if smooths and model.has_weights else SOLUTIONS
        messages = solutions * steps * num_edges_with_self_loops(graph) * graph.num_classes
        seconds = total + messages * CPU_SECONDS_PER_FLOAT / threads
        estimates.append(Estimate(options.title(name), epoch, seconds))
    return estimates


def describe_long_fit(estimates: Sequence[Estimate], *, time_limit: float | None, option: str) -> str | None:
    """A sentence if a fit is expected to take longer than a minute; `option` names the time limit to the user.

    >>> describe_long_fit([Estimate("AP-GCN", 0.3, 150.0)], time_limit=None, option="time_limit")[:47]
    'this takes about 2 min 30 s by a rough estimate'
    """
    total = sum(each.seconds for each in estimates)
    if total < LONG_FIT:
        return None
    models = ", ".join(
        f"{each.title} {format_duration(each.seconds)}"
        + (f" ({each.epoch_seconds:.2f} s per epoch)" if each.epoch_seconds else "")
        for each in estimates
    )
    if time_limit is not None and time_limit < total:
        return f"this would take about {format_duration(total)} by a rough estimate, and {option} ends it: {models}."
    return f"this takes about {format_duration(total)} by a rough estimate: {models}; {option} ends it earlier."
