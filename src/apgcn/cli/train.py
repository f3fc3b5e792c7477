"""`apgcn train`: train a model on a benchmark graph, or on one's own."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli import show
from apgcn.cli.given import EDGES, GRAPH, NODES, Files
from apgcn.cli.own import train_own
from apgcn.cli.settings import parse_settings
from apgcn.cli.watching import say
from apgcn.errors import InvalidInput
from apgcn.io.assembling import Reading


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
            "stop_on, and what else `apgcn models MODEL` shows.",
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
    test_share: Annotated[float, typer.Option(help="Share of the labelled nodes kept for judging.")] = 0.0,
    trials: Annotated[
        int, typer.Option("--tune", metavar="TRIALS", help="Of one's own graph, search settings first: so many trials.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Train AP-GCN or another model on a benchmark graph or on one's own, and say how far its nodes listened."""
    from apgcn.checks import check_whole
    from apgcn.cleaning import clean
    from apgcn.datasets import describe, load
    from apgcn.devices import resolve
    from apgcn.io.folders import new_folder
    from apgcn.models.catalogue import settings_of
    from apgcn.models.given import kinds_for
    from apgcn.splits import TEST_SEEDS
    from apgcn.training.packs import train as train_runs
    from apgcn.training.paper import paper_settings
    from apgcn.training.runs import MOST_RUNS, benchmark_runs
    from apgcn.training.saving import save
    from apgcn.training.summary import summarize

    kind = settings_of(model)
    check_whole("runs", runs, most=MOST_RUNS)
    check_whole("seed", seed, least=0)
    typed = [*(chosen or []), *_as_settings(penalty=penalty, max_steps=max_steps)]
    reading = Reading(
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
    check_whole("tune", trials, least=0)
    if files.given:
        if dataset is not None or settings is not None:
            raise InvalidInput("one's own graph has no name in the catalogue and no settings there; leave them out.")
        if out is None:
            raise InvalidInput("--out must name the new folder of the model.")
        train_own(
            files,
            reading,
            model=model,
            changes=parse_settings(typed, model=model),
            trials=trials,
            initialisations=runs,
            test_share=test_share,
            seed=seed,
            device=device,
            out=out,
            as_json=as_json,
        )
        return
    if trials:
        raise InvalidInput(f"--tune is for one's own graph; of a benchmark graph say: apgcn tune {dataset or 'cora'}.")
    if reading != Reading() or test_share:
        raise InvalidInput("what columns mean is for one's own graph: give --edges and --nodes, too.")
    dataset = dataset or "cora"
    described = describe(dataset)
    chosen_model, training = paper_settings(dataset, model=model, kind=settings, **parse_settings(typed, model=model))
    if not kind.has_weights and runs > len(TEST_SEEDS):
        runs = len(TEST_SEEDS)
        say(f"{kind.title} has no initial weights, so there is one run per split: {runs} runs.")
    place = resolve(device)
    summary, kept = None, None
    try:
        with new_folder(out) if out else nullcontext() as folder:
            graph = clean(load(dataset))
            planned = benchmark_runs(graph, runs, seed=seed)
            started = time.perf_counter()
            with show.progress_bar(len(planned), label=f"{kind.title} on {described.title}") as report:
                results = train_runs(graph, planned, chosen_model, training, device=place, progress=report)
            summary = summarize(results, chosen_model, training, device=place, seconds=time.perf_counter() - started)
            summary["settings_kind"] = settings or kinds_for(kind, dataset)[0]
            if folder:
                save(folder, results, summary)
        kept = out
    finally:  # also when it could not be saved: what was trained is not lost
        if summary and as_json:
            print(json.dumps(summary, allow_nan=False))
        elif summary:
            again = _options(model=model, settings=settings, seed=seed)
            show.trained(kind, described, planned[0].split, summary, changed=typed, again=again, out=kept)
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


def _names(typed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in typed.split(",") if name.strip()) if typed else ()


def _as_settings(**options: float | None) -> list[str]:
    """Options that have a name of their own, spelled like the others."""
    return [f"{name}={value}" for name, value in options.items() if value is not None]
