"""`apgcn status`: how far is a store?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli import render


def status(
    store: Annotated[Path, typer.Argument(help="A folder that `apgcn reproduce --store` fills.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Say what is done in a store, what is left, and how long that will take."""
    from apgcn.benchmark.progress import standing
    from apgcn.benchmark.store import Store

    now = standing(Store.existing(store))
    if not as_json:
        render.standing(now)
        return
    parts = [
        {
            "condition": part.run_config.text,
            "dataset": part.run_config.dataset,
            "model": part.run_config.model,
            "seed_set": part.run_config.seed_set,
            "train_per_class": part.run_config.train_per_class,
            "settings": dict(part.run_config.hyperparameters),
            "planned": part.planned,
            "done": part.done,
            "seconds_left": part.seconds_left,
        }
        for part in now.parts
    ]
    summary = {
        "planned": now.planned,
        "done": now.done,
        "left": now.planned - now.done,
        "in_training": now.in_training,
        "seconds_left": now.seconds_left,
        "parts": parts,
    }
    print(json.dumps(summary))
