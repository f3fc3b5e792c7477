"""How does what a user types become settings?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from apgcn.errors import InvalidInput, UnknownName

TRUTHS = {"true": True, "false": False}


def parse_settings(typed: Iterable[str], *, model: str) -> dict[str, Any]:
    """NAME=VALUE, as often as wanted, with each value in the type of the model's or the training's setting.

    >>> parse_settings(["l2=0.01", "monitor=training", "hidden_channels=32", "freeze_halted=true"], model="apgcn")
    {'l2': 0.01, 'watch': 'training', 'hidden': 32, 'freeze_halted': True}
    """
    from apgcn.benchmark.config import defaults as defaults_of
    from apgcn.models.registry import config_class

    defaults = defaults_of(model)
    if not config_class(model).has_weights:  # nothing is trained
        defaults = {field.name: field.default for field in fields(config_class(model))}
    parsed: dict[str, Any] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set must be NAME=VALUE, got {text!r}.")
        if name not in defaults:
            raise UnknownName(f"setting of {model}", name, defaults)
        if name in parsed:
            raise InvalidInput(f"{name} must be set once, got it twice.")
        kind = type(defaults[name])
        try:
            parsed[name] = TRUTHS[value.lower()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            needed = {int: "a whole number", bool: "true or false"}.get(kind, "a number")
            raise InvalidInput(f"{name} must be {needed}, got {value!r}.") from None
    return parsed
