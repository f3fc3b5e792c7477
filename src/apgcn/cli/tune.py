"""`apgcn tune`: search hyperparameters on validation splits, which have no test nodes."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.options import (
    TRAINING,
    Address,
    AsJSON,
    Device,
    ExecutorName,
    ModelName,
    StorePath,
    Threads,
    Workers,
    check_run_options,
    command_text,
    format_override,
    split_names,
)
from apgcn.cli.progress import make_executor, run_with_progress
from apgcn.errors import InvalidInput, UnknownName

MAX_TRIALS = 10_000


def tune(
    dataset: Annotated[str, typer.Argument(help="A name from `apgcn datasets`.")],
    store: StorePath = Path("tuning"),
    model: ModelName = "apgcn",
    search: Annotated[
        str | None,
        typer.Option(help="Hyperparameters to search, separated by commas; default: those of the paper's models."),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="Number of trials besides the hyperparameters behind the paper's tables.")
    ] = 30,
    runs: Annotated[
        int, typer.Option(help="Number of runs on validation splits for each trial.", rich_help_panel=TRAINING)
    ] = 20,
    seed: Annotated[int, typer.Option(help="Random seed of the search.", rich_help_panel=TRAINING)] = 0,
    device: Device = "cpu",
    workers: Workers = None,
    threads: Threads = None,
    executor: ExecutorName = "local",
    address: Address = None,
    as_json: AsJSON = False,
) -> None:
    """Search the hyperparameters of a model (penalty, l2, dropout, max_steps, ...) on the validation seeds.

    Splits of these seeds have no test nodes, so the best hyperparameters can be evaluated on the test seeds, once.
    """
    from apgcn._utils.validation import check_int
    from apgcn.benchmark.store import Store
    from apgcn.benchmark.tuning import build as tuning_table
    from apgcn.benchmark.tuning import tune as search_hyperparameters
    from apgcn.data import dataset_info
    from apgcn.data.splits import check_seed_set
    from apgcn.models.registry import config_class
    from apgcn.training.config import preset_config
    from apgcn.training.search_space import import_optuna, searchable_hyperparameters

    check_seed_set(dataset_info(dataset).name, "validation")
    config_class(model)
    check_run_options(runs=runs, device=device, workers=workers, threads=threads, executor=executor, address=address)
    check_int("trials", trials, maximum=MAX_TRIALS)
    check_int("seed", seed, minimum=0)
    names = split_names(search)
    if names == []:
        raise InvalidInput(f"--search must name at least one hyperparameter, got {search!r}.")
    for name in names or []:
        if name not in (known := searchable_hyperparameters(model, named=True)):
            raise UnknownName(f"hyperparameter to search for {model}", name, known)
    without = {"temperature", "confidence", "consistency_passes"}.intersection(names or [])
    if without and "consistency" not in (names or []) and not preset_config(dataset, model=model)[1].consistency:
        raise InvalidInput(
            f"--search {min(without)} has no effect without consistency training; search consistency too."
        )
    import_optuna()
    record_store = Store.open_or_create(store)
    options = {"model": model, "search": search, "trials": trials, "runs": runs, "seed": seed}
    where = {"device": device, "workers": workers, "threads": threads, "executor": executor}
    command = command_text("tune", dataset, **options, **where)
    with make_executor(executor, device=device, workers=workers, threads=threads, address=address) as runner:
        results = search_hyperparameters(
            record_store,
            dataset,
            model,
            trials=trials,
            runs=runs,
            names=names,
            seed=seed,
            run=lambda plan, trial: run_with_progress(
                record_store, plan, device=device, executor=runner, command=command, label=f"trial {trial} of {trials}"
            ),
        )
    if as_json:
        entries = [
            {
                "trial": trial.number,
                "validation_accuracy": trial.score / 100,
                "validation_ci95": None
                if trial.summary.validation_interval is None
                else trial.summary.validation_interval / 100,
                "steps_mean": trial.summary.steps,
                "runs": trial.summary.runs,
                "hyperparameters": dict(trial.run_config.hyperparameters),
            }
            for trial in results
        ]
        print(json.dumps({"dataset": dataset, "model": model, "trials": entries}))
        return
    render.artifact(tuning_table(record_store, dataset=dataset, model=model))
    best = "".join(f" --set {format_override(name, value)}" for name, value in results[0].run_config.changes.items())
    render.next_commands(
        {
            f"train {dataset} --model {model}{best} --runs 20": "evaluate the best trial on the test seeds, once",
            f"report {quote(str(store))} --html report.html": "all trials, as a page",
        }
    )
