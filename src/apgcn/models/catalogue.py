"""Which models are there? A new one is a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from apgcn.errors import UnknownName
from apgcn.models.apgcn import APGCNSettings

MODELS: Mapping[str, Any] = MappingProxyType({settings.name: settings for settings in (APGCNSettings,)})


def settings_of(model: str) -> Any:
    """The class that holds what can be chosen about a model."""
    try:
        return MODELS[model]
    except KeyError:
        raise UnknownName("model", model, MODELS) from None
