"""`apgcn tune`: look for better settings, without a look at the test nodes."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.executor_options import (
    ADDRESS,
    EXECUTOR,
    WORKERS,
    check_options,
    executor_for,
    fill_and_show,
    names,
    typed,
)
from apgcn.errors import InvalidInput, UnknownName

MAX_TRIALS = 10_000


def tune(
    dataset: Annotated[str, typer.Argument(help="A name from `apgcn datasets`.")],
    store: Annotated[
        Path, typer.Option(help="Folder of the records; started again, the command goes on there.")
    ] = Path("tuning"),
    model: Annotated[str, typer.Option(help="The model.")] = "apgcn",
    search: Annotated[
        str | None, typer.Option(help="Names of settings with commas between; default: all that can be searched.")
    ] = None,
    trials: Annotated[
        int, typer.Option(help="How many settings are tried besides those behind the paper's tables.")
    ] = 30,
    runs: Annotated[int, typer.Option(help="How many runs on validation splits judge each.")] = 20,
    seed: Annotated[int, typer.Option(help="Another number searches another way.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    workers: WORKERS = None,
    executor: EXECUTOR = "local",
    address: ADDRESS = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Search a model's settings (penalty, l2, dropout, max_steps, teleport, ...) on the validation seeds.

    Splits of these seeds have no test nodes: what is found here can be judged on the test seeds, once.
    """
    from apgcn._utils.validation import check_int
    from apgcn.benchmark.store import Store
    from apgcn.benchmark.tuning import tune as find
    from apgcn.benchmark.tuning_table import content as trials_so_far
    from apgcn.data import describe
    from apgcn.models.registry import config_class
    from apgcn.training.search_space import imported_optuna, searched

    describe(dataset)
    config_class(model)
    check_options(runs=runs, device=device, workers=workers, executor=executor, address=address)
    check_int("trials", trials, most=MAX_TRIALS)
    check_int("seed", seed, least=0)
    wanted = names(search)
    if wanted == []:
        raise InvalidInput(f"there must be at least one setting to search, got {search!r}.")
    for name in wanted or []:
        if name not in searched(model):
            raise UnknownName(f"setting to search for {model}", name, searched(model))
    imported_optuna()
    place = Store.to_fill(store)
    options = {"model": model, "search": search, "trials": trials, "runs": runs, "seed": seed}
    command = typed("tune", dataset, **options, device=device, workers=workers, executor=executor)
    with executor_for(executor, device=device, workers=workers, address=address) as who:
        found = find(
            place,
            dataset,
            model,
            trials=trials,
            runs=runs,
            names=wanted,
            seed=seed,
            run=lambda plan, trial: fill_and_show(
                place, plan, device=device, executor=who, command=command, label=f"trial {trial} of {trials}"
            ),
        )
    if as_json:
        shown = [
            {
                "trial": trial.number,
                "validation_accuracy": trial.score / 100,
                "validation_interval": None
                if trial.mean.validation_interval is None
                else trial.mean.validation_interval / 100,
                "steps_mean": trial.mean.steps,
                "runs": trial.mean.runs,
                "settings": dict(trial.run_config.hyperparameters),
            }
            for trial in found
        ]
        print(json.dumps({"dataset": dataset, "model": model, "trials": shown}))
        return
    render.artifact(trials_so_far(place, dataset=dataset, model=model))
    best = "".join(f" --set {name}={value}" for name, value in found[0].run_config.changes.items())
    render.next_commands(
        {
            f"train {dataset} --model {model}{best} --runs 20": "the best settings, judged on the test seeds: once",
            f"report {quote(str(store))} --html report.html": "all trials, as a page",
        }
    )
