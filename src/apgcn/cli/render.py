"""Text for the terminal: results on standard output, the progress bar of a training on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from apgcn._utils.formatting import format_duration, replace_unprintable
from apgcn.cli.options import format_override

BAR_WIDTH = 40  # characters of the longest bar
MAX_BARS = 20
FEW_RUNS = 20  # with fewer the bootstrap interval is too narrow: there is too little to resample


@contextmanager
def progress_bar(runs: int, *, label: str) -> Iterator[Callable[[Any], None]]:
    """A progress bar over all runs; the epoch at which a run stops is unknown, so the time left is an estimate."""
    done = ", {task.fields[done]}/{task.fields[runs]} runs" if runs > 1 else ""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("epoch {task.fields[epoch]}" + done + ", about"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(label), total=1.0, epoch=0, done=0, runs=runs)
        yield lambda now: bar.update(task, completed=now.fraction, epoch=now.epoch, done=now.finished)


def training_summary(
    model: Any,
    dataset: Any,
    split: Any,
    summary: Mapping[str, Any],
    *,
    overrides: Mapping[str, Any],
    options: str,
    out: Path | None,
) -> None:
    """Print the result of `apgcn train`: accuracy, steps, their histogram, time, and commands to run next.

    Parameters
    ----------
    model, dataset
        Their entries in the registries.
    split : Split
        Of the first run, for the sizes of its sets.
    summary : dict
        See `apgcn.training.outputs.summarize`.
    overrides : dict
        Hyperparameters that the user set.
    options : str
        Other options of the command, as typed.
    out : path or None
        The folder that was written.
    """
    console = terminal()
    runs = summary["runs"]
    half_width = summary["accuracy_ci95"]
    which = "the first" if dataset.has_splits else "each"  # published splits may have unequal sets
    console.print(
        f"[bold]{model.title} on {dataset.title}[/]: {dataset.nodes:,} nodes, {dataset.edges:,} edges, "
        f"{dataset.features:,} features, {dataset.classes} classes"
    )
    console.print(
        f"{'1 run' if runs == 1 else f'{runs} runs, {which}'} with {len(split.train)} training, "
        f"{len(split.stopping)} stopping and {len(split.test):,} test nodes"
    )
    hyperparameters = summary["hyperparameters"]
    always = [name for name in ("penalty", "max_steps", "teleport") if name in hyperparameters] or ["hidden_channels"]
    always = [name for name in always if name in hyperparameters and (name, hyperparameters[name]) != ("teleport", 0)]
    values = [f"{name}={hyperparameters[name]:g}" for name in always]
    values += [format_override(name, value) for name, value in overrides.items() if name not in always]
    console.print(f"hyperparameters {escape(', '.join(values))}, others from preset '{summary['preset']}'")
    console.print()
    plus_minus = "±" if _can_print("±") else "+-"
    few = ", too few to trust it" if runs < FEW_RUNS else ""
    spread = "" if half_width is None else f" {plus_minus} {100 * half_width:.2f} (95 % interval over {runs} runs{few})"
    console.print(f"accuracy on test nodes  [bold]{100 * summary['accuracy_mean']:.2f} %[/]{spread}")
    if "roc_auc_mean" in summary:
        half_width = summary["roc_auc_ci95"]
        spread = "" if half_width is None else f" {plus_minus} {100 * half_width:.2f}"
        remark = ", by which the authors of this graph judge" if dataset.metric == "roc_auc" else ""
        console.print(f"ROC AUC on test nodes   [bold]{100 * summary['roc_auc_mean']:.2f} %[/]{spread}{remark}")
    if "epsilon" in hyperparameters:  # each node has its own K
        console.print(
            f"steps K                 [bold]{summary['steps_mean']:.2f}[/] on average, "
            f"standard deviation {summary['steps_std']:.2f} over nodes"
        )
        counts = summary["steps_histogram"]
        for line in histogram(counts, first=hyperparameters["max_steps"] + 1 - len(counts)):
            console.print(line)
    else:
        console.print(f"steps K                 {summary['steps_mean']:g} for every node")
    if model.has_weights:
        console.print(f"epochs                  {summary['epochs_mean']:.0f}{' on average' if runs > 1 else ''}")
    console.print(f"time                    {format_duration(summary['seconds'])} on {summary['device']}")
    if out:
        console.print(f"written                 {escape(str(out))}")
    next_commands(_next_trainings(summary, overrides, options))


def leaderboard(summary: Mapping[str, Any]) -> None:
    """Print the models that were compared on a user's graph, and what the comparison shows."""
    console, rows = terminal(), summary["leaderboard"]
    judged_by = "test" if summary["test"]["nodes"] else "stopping"
    nodes = summary[judged_by]["nodes"]
    with_validation = any(row["validation_accuracy"] is not None for row in rows)
    with_roc_auc = any(row["roc_auc"] is not None for row in rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("model")
    headings = ["accuracy", "95 % interval", *(["ROC AUC"] if with_roc_auc else [])]
    for heading in (*headings, *(["validation"] if with_validation else []), "mean K", "time"):
        table.add_column(heading, justify="right")
    for row in rows:
        low, high = (100 * bound for bound in row["interval"])
        cells = [f"{100 * row['accuracy']:.1f} %", f"{low:.1f} to {high:.1f}"]
        if with_roc_auc:
            cells.append("" if row["roc_auc"] is None else f"{row['roc_auc']:.3f}")
        if with_validation:
            validation = row[f"validation_{summary['metric']}"]
            is_accuracy = summary["metric"] == "accuracy"
            shown = "" if validation is None else f"{100 * validation:.1f} %" if is_accuracy else f"{validation:.3f}"
            cells.append(shown)
        cells += [f"{row['steps_mean']:.1f}", format_duration(row["seconds"])]
        style = "bold" if row["chosen"] else None
        table.add_row(">" if row["chosen"] else "", escape(row["title"]), *cells, style=style)
    console.print(f"\n[bold]accuracy on {nodes:,} {judged_by} nodes[/], which no model was trained on")
    console.print(table)
    if judged_by == "stopping":
        console.print("(optimistic: these nodes chose the epoch; --test-size 0.2 holds out nodes that judge)")
    error = summary[judged_by]["calibration_error"]
    console.print(f"\nexpected calibration error of the probabilities: {100 * error:.1f} %")
    if summary["homophily"] is not None:
        console.print(
            f"edge homophily: {summary['homophily']:.2f} of the edges join nodes of the same class; of random edges "
            f"{summary['random_homophily']:.2f} would"
        )
    for sentence in summary["advice"]:
        console.print(escape(sentence))


def terminal() -> Console:
    """Console of standard output; wide enough that nothing is cut or folded if that is no terminal."""
    width = None if sys.stdout is not None and sys.stdout.isatty() else 400
    return Console(highlight=False, soft_wrap=True, width=width)


def histogram(counts: Sequence[int], *, first: int = 1) -> list[str]:
    """Lines of a bar chart: the fraction of nodes for each number of steps, from the first, or for ranges of it.

    >>> for line in histogram([0, 2, 6]): print(line.replace("█", "#"))
      K =  1 |                                            0.0 %
      K =  2 |#############                              25.0 %
      K =  3 |########################################   75.0 %
    >>> histogram([1] * 200, first=0)[1].split("|")[0]
    '  K =  10 to  19 '
    >>> histogram([1] * 25)[-1].split("|")[0]
    '  K =  25 to  25 '
    """
    width = -(-len(counts) // MAX_BARS)
    bars = [sum(counts[start : start + width]) for start in range(0, len(counts), width)]
    total, longest = sum(bars), max(bars)
    block = "█" if _can_print("█") else "#"
    last = first + len(counts) - 1
    starts = range(first, last + 1, width)
    labels = [f"{k:2}" if width == 1 else f"{k:3} to {min(k + width - 1, last):3}" for k in starts]
    return [
        f"  K = {label} |{block * round(BAR_WIDTH * count / longest):{BAR_WIDTH}} {100 * count / total:6.1f} %"
        for label, count in zip(labels, bars, strict=True)
    ]


def _can_print(character: str) -> bool:
    try:
        character.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def artifact(content: Any) -> None:
    """Print a table, or the numbers behind a figure, with its notes."""
    content = content.drop_rows_without_runs()
    console = terminal()
    console.print(f"\n[bold]{escape(content.heading)}[/]")
    table = Table(box=None, pad_edge=False)
    for column in content.table.columns:
        table.add_column(escape(column.heading), justify="left" if column.is_text else "right")
    for cells in content.table.cells:
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)
    for note in content.notes:
        console.print(f"[dim]{escape(note)}[/]")


def next_commands(commands: Mapping[str, str]) -> None:
    """Print commands to run next, each with its reason."""
    console = terminal()
    lines = {f"{_command()} {command}": why for command, why in commands.items()}
    width = max(map(len, lines))
    console.print("\nwhat to type next:")
    for line, why in lines.items():
        console.print(f"  {escape(f'{line:{width}}  # {why}')}")


def store_progress(progress: Any) -> None:
    """Print the runs of a store that are done and missing, and the time that is left."""
    from apgcn.benchmark.formatting import preset_or_changes

    console = terminal()
    if not progress.planned:
        console.print("no runs are planned in this store; it holds only statistics of graphs or timings of epochs.")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("graph", "model", "seeds", "hyperparameters"):
        table.add_column(heading, overflow="fold")
    for heading in ("per class", "done", "planned", "left, one worker"):
        table.add_column(heading, justify="right")
    for part in progress.run_configs:
        run_config = part.run_config
        cells = (run_config.dataset, run_config.model, run_config.seed_set, preset_or_changes(run_config))
        numbers = (run_config.train_per_class, part.done, part.planned, _time_left(part))
        table.add_row(*(escape(replace_unprintable(cell)) for cell in cells), *map(str, numbers))
    console.print(table)
    left = progress.planned - progress.done
    if not left:
        console.print(f"\nall {progress.planned} planned runs are done.")
        return
    console.print(f"\n{progress.done} of {progress.planned} runs are done, {left} {'is' if left == 1 else 'are'} left.")
    workers = max(1, progress.in_training)
    if progress.in_training:
        batches = "1 run batch is" if progress.in_training == 1 else f"{progress.in_training} run batches are"
        console.print(f"{batches} in training now.")
    else:
        console.print("no process is training now; run the command that planned the runs again to continue.")
    if progress.seconds_left is None:
        console.print("the time left is known when a run batch of every model is done.")
    else:
        at_once = "" if workers == 1 else f", {workers} run batches at once"
        console.print(f"about {format_duration(progress.seconds_left / workers)} of work are left{at_once}.")


def _time_left(part: Any) -> str:
    if not part.left:
        return ""
    return "unknown" if part.seconds_left is None else format_duration(part.seconds_left)


def dataset_list(datasets: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Print the benchmark graphs as a table, then the citation and the file or download address of each."""
    console = terminal()
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold")
    for heading in ("nodes", "edges", "features", "classes", "visible"):
        table.add_column(heading, justify="right")
    for name, dataset in datasets.items():
        counts = (dataset.nodes, dataset.edges, dataset.features, dataset.classes)
        visible = "" if dataset.has_splits else f"{dataset.visible:,}"
        table.add_row(name, *(f"{count:,}" for count in counts), visible)
    console.print(table)
    console.print(
        "\nvisible: nodes from which all sets but the test set are drawn; the other nodes are the test set.\n"
        "A graph without that number is published with ten splits, and used as published."
    )
    for name, dataset in datasets.items():
        place = places[name] or f"not downloaded; comes from {dataset.url}"
        license = f"; license {dataset.license}" if dataset.license else ""
        metric = "; judged by ROC AUC" if dataset.metric == "roc_auc" else ""
        console.print(f"\n[bold]{name}[/]: {escape(dataset.citation)}{license}{metric}\n  {escape(place)}")


def model_list(models: Mapping[str, Any], dataset: str) -> None:
    """Print the models as a table, then the presets of each with their sources."""
    console = terminal()
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold")
    table.add_column("title")
    table.add_column("weights", justify="right")
    table.add_column("paper")
    for name, model in models.items():
        table.add_row(name, model["title"], f"{model['weights']:,}", escape(model["paper"]))
    console.print(table)
    console.print(f"\nweights and presets are those for {dataset}; --dataset selects another graph.")
    for name, model in models.items():
        for presets, hyperparameters in _merge_equal(model["presets"]):
            default = " (default)" if model["default_preset"] in presets else ""
            noun = "preset" if len(presets) == 1 else "presets"
            console.print(f"\n[bold]{name}[/], {noun} {' and '.join(presets)}{default}")
            sources: dict[str, list[str]] = {}
            for hyperparameter, sourced in hyperparameters.items():
                sources.setdefault(sourced["source"], []).append(f"{hyperparameter}={sourced['value']}")
            for source, values in sources.items():
                console.print(f"  {escape(', '.join(values))}\n    from: {escape(source)}")


def _merge_equal(presets: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
    """Values of the presets, each with the names of all presets that have these values."""
    groups: list[tuple[list[str], Any]] = []
    for preset, values in presets.items():
        names = next((names for names, group_values in groups if group_values == values), None)
        if names is None:
            groups.append(([preset], values))
        else:
            names.append(preset)
    return groups


def _next_trainings(summary: Mapping[str, Any], overrides: Mapping[str, Any], options: str) -> dict[str, str]:
    """Commands to run after a training, each with its reason."""
    from apgcn.data.splits import SEEDS

    command = f"train {summary['dataset']}{options}"
    values = [format_override(name, value) for name, value in overrides.items()]
    same = "".join(f" --set {text}" for text in values)
    same_but_penalty = "".join(f" --set {text}" for text in values if not text.startswith("penalty="))
    larger = 10 * summary["hyperparameters"].get("penalty", 1.0) or 0.005
    commands = {}
    if summary["steps_mean"] > 2 and larger <= 1:
        commands[f"{command}{same_but_penalty} --penalty {larger:g}"] = "larger penalty: nodes stop earlier"
    splits = len(SEEDS[summary["seed_set"]])
    if summary["runs"] < splits:
        commands[f"{command}{same} --runs {splits}"] = "every test split once, with an interval"
    return commands | {"models": "other models", "datasets": "other graphs"}


def _command() -> str:
    """The program as the user can call it: by name if PATH finds it, else by its path."""
    program = Path(sys.argv[0])
    on_path = shutil.which("apgcn")
    if program.name != "apgcn" or (on_path and os.path.samefile(on_path, program)):
        return "apgcn"
    return os.path.relpath(program)
