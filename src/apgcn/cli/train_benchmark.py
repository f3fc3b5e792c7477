"""`apgcn train NAME`: runs of a model on a graph of the catalogue."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from apgcn.cli import render
from apgcn.cli.overrides import parse_settings
from apgcn.cli.progress import say
from apgcn.errors import InvalidInput


def train_catalogued(
    dataset: str,
    *,
    model: str,
    kind: str | None,
    typed: Sequence[str],
    runs: int,
    seed: int,
    device: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Train, save where it is wanted, and say what came out; `kind` and `typed` are what was asked for of settings."""
    from apgcn._utils.atomic import new_folder
    from apgcn.data import describe, load
    from apgcn.data.splits import TEST_SEEDS
    from apgcn.data.transforms import clean
    from apgcn.models.presets import presets_for
    from apgcn.models.registry import config_class
    from apgcn.ops.devices import resolve
    from apgcn.training.batching import train
    from apgcn.training.config import preset_config
    from apgcn.training.outputs import save, summarize
    from apgcn.training.runs import benchmark_runs

    of_model = config_class(model)
    described = describe(dataset)
    chosen_model, training = preset_config(dataset, model=model, kind=kind, **parse_settings(typed, model=model))
    if not of_model.has_weights and runs > len(TEST_SEEDS):
        runs = len(TEST_SEEDS)
        say(f"{of_model.title} has no initial weights, so there is one run per split: {runs} runs.")
    place = resolve(device)
    summary, kept = None, None
    try:
        with new_folder(out) if out else nullcontext() as folder:
            graph = clean(load(dataset))
            planned = benchmark_runs(graph, runs, seed=seed)
            started = time.perf_counter()
            with render.progress_bar(len(planned), label=f"{of_model.title} on {described.title}") as report:
                results = train(graph, planned, chosen_model, training, device=place, progress=report)
            summary = summarize(results, chosen_model, training, device=place, seconds=time.perf_counter() - started)
            summary["settings_kind"] = kind or presets_for(of_model, dataset)[0]
            if folder:
                save(folder, results, summary)
        kept = out
    finally:  # also when it could not be saved: what was trained is not lost
        if summary and as_json:
            print(json.dumps(summary, allow_nan=False))
        elif summary:
            again = _options(model=model, settings=kind, seed=seed)
            render.trained(of_model, described, planned[0].split, summary, changed=typed, again=again, out=kept)
    if summary["diverged"]:
        causes = [name for name in ("learning_rate", "l2", "penalty") if name in summary["settings"]]
        raise InvalidInput(
            f"{summary['diverged']} of {len(planned)} runs diverged: their loss was never finite; "
            f"make {' or '.join(causes)} smaller."
        )


def _options(*, model: str, settings: str | None, seed: int) -> str:
    """What to type besides settings for another training like this one."""
    usual = {"model": "apgcn", "settings": None, "seed": 0}
    typed = {"model": model, "settings": settings, "seed": seed}
    return "".join(f" --{name} {value}" for name, value in typed.items() if value != usual[name])
