"""`apgcn reproduce`: train the runs of a table or figure of the paper, and print it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from shlex import quote
from typing import Annotated

import typer

from apgcn.cli import render
from apgcn.cli.options import (
    DATA,
    MODEL,
    TRAINING,
    Address,
    AsJSON,
    Device,
    ExecutorName,
    Preset,
    StorePath,
    Threads,
    Workers,
    check_run_options,
    command_text,
    split_names,
)
from apgcn.cli.progress import log, make_executor, run_with_progress
from apgcn.errors import MissingDevice


def reproduce(
    what: Annotated[str, typer.Argument(help="table1 to table5, figure2 to figure4, freezing, or all.")],
    store: StorePath,
    models: Annotated[
        str | None, typer.Option(help="Names separated by commas; default: all models.", rich_help_panel=MODEL)
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Names separated by commas; default: the paper's.", rich_help_panel=DATA)
    ] = None,
    preset: Preset = None,
    runs: Annotated[
        int,
        typer.Option(
            help="Number of runs; the protocol has 100: 20 splits x 5 initialisations.", rich_help_panel=TRAINING
        ),
    ] = 100,
    device: Device = "cpu",
    workers: Workers = None,
    threads: Threads = None,
    executor: ExecutorName = "local",
    address: Address = None,
    as_json: AsJSON = False,
) -> None:
    """Reproduce a table or figure of the paper, or all of them.

    Every finished run is stored at once. You can interrupt the command and start it again: it continues with the
    missing runs. Tables and figures that need the same runs share them, and several processes may use one store.
    """
    from apgcn.benchmark.registry import select_artifacts
    from apgcn.benchmark.store import Store

    check_run_options(runs=runs, device=device, workers=workers, threads=threads, executor=executor, address=address)
    selected = select_artifacts(
        what, models=split_names(models), datasets=split_names(datasets), runs=runs, preset=preset
    )
    record_store = Store.open_or_create(store)
    options = {"models": models, "datasets": datasets, "preset": preset, "runs": runs}
    where = {"device": device, "workers": workers, "threads": threads, "executor": executor}
    command = command_text("reproduce", what, **options, **where)
    plan = list(dict.fromkeys(key for spec, scope in selected for key in spec.plan(scope)))
    executor_context = make_executor(executor, device=device, workers=workers, threads=threads, address=address)
    with executor_context if record_store.missing(plan) else nullcontext() as runner:
        run_with_progress(record_store, plan, device=device, executor=runner, command=command)
    for spec, scope in selected:
        if spec.measure:
            try:
                spec.measure(record_store, scope, device=device, command=command)
            except MissingDevice as error:
                if executor == "local":
                    raise
                log(f"{spec.name} is timed on the machine that runs this command, and was left out: {error}")
    artifacts = [spec.build(record_store, scope) for spec, scope in selected]
    if as_json:
        print(
            json.dumps(
                {"artifacts": {artifact.name: [dict(row) for row in artifact.table.rows] for artifact in artifacts}}
            )
        )
        return
    for artifact in artifacts:
        render.artifact(artifact)
    render.next_commands({f"report {quote(str(store))} --html report.html": "everything in the store, as a page"})
