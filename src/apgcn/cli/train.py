"""`apgcn train`: train a model on a benchmark graph by the paper's protocol."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from apgcn.cli import render
from apgcn.cli.distributed import check_distributed_options, train_on_ranks
from apgcn.cli.options import (
    OUTPUT,
    TRAINING,
    AsJSON,
    Device,
    Distributed,
    MaxSteps,
    ModelName,
    Partition,
    Penalty,
    Preset,
    Seed,
    SetValues,
    Threads,
    parse_overrides,
    resolve_threads_option,
)
from apgcn.cli.progress import log
from apgcn.errors import InvalidInput


def train(
    dataset: Annotated[str, typer.Argument(help="A name from `apgcn datasets`.")] = "cora",
    model: ModelName = "apgcn",
    preset: Preset = None,
    penalty: Penalty = None,
    max_steps: MaxSteps = None,
    set_values: SetValues = None,
    runs: Annotated[
        int,
        typer.Option(
            help="Number of runs; 20 is one run per test split (10 if published), 100 the paper's protocol.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    distributed: Distributed = False,
    partition: Partition = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            help="New folder for weights, steps of every node, histories and summary.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Train AP-GCN or a baseline on a benchmark graph; print test accuracy and steps.

    For a graph of your own use `apgcn fit`.
    """
    from apgcn._utils.validation import check_int
    from apgcn.data import DATASETS
    from apgcn.models.registry import config_class
    from apgcn.ops.threads import requested_threads
    from apgcn.training.runs import MAX_RUNS

    if dataset not in DATASETS and Path(dataset).is_file():
        raise InvalidInput(f"train is for benchmark graphs, but {dataset} is a file; for your own graph use: apgcn fit")
    config_class(model)
    check_int("runs", runs, maximum=MAX_RUNS)
    check_int("seed", seed, minimum=0)
    requested_threads(threads)
    check_distributed_options(distributed, partition=partition, out=out)
    if distributed and runs > 1:
        raise InvalidInput("--distributed trains one model: leave out --runs.")
    overrides = parse_overrides(set_values or [], model=model, penalty=penalty, max_steps=max_steps)
    common: dict[str, Any] = {"model": model, "preset": preset, "overrides": overrides, "seed": seed}
    common |= {"device": device, "threads": threads, "out": out, "as_json": as_json}
    if distributed:
        train_on_ranks(dataset, partition=partition, **common)
    else:
        _train(dataset, runs=runs, **common)


def _train(
    dataset: str,
    *,
    model: str,
    preset: str | None,
    overrides: dict[str, Any],
    runs: int,
    seed: int,
    device: str,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Train the runs in this process, save them if `out` is a path, and print the summary."""
    from apgcn._utils.atomic import new_folder
    from apgcn.data import dataset_info, load_prepared
    from apgcn.data.splits import SEEDS, default_seed_set
    from apgcn.models.presets import presets_for
    from apgcn.models.registry import config_class
    from apgcn.ops.devices import resolve_device
    from apgcn.training.batching import train_runs
    from apgcn.training.config import preset_config
    from apgcn.training.outputs import save, summarize
    from apgcn.training.runs import benchmark_runs

    model_class = config_class(model)
    described = dataset_info(dataset)
    model_config, training = preset_config(dataset, model=model, preset=preset, **overrides)
    seed_set = default_seed_set(dataset)
    if not model_class.has_weights and runs > len(SEEDS[seed_set]):
        runs = len(SEEDS[seed_set])
        log(f"{model_class.title} has no initial weights, so there is one run per split: {runs} runs.")
    torch_device = resolve_device(device)
    num_threads = resolve_threads_option(threads)
    summary, written = None, None
    try:
        with new_folder(out) if out else nullcontext() as folder:
            graph = load_prepared(dataset)
            planned = benchmark_runs(graph, runs, seed=seed)
            started = time.perf_counter()
            with render.progress_bar(len(planned), label=f"{model_class.title} on {described.title}") as report:
                results = train_runs(
                    graph,
                    planned,
                    model_config,
                    training,
                    device=torch_device,
                    threads=num_threads,
                    progress=report,
                )
            seconds = time.perf_counter() - started
            summary = summarize(
                results, model_config, training, device=torch_device, threads=num_threads, seconds=seconds
            )
            summary["preset"] = preset or presets_for(model, dataset)[0]
            summary["seed_set"] = seed_set
            if folder:
                save(folder, results, summary)
        written = out
    finally:  # also when it could not be saved: the results of a long training are printed
        if summary and as_json:
            print(json.dumps(summary, allow_nan=False))
        elif summary:
            options = _changed_options(model=model, preset=preset, seed=seed)
            render.training_summary(
                model_class,
                described,
                planned[0].split,
                summary,
                overrides=overrides,
                options=options,
                out=written,
            )
    if summary["diverged"]:
        causes = [name for name in ("learning_rate", "l2", "penalty") if name in summary["hyperparameters"]]
        raise InvalidInput(
            f"{summary['diverged']} of {len(planned)} runs diverged: their loss was never finite; "
            f"make {' or '.join(causes)} smaller."
        )


def _changed_options(*, model: str, preset: str | None, seed: int) -> str:
    """The options of this command, besides hyperparameters, that do not have their default."""
    defaults = {"model": "apgcn", "preset": None, "seed": 0}
    options = {"model": model, "preset": preset, "seed": seed}
    return "".join(f" --{name} {value}" for name, value in options.items() if value != defaults[name])
