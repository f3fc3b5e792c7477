"""Which settings does a model have for a graph?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from apgcn.datasets.catalogue import describe
from apgcn.errors import UnknownName
from apgcn.models.catalogue import settings_of
from apgcn.models.given import settings_given
from apgcn.models.network import ModelSettings
from apgcn.training.settings import TrainingSettings


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
