"""How is a network trained, whichever network it is?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from apgcn._utils.validation import check_number, check_whole
from apgcn.data.registry import describe
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.base import ModelSettings
from apgcn.models.presets import settings_given
from apgcn.models.registry import settings_of

Watch = Literal["stopping", "training", "regularised"]
StopOn = Literal["either", "tie", "loss"]


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation and early stopping; the defaults are the paper's.

    `watch` is the loss that resets patience and breaks ties between equal stopping accuracies: the cross-entropy of the
    stopping set (the paper's text); the whole objective on the training set, dropout off (the authors' script); or the
    cross-entropy of the stopping set and the l2 term (the program of the PPNP paper).

    `stop_on` says what resets patience: a better accuracy or a better loss than ever (the paper's text); one that is as
    good as the best (the program of the PPNP paper); or a better loss alone, and then the epoch of the lowest is the
    best (V.GCN). In the first two the best epoch is the most accurate.
    """

    learning_rate: float = 0.01
    l2: float = 0.008
    patience: int = 100
    max_epochs: int = 10_000
    watch: Watch = "stopping"
    stop_on: StopOn = "either"

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        for name in ("patience", "max_epochs"):
            check_whole(name, getattr(self, name))
        for name, words in (("watch", get_args(Watch)), ("stop_on", get_args(StopOn))):
            if getattr(self, name) not in words:
                raise InvalidInput(f"{name} must be one of {', '.join(words)}, got {getattr(self, name)!r}.")


def paper_settings(
    dataset: str, *, model: str = "apgcn", kind: str | None = None, **changes: Any
) -> tuple[Any, TrainingSettings]:
    """The settings behind the paper's tables for a graph of the catalogue, with changes by name.

    Those are what the authors ran (for AP-GCN on Amazon, their script), or what was published with the numbers that
    they copied. With a kind, "published", "paper" or "tuned", the settings of that kind; see `apgcn models`.

    Examples
    --------
    >>> model, training = paper_settings("amazon_photo", max_steps=5)
    >>> model.penalty, model.max_steps, training.watch
    (0.05, 5, 'training')
    """
    known = [field.name for one in (settings_of(model), TrainingSettings) for field in fields(one)]
    given = settings_given(settings_of(model), describe(dataset).name, kind)
    for name in (*given, *changes):
        if name not in known:
            raise UnknownName(f"setting of {model}", name, known)
    return divide_settings(model, {**{name: sourced.value for name, sourced in given.items()}, **changes})


def divide_settings(model: str, values: Mapping[str, Any]) -> tuple[ModelSettings, TrainingSettings]:
    """Settings by name as those of a model and those of its training; what is not named has its default."""
    of_model = settings_of(model)
    return of_model(**_of(of_model, values)), TrainingSettings(**_of(TrainingSettings, values))


def _of(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are settings of this class."""
    return {field.name: values[field.name] for field in fields(settings) if field.name in values}
