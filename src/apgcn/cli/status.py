"""`apgcn status`: finished and missing runs of a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.options import AsJSON


def status(
    store: Annotated[Path, typer.Argument(help="The folder of `apgcn reproduce --store`.")],
    as_json: AsJSON = False,
) -> None:
    """Show how many runs of a store are done, how many are missing, and how long those will take."""
    from apgcn.benchmark.progress import store_progress
    from apgcn.benchmark.store import Store

    progress = store_progress(Store.open(store))
    if not as_json:
        render.store_progress(progress)
        return
    run_configs = [
        {
            "run_config": part.run_config.text,
            "dataset": part.run_config.dataset,
            "model": part.run_config.model,
            "seed_set": part.run_config.seed_set,
            "train_per_class": part.run_config.train_per_class,
            "hyperparameters": dict(part.run_config.hyperparameters),
            "planned": part.planned,
            "done": part.done,
            "seconds_left": part.seconds_left,
        }
        for part in progress.run_configs
    ]
    summary = {
        "planned": progress.planned,
        "done": progress.done,
        "left": progress.planned - progress.done,
        "in_training": progress.in_training,
        "seconds_left": progress.seconds_left,
        "run_configs": run_configs,
    }
    print(json.dumps(summary))
