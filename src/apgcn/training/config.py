"""Hyperparameters of the training, and configs from presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from apgcn._utils.validation import check_fraction, check_int, check_number
from apgcn.data.registry import dataset_info
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.base import ModelConfig
from apgcn.models.presets import preset_values
from apgcn.models.registry import config_class

Monitor = Literal["stopping", "training", "regularised"]
EarlyStopMode = Literal["either", "tie", "loss"]


@dataclass(frozen=True)
class TrainingConfig:
    """Hyperparameters of optimisation and early stopping; the defaults are the paper's.

    Parameters
    ----------
    learning_rate : float
        Of Adam.
    l2 : float
        Coefficient of the l2 regularisation, see `apgcn.training.loss`.
    patience : int
        Epochs without improvement after which a run stops.
    max_epochs : int
    monitor : "stopping", "training" or "regularised"
        The loss that resets patience and breaks ties between equal stopping accuracies: the cross-entropy of the
        stopping set (the paper's text); the complete loss on the training set, dropout off (the authors' script); or
        the cross-entropy of the stopping set plus the l2 term (the code of the PPNP paper).
    early_stop_mode : "either", "tie" or "loss"
        What resets patience: an accuracy or a loss that is better than the best so far (the paper's text); one that is
        at least equal to the best (the code of the PPNP paper); or a better loss alone, and then the best epoch is that
        of the lowest loss (V.GCN). In the first two modes the best epoch is the most accurate.
    consistency : float
        Weight of the consistency loss, see `apgcn.training.consistency`; 0, as in the paper, trains without.
    consistency_passes : int
        Passes with independent dropout whose predictions are compared.
    consistency_warmup : int
        Epochs over which the weight rises from 0, linearly.
    temperature : float
        Sharpens the mean prediction of the passes; 1 leaves it as it is, smaller values bring it closer to one class.
    confidence : float
        Largest probability of the mean prediction from which a node takes part.
    """

    learning_rate: float = 0.01
    l2: float = 0.008
    patience: int = 100
    max_epochs: int = 10_000
    monitor: Monitor = "stopping"
    early_stop_mode: EarlyStopMode = "either"
    consistency: float = 0.0
    consistency_passes: int = 2
    consistency_warmup: int = 100
    temperature: float = 0.5
    confidence: float = 0.0

    @property
    def passes(self) -> int:
        """Passes through the model in an optimiser step."""
        return self.consistency_passes if self.consistency else 1

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        check_number("consistency", self.consistency)
        check_number("temperature", self.temperature, positive=True)
        check_fraction("confidence", self.confidence)
        for name in ("patience", "max_epochs", "consistency_passes", "consistency_warmup"):
            check_int(name, getattr(self, name))
        for name, choices in (("monitor", get_args(Monitor)), ("early_stop_mode", get_args(EarlyStopMode))):
            if getattr(self, name) not in choices:
                raise InvalidInput(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}.")


def preset_config(
    dataset: str, *, model: str = "apgcn", preset: str | None = None, **overrides: Any
) -> tuple[Any, TrainingConfig]:
    """The model config and training config of a preset for a benchmark graph, with overrides by name.

    Without `preset`, the hyperparameters behind the paper's tables: what the authors ran (for AP-GCN on Amazon, their
    script), or what was published with the numbers that they copied. With `preset`, "published", "paper" or "tuned",
    the values of that preset; `apgcn models` lists them.

    Examples
    --------
    >>> model, training = preset_config("amazon_photo", max_steps=5)
    >>> model.penalty, model.max_steps, training.monitor
    (0.05, 5, 'training')
    """
    known = hyperparameter_names(model)
    values = preset_values(model, dataset_info(dataset).name, preset)
    for name in (*values, *overrides):
        if name not in known:
            raise UnknownName(f"hyperparameter of {model}", name, known)
    return configs_from_values(model, {**{name: sourced.value for name, sourced in values.items()}, **overrides})


def hyperparameter_names(model: str) -> list[str]:
    """The hyperparameters of a model and of its training."""
    return [field.name for config in (config_class(model), TrainingConfig) for field in fields(config)]


def configs_from_values(model: str, values: Mapping[str, Any]) -> tuple[ModelConfig, TrainingConfig]:
    """The model config and training config with these hyperparameters by name; the others have their defaults."""
    model_config = config_class(model)
    return model_config(**_fields_of(model_config, values)), TrainingConfig(**_fields_of(TrainingConfig, values))


def _fields_of(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are fields of a config class."""
    return {field.name: values[field.name] for field in fields(config) if field.name in values}
