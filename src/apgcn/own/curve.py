"""What does more listening buy? The same model trained with other prices of a step: accuracy against work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from apgcn.checks import check_number
from apgcn.errors import InvalidInput
from apgcn.models.apgcn import APGCNSettings
from apgcn.own.fitting import fit
from apgcn.own.saved import SavedModel


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
    if not isinstance(fitted.model, APGCNSettings):
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
