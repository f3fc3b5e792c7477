"""How does what a user types become settings?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from apgcn.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from apgcn.models.apgcn import APGCNSettings
    from apgcn.training.settings import TrainingSettings


def parse_settings(typed: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE, as often as wanted, with each value in the type of its setting.

    >>> parse_settings(["l2=0.01", "watch=training", "hidden=32"])
    {'l2': 0.01, 'watch': 'training', 'hidden': 32}
    """
    defaults: dict[str, Any] = {field.name: field.default for kind in _kinds() for field in fields(kind)}
    parsed: dict[str, Any] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set must be NAME=VALUE, got {text!r}.")
        if name not in defaults:
            raise UnknownName("setting", name, defaults)
        kind = type(defaults[name])
        try:
            parsed[name] = kind(value)
        except ValueError:
            article = "a whole number" if kind is int else "a number"
            raise InvalidInput(f"{name} must be {article}, got {value!r}.") from None
    return parsed


def settings_from(values: Mapping[str, Any]) -> tuple[APGCNSettings, TrainingSettings]:
    """The model's and the training's settings from one collection of values by name."""
    model, training = (
        kind(**{field.name: values[field.name] for field in fields(kind) if field.name in values}) for kind in _kinds()
    )
    return model, training


def _kinds() -> tuple[type, type]:
    from apgcn.models.apgcn import APGCNSettings
    from apgcn.training.settings import TrainingSettings

    return APGCNSettings, TrainingSettings
