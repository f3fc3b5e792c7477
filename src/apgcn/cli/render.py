"""What does a person see in the terminal? Results go to standard output, progress to standard error."""

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

from apgcn._utils.formatting import printable

BAR = 40  # characters of the longest bar
FEW_RUNS = 20  # fewer give an interval that is too narrow: there is too little to resample


@contextmanager
def progress_bar(runs: int, *, label: str) -> Iterator[Callable[[Any], None]]:
    """A bar that ends when every run has stopped; nobody knows when one will, so the time left is the least."""
    done = ", {task.fields[done]}/{task.fields[runs]} runs" if runs > 1 else ""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("epoch {task.fields[epoch]}" + done + ", at least"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(escape(label), total=1.0, epoch=0, done=0, runs=runs)
        yield lambda at: bar.update(task, completed=at.share, epoch=at.epoch, done=at.done)


def trained(
    model: Any,
    dataset: Any,
    split: Any,
    summary: Mapping[str, Any],
    *,
    changed: Sequence[str],
    again: str,
    out: Path | None,
) -> None:
    """The result of a training: accuracy, steps, histogram, time, and what to type next.

    `model` and `dataset` are their lines in the catalogues; `changed` are the settings that the user typed, NAME=VALUE,
    and `again` the options.
    """
    console = terminal()
    runs = summary["runs"]
    interval = summary["accuracy_ci95"]
    console.print(
        f"[bold]{model.title} on {dataset.title}[/]: {dataset.nodes:,} nodes, {dataset.edges:,} edges, "
        f"{dataset.features:,} features, {dataset.classes} classes"
    )
    console.print(
        f"{'1 run' if runs == 1 else f'{runs} runs, each'} with {len(split.train)} training, "
        f"{len(split.stopping)} stopping and {len(split.test):,} test nodes"
    )
    settings = summary["settings"]
    named = [name for name in ("penalty", "max_steps", "teleport") if name in settings] or ["hidden_channels"]
    shown = [f"{name}={settings[name]:g}" for name in named if name in settings]
    others = [text for text in changed if text.partition("=")[0] not in named]
    kind = summary["settings_kind"]
    console.print(f"settings {escape(', '.join([*shown, *others]))}, the others from the catalogue ({kind})")
    console.print()
    plus_minus = "±" if _can_print("±") else "+-"
    few = ", too few to trust it" if runs < FEW_RUNS else ""
    spread = "" if interval is None else f" {plus_minus} {100 * interval:.2f} (95 % interval over {runs} runs{few})"
    console.print(f"accuracy on test nodes  [bold]{100 * summary['accuracy_mean']:.2f} %[/]{spread}")
    if "penalty" in settings:
        console.print(
            f"steps K                 [bold]{summary['steps_mean']:.2f}[/] on average, "
            f"standard deviation {summary['steps_std']:.2f} over nodes"
        )
        for line in histogram(summary["steps_histogram"]):
            console.print(line)
    else:
        console.print(f"steps K                 {summary['steps_mean']:g} for every node")
    if model.has_weights:
        console.print(f"epochs                  {summary['epochs_mean']:.0f}{' on average' if runs > 1 else ''}")
    console.print(f"time                    {duration(summary['seconds'])} on {summary['device']}")
    if out:
        console.print(f"written                 {escape(str(out))}")
    console.print()
    console.print("what to type next:")
    for line in _suggestions(summary, changed, again):
        console.print(f"  {escape(line)}")


def terminal() -> Console:
    """Standard output; where it is no terminal, wide enough that nothing is cut or folded."""
    width = None if sys.stdout is not None and sys.stdout.isatty() else 400
    return Console(highlight=False, soft_wrap=True, width=width)


def histogram(counts: Sequence[int]) -> list[str]:
    """Nodes by the number of steps they took, as bars.

    >>> for line in histogram([0, 2, 6]): print(line.replace("█", "#"))
      K =  1 |                                            0.0 %
      K =  2 |#############                              25.0 %
      K =  3 |########################################   75.0 %
    """
    total, longest = sum(counts), max(counts)
    block = "█" if _can_print("█") else "#"
    return [
        f"  K = {k:2} |{block * round(BAR * count / longest):{BAR}} {100 * count / total:6.1f} %"
        for k, count in enumerate(counts, start=1)
    ]


def _can_print(character: str) -> bool:
    try:
        character.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def duration(seconds: float) -> str:
    """For people.

    >>> duration(7.31), duration(75.0), duration(3725)
    ('7.3 s', '1 min 15 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def artifact(content: Any) -> None:
    """A table or the numbers behind a figure, with its notes."""
    content = content.without_what_was_not_run()
    console = terminal()
    console.print(f"\n[bold]{escape(content.heading)}[/]")
    table = Table(box=None, pad_edge=False)
    for column in content.table.columns:
        table.add_column(escape(column.heading), justify="left" if column.words else "right")
    for cells in content.table.cells:
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)
    for note in content.notes:
        console.print(f"[dim]{escape(note)}[/]")


def next_commands(commands: Mapping[str, str]) -> None:
    """What to type next, each with its reason."""
    console = terminal()
    lines = {f"{_command()} {command}": why for command, why in commands.items()}
    width = max(map(len, lines))
    console.print("\nwhat to type next:")
    for line, why in lines.items():
        console.print(f"  {escape(f'{line:{width}}  # {why}')}")


def standing(now: Any) -> None:
    """What is done, what is left, how long it will take."""
    from apgcn.benchmark.formatting import hyperparameters_words

    console = terminal()
    if not now.planned:
        console.print("no runs were planned here, only graphs counted or epochs timed.")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("graph", "model", "for", "settings"):
        table.add_column(heading, overflow="fold")
    for heading in ("labels", "done", "planned", "left, one worker"):
        table.add_column(heading, justify="right")
    for part in now.parts:
        run_config = part.run_config
        words = (run_config.dataset, run_config.model, run_config.seed_set, hyperparameters_words(run_config))
        numbers = (run_config.train_per_class, part.done, part.planned, _time_left(part))
        table.add_row(*(escape(printable(word)) for word in words), *map(str, numbers))
    console.print(table)
    left = now.planned - now.done
    if not left:
        console.print(f"\nall {now.planned} runs that were planned are done.")
        return
    console.print(f"\n{now.done} of {now.planned} runs are done, {left} {'is' if left == 1 else 'are'} left.")
    workers = max(1, now.in_training)
    if now.in_training:
        packs = "1 pack is" if now.in_training == 1 else f"{now.in_training} packs are"
        console.print(f"{packs} in training now.")
    else:
        console.print("nobody is training now; the command that planned them goes on with what is left.")
    if now.seconds_left is None:
        console.print("how long it will take shows when a pack of every model is done.")
    else:
        at_once = "" if workers == 1 else f", {workers} packs at once"
        console.print(f"about {duration(now.seconds_left / workers)} of work are left{at_once}.")


def _time_left(part: Any) -> str:
    if not part.left:
        return ""
    return "unknown" if part.seconds_left is None else duration(part.seconds_left)


def catalogue(datasets: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """The catalogue as a table, and below it where each file is or would come from."""
    console = terminal()
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold")
    for heading in ("nodes", "edges", "features", "classes", "visible"):
        table.add_column(heading, justify="right")
    for name, dataset in datasets.items():
        counts = (dataset.nodes, dataset.edges, dataset.features, dataset.classes, dataset.visible)
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)
    for name, dataset in datasets.items():
        place = found[name] or f"not here yet; comes from {dataset.address}"
        console.print(f"\n[bold]{name}[/]: {escape(dataset.citation)}\n  {escape(place)}")


def models(listed: Mapping[str, Any], dataset: str) -> None:
    """The models as a table, and below it each one's settings."""
    console = terminal()
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold")
    table.add_column("title")
    table.add_column("weights", justify="right")
    table.add_column("paper")
    for name, one in listed.items():
        table.add_row(name, one["title"], f"{one['weights']:,}", escape(one["paper"]))
    console.print(table)
    console.print(f"\nweights and settings are for {dataset}; --dataset names another graph.")
    for name, one in listed.items():
        for kinds, settings in _told_once(one["settings"]):
            usual = ", the default" if one["usual"] in kinds else ""
            console.print(f"\n[bold]{name}[/], {' and '.join(kinds)} settings{usual}")
            sources: dict[str, list[str]] = {}
            for setting, sourced in settings.items():
                sources.setdefault(sourced["source"], []).append(f"{setting}={sourced['value']}")
            for source, texts in sources.items():
                console.print(f"  {escape(', '.join(texts))}\n    from: {escape(source)}")


def _told_once(settings: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
    """The settings of each kind, those of kinds that agree together."""
    groups: list[tuple[list[str], Any]] = []
    for kind, values in settings.items():
        same = next((kinds for kinds, others in groups if others == values), None)
        if same is None:
            groups.append(([kind], values))
        else:
            same.append(kind)
    return groups


def _suggestions(summary: Mapping[str, Any], changed: Sequence[str], options: str) -> list[str]:
    """Commands that go on from here, each with its reason."""
    again = f"{_command()} train {summary['dataset']}{options}"
    typed = "".join(f" --set {text}" for text in changed)
    others = "".join(f" --set {text}" for text in changed if not text.startswith("penalty="))
    dearer = 10 * summary["settings"].get("penalty", 1.0) or 0.005
    lines = {}
    if summary["steps_mean"] > 2 and dearer <= 1:
        lines[f"{again}{others} --penalty {dearer:g}"] = "a dearer step: nodes stop earlier"
    if summary["runs"] < 20:
        lines[f"{again}{typed} --runs 20"] = "every test split once, with an interval"
    lines[f"{_command()} models"] = "other models"
    lines[f"{_command()} datasets"] = "other graphs"
    width = max(map(len, lines))
    return [f"{line:{width}}  # {why}" for line, why in lines.items()]


def _command() -> str:
    """How the user can call this program: by name if that finds it, else by path."""
    called = Path(sys.argv[0])
    on_path = shutil.which("apgcn")
    if called.name != "apgcn" or (on_path and os.path.samefile(on_path, called)):
        return "apgcn"
    return os.path.relpath(called)
