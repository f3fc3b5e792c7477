"""`apgcn train`: train a model on a benchmark graph, or on one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from apgcn.cli.distributed import train_catalogued_together, train_own_together
from apgcn.cli.fit import train_own
from apgcn.cli.input_files import AS_JSON, EDGES, GRAPH, NODES, Files
from apgcn.cli.overrides import parse_settings
from apgcn.cli.train_benchmark import train_catalogued
from apgcn.errors import InvalidInput
from apgcn.io.build_graph import TableSchema


def train(
    dataset: Annotated[str | None, typer.Argument(help="A name from `apgcn datasets`; default: cora.")] = None,
    model: Annotated[str, typer.Option(help="A name from `apgcn models`.")] = "apgcn",
    runs: Annotated[
        int,
        typer.Option(
            help="How many runs; 20 is every test split once, 100 the protocol. Of one's own graph, how many "
            "initialisations are averaged."
        ),
    ] = 1,
    settings: Annotated[
        str | None,
        typer.Option(help="paper, published or tuned ones; default: those behind the paper's tables."),
    ] = None,
    penalty: Annotated[float | None, typer.Option(help="Price of a step; default: the paper's for the graph.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="T, the most steps a node may listen.")] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting, as often as wanted: hidden, dropout, learning_rate, l2, patience, max_epochs, watch, "
            "early_stop_mode, and what else `apgcn models MODEL` shows.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Number of the first initialisation.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="New folder for weights, steps, histories and summary, or for one's own model.")
    ] = None,
    edges: EDGES = None,
    nodes: NODES = None,
    graph_file: GRAPH = None,
    label: Annotated[str | None, typer.Option(help="The column of classes, empty where unknown.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column of ids; default: id, node, name or the first.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Where edges begin; default: source, or the first column.")] = None,
    target: Annotated[str | None, typer.Option(help="Where edges end; default: target, or the second column.")] = None,
    weight: Annotated[str | None, typer.Option(help="The column of edge weights; default: weight, or none.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges are heard at their target alone.")] = False,
    one_hot: Annotated[
        str | None, typer.Option(help="Columns of text, with commas between: a feature for each value.")
    ] = None,
    words: Annotated[str | None, typer.Option(help="Columns of text: a feature for each word.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are no features.")] = None,
    test_size: Annotated[float, typer.Option(help="Share of the labelled nodes kept for judging.")] = 0.0,
    trials: Annotated[
        int, typer.Option("--tune", metavar="TRIALS", help="Of one's own graph, search settings first: so many trials.")
    ] = 0,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="One of several ranks that torchrun started: each has some rows.")
    ] = False,
    partition: Annotated[
        str, typer.Option(help="With --distributed, who has which rows: auto, metis or blocks.")
    ] = "auto",
    as_json: AS_JSON = False,
) -> None:
    """Train AP-GCN or another model on a benchmark graph or on one's own, and say how far its nodes listened."""
    from apgcn._utils.validation import check_int
    from apgcn.models.registry import config_class
    from apgcn.training.runs import MAX_RUNS

    config_class(model)
    check_int("runs", runs, most=MAX_RUNS)
    check_int("seed", seed, least=0)
    typed = [*(chosen or []), *_as_settings(penalty=penalty, max_steps=max_steps)]
    schema = TableSchema(
        label=label,
        id=id_column,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        one_hot=_names(one_hot),
        words=_names(words),
        ignore=_names(ignore),
    )
    files = Files(edges, nodes, graph_file)
    check_int("tune", trials, least=0)
    if distributed:
        if out is None:
            raise InvalidInput("--distributed must come with --out, the new folder of the model.")
        if trials or (runs > 1 and not files.given):
            raise InvalidInput("--distributed trains one model: leave out --tune, and --runs of a benchmark graph.")
    elif partition != "auto":
        raise InvalidInput("--partition must come with --distributed.")
    elif "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise InvalidInput(
            f"torchrun has started {os.environ['WORLD_SIZE']} of us, which must come with --distributed; say it, or "
            "start apgcn without torchrun."
        )
    common: dict[str, Any] = {"model": model, "seed": seed, "device": device, "out": out, "as_json": as_json}
    if files.given:
        if dataset is not None or settings is not None:
            raise InvalidInput("one's own graph has no name in the catalogue and no settings there; leave them out.")
        if out is None:
            raise InvalidInput("--out must name the new folder of the model.")
        changes = parse_settings(typed, model=model)
        own: dict[str, Any] = {"changes": changes, "initialisations": runs, "test_size": test_size, **common}
        if distributed:
            train_own_together(files, schema, partition=partition, **own)
        else:
            train_own(files, schema, trials=trials, **own)
        return
    if trials:
        raise InvalidInput(f"--tune is for one's own graph; of a benchmark graph say: apgcn tune {dataset or 'cora'}.")
    if test_size:
        raise InvalidInput("--test-size is for one's own graph; the benchmark's splits have their test nodes.")
    if schema != TableSchema():
        raise InvalidInput("what columns mean is for one's own graph: give --edges and --nodes, too.")
    name = dataset or "cora"
    if distributed:
        changes = parse_settings(typed, model=model)
        train_catalogued_together(name, kind=settings, changes=changes, partition=partition, **common)
    else:
        train_catalogued(name, kind=settings, typed=typed, runs=runs, **common)


def _names(typed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in typed.split(",") if name.strip()) if typed else ()


def _as_settings(**options: float | None) -> list[str]:
    """Options that have a name of their own, spelled like the others."""
    return [f"{name}={value}" for name, value in options.items() if value is not None]
