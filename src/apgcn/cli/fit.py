"""`apgcn train --edges --nodes`: a model for one's own graph."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from rich.markup import escape

from apgcn._utils.validation import check_fraction
from apgcn.cli import render
from apgcn.cli.input_files import Files, say_all
from apgcn.cli.progress import say
from apgcn.errors import InvalidInput
from apgcn.io.build_graph import TableSchema

MAX_FOR_TEST = 0.7  # of the labelled nodes


def train_own(
    files: Files,
    schema: TableSchema,
    *,
    model: str,
    changes: dict[str, Any],
    trials: int,
    initialisations: int,
    test_size: float,
    seed: int,
    device: str,
    out: Path,
    as_json: bool,
) -> None:
    """Read, split, search settings if asked to, train, judge, save, and say what was done."""
    from apgcn._utils.atomic import new_folder
    from apgcn.inference.bundle import SavedModel, fill
    from apgcn.inference.fit import fit
    from apgcn.inference.splits import stratified_split, without
    from apgcn.models.registry import config_class
    from apgcn.ops.devices import resolve
    from apgcn.training.config import split_config

    if files.edges is not None and files.nodes is None:
        raise InvalidInput("--edges and --nodes must be given together.")
    if schema.label is None and not files.arrays:
        raise InvalidInput("--label must name the column of --nodes that holds the classes.")
    if not config_class(model).has_weights:
        raise InvalidInput(f"--model must be one that is trained and kept, but {model} has no weights.")
    place = resolve(device)
    chosen, training = split_config(model, changes)
    check_test_share(test_size)
    with new_folder(out) as folder:
        read = files.read(schema)
        graph = replace(read.graph, name=out.name or "graph")
        split = stratified_split(graph.labels, test=test_size, seed=seed)
        lacking = without(graph, split, asked=held_out(test_size))
        say_all(lacking)
        started = time.perf_counter()
        tried = _tuned(graph, split, model, changes, trials=trials, seed=seed, device=place) if trials else []
        if tried:
            chosen, training = split_config(model, tried[0].settings)
        with render.progress_bar(initialisations, label=f"{chosen.title} on {graph.name}") as report:
            fitted = fit(
                graph,
                split,
                chosen,
                training,
                initialisations=initialisations,
                seed=seed,
                device=place,
                progress=report,
            )
        said = fitted.predict(graph, device=place)
        fitted.notes["seconds"] = time.perf_counter() - started
        fitted.notes["tried"] = [
            {
                "settings": one.settings,
                "searched": {name: value for name, value in one.settings.items() if name not in changes},
                "accuracy": one.accuracy,
            }
            for one in tried
        ]
        fill(folder, SavedModel(fitted, graph, read.encoding, read.schema))
    summary = {
        "nodes": graph.num_nodes,
        "edges": graph.num_directed_edges if read.schema.directed else graph.num_directed_edges // 2,
        "features": graph.num_features,
        "classes": list(graph.class_names),
        "labelled": int((graph.labels >= 0).sum()),
        "model": model,
        "initialisations": fitted.initialisations,
        "settings": {**vars(chosen), **vars(training)},
        "read": [*read.notes, *lacking],
        **fitted.notes,
        "out": str(out),
    }
    if as_json:
        print(json.dumps(summary, allow_nan=False))
    else:
        _show(summary, said.steps, chosen)


def check_test_share(share: float) -> None:
    """Whether so many nodes may be kept for judging, in words if not."""
    check_fraction("--test-size", share)
    if share > MAX_FOR_TEST:
        raise InvalidInput(f"--test-size must leave nodes to train: at most {MAX_FOR_TEST}, got {share}.")


def held_out(test_size: float) -> tuple[str, ...]:
    """The sets that no weight sees."""
    return ("stopping", "test") if test_size else ("stopping",)


def _tuned(graph: Any, split: Any, model: str, changes: dict[str, Any], *, trials: int, **how: Any) -> list[Any]:
    from apgcn.inference.tuning import tune

    def tell(number: int, tried: Any) -> None:
        searched = ", ".join(f"{name} {value:g}" for name, value in tried.settings.items() if name not in changes)
        trial = f"trial {number} of {trials}" if number else "before any trial"
        say(f"{trial}: {100 * tried.accuracy:.2f} % with {searched or 'the settings as they are'}")

    return tune(graph, split, model, changes, trials=trials, tell=tell, **how)


def _show(summary: dict[str, Any], steps: np.ndarray, model: Any) -> None:
    console = render.terminal()
    halts = hasattr(model, "epsilon")
    out, name = quote(summary["out"]), escape(Path(summary["out"]).name)
    console.print(
        f"[bold]{model.title} for {name}[/]: {summary['nodes']:,} nodes, {summary['edges']:,} edges, "
        f"{summary['features']:,} features, {len(summary['classes'])} classes; {summary['labelled']:,} labelled nodes"
    )
    for held, words in (("test", "on test nodes"), ("stopping", "on nodes that said when to stop")):
        found = summary[held]
        if found["nodes"]:
            console.print(
                f"accuracy {words}: [bold]{100 * found['accuracy']:.2f} %[/] of {found['nodes']:,}; "
                f"certainty is off by {100 * found['calibration_error']:.1f} points on average"
            )
    if not summary["test"]["nodes"]:
        console.print(
            "(somewhat flattering: it chose the epoch; --test-size 0.2 keeps nodes for an untouched judgement)"
        )
    if halts:
        rounded = "" if summary["initialisations"] == 1 else "; each node's mean over initialisations, rounded"
        console.print(f"steps K: [bold]{steps.mean():.2f}[/] on average{rounded}")
        for line in render.histogram(
            np.bincount(np.rint(steps).astype(int), minlength=model.max_steps + 1)[1:].tolist()
        ):
            console.print(line)
    if summary["tried"]:
        best = summary["tried"][0]
        found = ", ".join(f"{name} {value}" for name, value in best["searched"].items()) or "those that were given"
        console.print(
            f"best of {len(summary['tried'])} settings tried: {escape(found)}; accuracy {100 * best['accuracy']:.2f} % "
            "on labelled nodes that these trials neither trained nor stopped on"
        )
    if summary["diverged"]:
        console.print(f"{summary['diverged']} initialisations diverged and are left out")
    console.print(f"epochs {', '.join(map(str, summary['epochs']))}; {render.duration(summary['seconds'])}")
    following = {f"predict {out} --out predictions.csv": "what it says of every node"}
    if model.name == "apgcn":
        following[f"explain {out} --html steps.html"] = "who listened how far, as a page"
    render.next_commands(following)
