"""`apgcn models`: list the models, their settings, and where each setting comes from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from apgcn.cli import render


def models(
    model: Annotated[str | None, typer.Argument(help="A name; default: all.")] = None,
    dataset: Annotated[str, typer.Option(help="The graph whose settings are shown.")] = "cora_ml",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """List the models: paper, number of weights, settings, and where each setting comes from."""
    from apgcn.data.registry import describe
    from apgcn.models.registry import MODELS, config_class

    graph = describe(dataset)
    chosen = MODELS if model is None else {model: config_class(model)}
    listed = {name: _described(settings, graph) for name, settings in chosen.items()}
    if as_json:
        print(json.dumps({"dataset": dataset, "models": [{"name": name, **one} for name, one in listed.items()]}))
    else:
        render.models(listed, dataset)


def _described(model: Any, dataset: Any) -> dict[str, Any]:
    """A model as plain values."""
    from apgcn.models.presets import preset_values, presets_for
    from apgcn.models.registry import count_weights
    from apgcn.training.config import preset_config

    kinds = presets_for(model, dataset.name)
    usual, _ = preset_config(dataset.name, model=model.name)
    return {
        "title": model.title,
        "paper": model.citation,
        "weights": count_weights(usual, features=dataset.features, classes=dataset.classes),
        "usual": kinds[0],
        "settings": {
            kind: {name: sourced._asdict() for name, sourced in preset_values(model, dataset.name, kind).items()}
            for kind in kinds
        },
    }
