"""`apgcn fit`: train a model on the user's graph and save it."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from apgcn._utils.formatting import format_duration
from apgcn.cli import render
from apgcn.cli.distributed import check_distributed_options, fit_on_ranks
from apgcn.cli.options import (
    COLUMNS,
    DATA,
    MODEL,
    OUTPUT,
    TRAINING,
    AsJSON,
    Device,
    Distributed,
    FitModelName,
    GraphFiles,
    GraphPath,
    MaxSteps,
    Partition,
    Penalty,
    Seed,
    SetValues,
    Threads,
    parse_overrides,
    resolve_threads_option,
    split_names,
)
from apgcn.cli.progress import log, log_all
from apgcn.errors import InvalidInput
from apgcn.io.schema import TableSchema


def fit(
    edges: Annotated[
        Path | None, typer.Option(help="Table of edges (.csv, .tsv, .parquet).", rich_help_panel=DATA)
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="Table of nodes.", rich_help_panel=DATA)] = None,
    graph_path: GraphPath = None,
    label: Annotated[
        str | None, typer.Option(help="Column of classes, empty where unknown.", rich_help_panel=COLUMNS)
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column of node ids; default: id, node, name or the first.", rich_help_panel=COLUMNS),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Column where edges begin; default: source, or the first.", rich_help_panel=COLUMNS),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column where edges end; default: target, or the second.", rich_help_panel=COLUMNS),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column of edge weights; default: weight, or none.", rich_help_panel=COLUMNS)
    ] = None,
    directed: Annotated[
        bool,
        typer.Option(
            "--directed", help="Only the target of an edge receives from the source.", rich_help_panel=COLUMNS
        ),
    ] = False,
    one_hot: Annotated[
        str | None,
        typer.Option(help="Text columns, separated by commas: a feature for each value.", rich_help_panel=COLUMNS),
    ] = None,
    bag_of_words: Annotated[
        str | None,
        typer.Option(help="Text columns, separated by commas: a feature for each word.", rich_help_panel=COLUMNS),
    ] = None,
    ignore: Annotated[
        str | None,
        typer.Option(help="Columns, separated by commas, that are no features.", rich_help_panel=COLUMNS),
    ] = None,
    min_class: Annotated[
        int,
        typer.Option(
            help="Treat classes with fewer labelled nodes as unknown; 1 keeps all classes.", rich_help_panel=COLUMNS
        ),
    ] = 1,
    structure: Annotated[
        str,
        typer.Option(
            help="Features computed from the edges: degree, random_walk, spectral, separated by commas; auto: all of "
            "them if there are no feature columns; none.",
            rich_help_panel=COLUMNS,
        ),
    ] = "auto",
    model: FitModelName = "apgcn",
    penalty: Penalty = None,
    max_steps: MaxSteps = None,
    set_values: SetValues = None,
    trials: Annotated[
        int,
        typer.Option(
            "--tune", metavar="TRIALS", help="Number of trials of a hyperparameter search.", rich_help_panel=MODEL
        ),
    ] = 0,
    test_size: Annotated[
        float,
        typer.Option(
            help="Fraction of the labelled nodes held out to judge the models; 0 trains on them, too.",
            rich_help_panel=TRAINING,
        ),
    ] = 0.2,
    correct_and_smooth: Annotated[
        bool,
        typer.Option(
            "--correct-and-smooth",
            help="Correct the predictions by the known labels of near nodes (Huang et al., 2021).",
            rich_help_panel=MODEL,
        ),
    ] = False,
    baselines: Annotated[
        bool,
        typer.Option(help="Also train features alone and label propagation, for comparison.", rich_help_panel=TRAINING),
    ] = True,
    ensemble_size: Annotated[
        int,
        typer.Option(
            "--ensemble",
            metavar="INTEGER",
            help="Number of initialisations whose predictions are averaged.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    distributed: Distributed = False,
    partition: Partition = "auto",
    metric: Annotated[
        str,
        typer.Option(
            help="By which --model auto chooses: accuracy, or roc_auc for two classes of which one is rare.",
            rich_help_panel=TRAINING,
        ),
    ] = "accuracy",
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Begin no epoch after so many seconds; all models share them.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New folder of the model.", rich_help_panel=OUTPUT)] = None,
    as_json: AsJSON = False,
) -> None:
    """Train AP-GCN or another model on your graph, compare it with simple baselines, and save it for `apgcn predict`.

    The graph is two tables (--edges and --nodes) or one file (--graph). --model auto tries several models and keeps the
    best. For benchmark graphs use `apgcn train`.
    """
    from apgcn._utils.validation import check_int
    from apgcn.inference.selection import AUTO, FitOptions, check_test_size
    from apgcn.io.structure_encoding import parse_structure
    from apgcn.models.registry import config_class
    from apgcn.ops.threads import requested_threads
    from apgcn.training.runs import MAX_RUNS

    corrects = correct_and_smooth or None
    FitOptions(model=model, correct_and_smooth=corrects, time_limit=time_limit, metric=metric)  # type: ignore[arg-type]
    check_int("ensemble", ensemble_size, maximum=MAX_RUNS)
    check_int("seed", seed, minimum=0)
    check_int("tune", trials, minimum=0)
    requested_threads(threads)
    schema = TableSchema(
        label=label,
        id=id_column,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        one_hot=split_names(one_hot) or [],
        bag_of_words=split_names(bag_of_words) or [],
        ignore=split_names(ignore) or [],
        min_class=min_class,
    )
    files = GraphFiles(edges, nodes, graph_path)
    if files.is_empty:
        raise InvalidInput(
            "a graph must be given: --edges and --nodes, or --graph; for a benchmark graph use: apgcn train DATASET."
        )
    check_distributed_options(distributed, partition=partition, out=out)
    if distributed and structure != "auto":
        raise InvalidInput("--distributed computes no features from the edges: leave out --structure.")
    if distributed and (trials or model == AUTO or correct_and_smooth or time_limit is not None):
        raise InvalidInput(
            "--distributed trains one model until it stops: leave out --tune, --correct-and-smooth, --time-limit and "
            "--model auto."
        )
    if trials and time_limit is not None:
        raise InvalidInput("--time-limit does not limit a search: leave out --tune, or --time-limit.")
    if trials and (model == AUTO or not config_class(model).has_weights):
        raise InvalidInput(f"--tune searches the hyperparameters of a model with weights, got --model {model}.")
    if out is None:
        raise InvalidInput("--out must name the new folder of the model.")
    check_test_size(test_size, model=model, name="--test-size")
    overrides = parse_overrides(set_values or [], model=model, penalty=penalty, max_steps=max_steps)
    common: dict[str, Any] = {"model": model, "overrides": overrides, "ensemble_size": ensemble_size}
    common |= {"test_size": test_size, "seed": seed, "device": device, "threads": threads}
    common |= {"out": out, "as_json": as_json}
    if distributed:
        fit_on_ranks(files, schema, partition=partition, **common)
    else:
        _fit(
            files,
            schema,
            structure=parse_structure(structure),
            trials=trials,
            baselines=baselines,
            correct_and_smooth=corrects,
            time_limit=time_limit,
            metric=metric,
            **common,
        )


def _fit(
    files: GraphFiles,
    schema: TableSchema,
    *,
    structure: str | list[str],
    model: str,
    overrides: dict[str, Any],
    trials: int,
    baselines: bool,
    correct_and_smooth: bool | None,
    time_limit: float | None,
    metric: Any,
    ensemble_size: int,
    test_size: float,
    seed: int,
    device: str,
    threads: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Read the graph, split, search hyperparameters if trials > 0, train, compare, save, and print a summary."""
    from apgcn._utils.atomic import new_folder
    from apgcn.inference.bundle import ModelBundle, write_bundle_without_graph, write_graph
    from apgcn.inference.estimate import describe_long_fit, estimate_fit
    from apgcn.inference.selection import FitOptions, fit_and_compare, split_for_fit
    from apgcn.inference.splits import held_out_sets, missing_class_notes
    from apgcn.ops.devices import resolve_device
    from apgcn.ops.threads import kernel_threads

    if files.edges is not None and files.nodes is None:
        raise InvalidInput("--edges and --nodes must be given together.")
    if schema.label is None and not files.has_arrays:
        raise InvalidInput("--label must name the column of --nodes that holds the classes.")
    torch_device = resolve_device(device)
    num_threads = resolve_threads_option(threads)
    options = FitOptions(
        model=model,
        overrides=overrides,
        baselines=baselines,
        correct_and_smooth=correct_and_smooth,
        ensemble_size=ensemble_size,
        seed=seed,
        device=torch_device,
        threads=num_threads,
        time_limit=time_limit,
        metric=metric,
    )
    with new_folder(out) as folder, kernel_threads(num_threads):
        loaded = files.read(schema, structure=structure)
        graph = replace(loaded.graph, name=out.name or "graph")
        split = split_for_fit(graph.labels, model=model, test_size=test_size, seed=seed)
        split_notes = missing_class_notes(graph, split, sets=held_out_sets(split))
        log_all(split_notes)
        notes = [*loaded.notes, *split_notes]
        write_graph(folder, graph)  # a full disk is noticed before the training
        started = time.perf_counter()
        results = _tune(graph, split, model, overrides, trials=trials, seed=seed, device=torch_device) if trials else []
        if results:
            options = replace(options, overrides=results[0].hyperparameters)
        announcement = describe_long_fit(
            estimate_fit(graph, options), time_limit=time_limit, option="--time-limit SECONDS"
        )
        if announcement:
            log(announcement)
        trained, predictions = fit_and_compare(
            graph,
            split,
            options,
            computed_features=loaded.structure is not None,
            progress=partial(_progress_bar, ensemble_size=ensemble_size, graph_name=graph.name),
        )
        trained.metrics["seconds"] = time.perf_counter() - started
        trained.metrics["threads"] = num_threads if torch_device.type == "cpu" else None
        trained.metrics["trials"] = [
            {
                "hyperparameters": trial.hyperparameters,
                "searched": {name: value for name, value in trial.hyperparameters.items() if name not in overrides},
                "accuracy": trial.score,
            }
            for trial in results
        ]
        bundle = ModelBundle(trained, graph, loaded.encoding, loaded.schema, notes=notes, structure=loaded.structure)
        write_bundle_without_graph(folder, bundle)
    # What follows is not needed for the model: it is saved.
    summary = {
        "nodes": graph.num_nodes,
        "edges": graph.num_directed_edges if loaded.schema.directed else graph.num_directed_edges // 2,
        "features": graph.num_features,
        "structure": list(loaded.structure.kinds) if loaded.structure else [],
        "classes": list(graph.class_names),
        "labelled": int((graph.labels >= 0).sum()),
        "model": trained.config.name,
        "model_option": model,
        "metric": metric,
        "correct_and_smooth": trained.correct_and_smooth is not None,
        "ensemble_size": trained.ensemble_size,
        "hyperparameters": {**vars(trained.config), **vars(trained.training)},
        "notes": notes,
        **trained.metrics,
        "out": str(out),
    }
    if as_json:
        print(json.dumps(summary, allow_nan=False))
    else:
        steps = None
        if hasattr(trained.config, "epsilon"):  # it halts
            predictions = predictions or trained.predict(graph, device=torch_device, threads=num_threads)
            steps = predictions.steps
        _show(summary, steps, trained)


