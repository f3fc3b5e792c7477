"""What does the paper set for a graph?"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from apgcn.datasets.catalogue import describe
from apgcn.models.apgcn import APGCNSettings
from apgcn.training.settings import TrainingSettings


def paper_settings(dataset: str, **changes: Any) -> tuple[APGCNSettings, TrainingSettings]:
    """The paper's settings for a graph of the catalogue (for Amazon, its script's), with changes by name.

    Examples
    --------
    >>> model, training = paper_settings("amazon_photo", max_steps=5)
    >>> model.penalty, model.max_steps, training.watch
    (0.05, 5, 'training')
    """
    chosen = {**describe(dataset).paper, **changes}
    return APGCNSettings(**_of(APGCNSettings, chosen)), TrainingSettings(**_of(TrainingSettings, chosen))


def _of(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that are settings of this kind."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}
