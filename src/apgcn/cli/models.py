"""`apgcn models`: list the models, their presets, and the source of each hyperparameter."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from apgcn.cli import render
from apgcn.cli.options import AsJSON


def models(
    model: Annotated[str | None, typer.Argument(help="A name; default: all models.")] = None,
    dataset: Annotated[str, typer.Option(help="The graph whose presets are shown.")] = "cora_ml",
    as_json: AsJSON = False,
) -> None:
    """List the models: paper, number of weights, presets, and the source of each hyperparameter."""
    from apgcn.data.registry import dataset_info
    from apgcn.models.registry import MODELS, config_class

    graph = dataset_info(dataset)
    selected = MODELS if model is None else {model: config_class(model)}
    entries = {name: _describe(config, graph) for name, config in selected.items()}
    if as_json:
        print(json.dumps({"dataset": dataset, "models": [{"name": name, **entry} for name, entry in entries.items()]}))
    else:
        render.model_list(entries, dataset)


def _describe(model: Any, dataset: Any) -> dict[str, Any]:
    """A model and its presets for a graph, as plain JSON values."""
    from apgcn.models.presets import preset_values, presets_for
    from apgcn.models.registry import count_weights
    from apgcn.training.config import preset_config

    presets = presets_for(model.name, dataset.name)
    default, _ = preset_config(dataset.name, model=model.name)
    return {
        "title": model.title,
        "paper": model.citation,
        "weights": count_weights(default, features=dataset.features, classes=dataset.classes),
        "default_preset": presets[0],
        "presets": {
            preset: {
                name: sourced._asdict() for name, sourced in preset_values(model.name, dataset.name, preset).items()
            }
            for preset in presets
        },
    }
