"""`apgcn reproduce`: run what a table or figure of the paper needs, and show it."""

from __future__ import annotations

import json
from contextlib import nullcontext
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
from apgcn.cli.progress import say
from apgcn.errors import MissingDevice


def reproduce(
    what: Annotated[str, typer.Argument(help="table1 to table5, figure2 to figure4, or all.")],
    store: Annotated[Path, typer.Option(help="Folder of the records; started again, the command goes on there.")],
    models: Annotated[str | None, typer.Option(help="Names with commas between; default: all there are.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Names with commas between; default: the paper's.")] = None,
    settings: Annotated[
        str | None,
        typer.Option(help="paper, published or tuned ones; default: those behind the paper's tables."),
    ] = None,
    runs: Annotated[int, typer.Option(help="How many; the protocol has 100: 20 splits x 5 initialisations.")] = 100,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    workers: WORKERS = None,
    executor: EXECUTOR = "local",
    address: ADDRESS = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Reproduce a table or figure of the paper, or all of them.

    What a run found is kept in the store at once. Interrupt the command as you like and start it again: it goes on with
    what is missing. Experiments that need the same runs share them, and several processes may fill one store.
    """
    from apgcn.benchmark.registry import chosen
    from apgcn.benchmark.store import Store

    check_options(runs=runs, device=device, workers=workers, executor=executor, address=address)
    asked = chosen(what, models=names(models), datasets=names(datasets), runs=runs, kind=settings)
    place = Store.to_fill(store)
    options = {"models": models, "datasets": datasets, "settings": settings, "runs": runs}
    command = typed("reproduce", what, **options, device=device, workers=workers, executor=executor)
    plan = list(dict.fromkeys(key for experiment, scope in asked for key in experiment.plan(scope)))
    trains = executor_for(executor, device=device, workers=workers, address=address)
    with trains if place.missing(plan) else nullcontext() as who:
        fill_and_show(place, plan, device=device, executor=who, command=command)
    for experiment, scope in asked:
        if experiment.measure:
            try:
                experiment.measure(place, scope, device=device, command=command)
            except MissingDevice as error:
                if executor == "local":
                    raise
                say(f"{experiment.name} is measured where the command is typed, and not now: {error}")
    artifacts = [experiment.content(place, scope) for experiment, scope in asked]
    if as_json:
        print(json.dumps({"experiments": {one.name: [dict(row) for row in one.table.rows] for one in artifacts}}))
        return
    for artifact in artifacts:
        render.artifact(artifact)
    render.next_commands({f"report {quote(str(store))} --html report.html": "everything in the store, as a page"})