def _progress_bar(title: str, *, ensemble_size: int, graph_name: str) -> AbstractContextManager[Any]:
    """The progress bar of one model."""
    return render.progress_bar(ensemble_size, label=f"{title} on {graph_name}")


def _tune(
    graph: Any, split: Any, model: str, overrides: dict[str, Any], *, trials: int, seed: int, device: Any
) -> list[Any]:
    """The trials of a hyperparameter search, the best first; each is logged."""
    from apgcn.inference.tuning import tune

    def log_trial(trial: Any) -> None:
        searched = ", ".join(
            f"{name} {value:g}" for name, value in trial.hyperparameters.items() if name not in overrides
        )
        name = f"trial {trial.number} of {trials}" if trial.number else "before the first trial"
        log(f"{name}: {100 * trial.score:.2f} % with {searched or 'default hyperparameters'}")

    return tune(graph, split, model, overrides, num_trials=trials, seed=seed, device=device, callback=log_trial)


def _show(summary: dict[str, Any], steps: np.ndarray | None, trained: Any) -> None:
    """Print the result of a training on the user's graph.

    `steps` (nodes,) are means over the ensemble; None for a model that does not halt.
    """
    console, model = render.terminal(), trained.config
    computed = f" ({', '.join(summary['structure'])} of the edges)" if summary["structure"] else ""
    out, name = quote(summary["out"]), escape(Path(summary["out"]).name)
    console.print(
        f"[bold]{trained.title} on {name}[/]: {summary['nodes']:,} nodes, {summary['edges']:,} edges, "
        f"{summary['features']:,} features{computed}, {len(summary['classes'])} classes; {summary['labelled']:,} "
        "labelled nodes"
    )
    render.leaderboard(summary)
    if steps is not None:
        rounded = "" if summary["ensemble_size"] == 1 else "; each node's mean over the ensemble, rounded"
        console.print(f"\nsteps K: [bold]{steps.mean():.2f}[/] on average{rounded}")
        counts = model.steps_histogram(np.rint(steps).astype(int))
        for line in render.histogram(counts, first=model.first_step):
            console.print(line)
    if summary["trials"]:
        best = summary["trials"][0]
        searched = (
            ", ".join(f"{name} {value}" for name, value in best["searched"].items()) or "the hyperparameters given"
        )
        console.print(
            f"best of {len(summary['trials'])} trials: {escape(searched)}; accuracy {100 * best['accuracy']:.2f} % "
            "on labelled nodes that these trials neither trained nor stopped on"
        )
    if summary["diverged"]:
        console.print(f"{summary['diverged']} initialisations diverged and are left out")
    console.print(f"epochs {', '.join(map(str, summary['epochs']))}; {format_duration(summary['seconds'])}")
    commands = {f"predict {out} --out predictions.csv": "predictions for every node"}
    if model.name == "apgcn" and not trained.uses_known_labels:
        commands[f"explain {out} --html steps.html"] = "a page: the graph and the steps of its nodes"
    if summary["model_option"] != "auto":
        commands["fit ... --model auto"] = "try other models, and keep the best"
    render.next_commands(commands)
