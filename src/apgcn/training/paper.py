"""What does the paper set for a graph?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from apgcn.datasets.catalogue import describe
from apgcn.models.catalogue import settings_of
from apgcn.models.network import ModelSettings
from apgcn.training.settings import TrainingSettings


def paper_settings(dataset: str, *, model: str = "apgcn", **changes: Any) -> tuple[Any, TrainingSettings]:
    """The paper's settings for a graph of the catalogue (for Amazon, its script's), with changes by name.

    Examples
    --------
    >>> model, training = paper_settings("amazon_photo", max_steps=5)
    >>> model.penalty, model.max_steps, training.watch
    (0.05, 5, 'training')
    """
    return divide_settings(model, {**describe(dataset).paper, **changes})


def divide_settings(model: str, values: Mapping[str, Any]) -> tuple[ModelSettings, TrainingSettings]:
    """Settings by name as those of a model and those of its training; what is not named has its default."""
    kind = settings_of(model)
    return kind(**_of(kind, values)), TrainingSettings(**_of(TrainingSettings, values))


def _of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that are settings of this kind."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}
