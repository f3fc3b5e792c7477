"""How is a network trained, whichever network it is?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from apgcn._utils.validation import check_int, check_number
from apgcn.data.registry import describe
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.base import ModelConfig
from apgcn.models.presets import preset_values
from apgcn.models.registry import config_class

Monitor = Literal["stopping", "training", "regularised"]
EarlyStopMode = Literal["either", "tie", "loss"]


@dataclass(frozen=True)
class TrainingConfig:
    """Optimisation and early stopping; the defaults are the paper's.

    `monitor` is the loss that resets patience and breaks ties between equal stopping accuracies: the cross-entropy of the
    stopping set (the paper's text); the whole objective on the training set, dropout off (the authors' script); or the
    cross-entropy of the stopping set and the l2 term (the program of the PPNP paper).

    `early_stop_mode` says what resets patience: a better accuracy or a better loss than ever (the paper's text); one that is as
    good as the best (the program of the PPNP paper); or a better loss alone, and then the epoch of the lowest is the
    best (V.GCN). In the first two the best epoch is the most accurate.
    """

    learning_rate: float = 0.01
    l2: float = 0.008
    patience: int = 100
    max_epochs: int = 10_000
    monitor: Monitor = "stopping"
    early_stop_mode: EarlyStopMode = "either"

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        for name in ("patience", "max_epochs"):
            check_int(name, getattr(self, name))
        for name, words in (("monitor", get_args(Monitor)), ("early_stop_mode", get_args(EarlyStopMode))):
            if getattr(self, name) not in words:
                raise InvalidInput(f"{name} must be one of {', '.join(words)}, got {getattr(self, name)!r}.")


def preset_config(
    dataset: str, *, model: str = "apgcn", kind: str | None = None, **changes: Any
) -> tuple[Any, TrainingConfig]:
    """The settings behind the paper's tables for a graph of the catalogue, with changes by name.

    Those are what the authors ran (for AP-GCN on Amazon, their script), or what was published with the numbers that
    they copied. With a kind, "published", "paper" or "tuned", the settings of that kind; see `apgcn models`.

    Examples
    --------
    >>> model, training = preset_config("amazon_photo", max_steps=5)
    >>> model.penalty, model.max_steps, training.monitor
    (0.05, 5, 'training')
    """
    known = [field.name for one in (config_class(model), TrainingConfig) for field in fields(one)]
    given = preset_values(config_class(model), describe(dataset).name, kind)
    for name in (*given, *changes):
        if name not in known:
            raise UnknownName(f"setting of {model}", name, known)
    return split_config(model, {**{name: sourced.value for name, sourced in given.items()}, **changes})


def split_config(model: str, values: Mapping[str, Any]) -> tuple[ModelConfig, TrainingConfig]:
    """Settings by name as those of a model and those of its training; what is not named has its default."""
    of_model = config_class(model)
    return of_model(**_of(of_model, values)), TrainingConfig(**_of(TrainingConfig, values))


def _of(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are settings of this class."""
    return {field.name: values[field.name] for field in fields(config) if field.name in values}
