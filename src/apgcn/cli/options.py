"""Options that several commands share: their declarations, and the functions that check and parse their values."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apgcn._utils.formatting import pluralize
from apgcn.cli.progress import log, log_all
from apgcn.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from apgcn.io.graph_builder import LoadedGraph
    from apgcn.io.schema import TableSchema

EXECUTORS = ("local", "ray")

# Headings of the help pages.
DATA, COLUMNS, MODEL, TRAINING, OUTPUT = "Data", "Columns", "Model", "Training", "Output"

ModelName = Annotated[str, typer.Option("--model", help="A name from `apgcn models`.", rich_help_panel=MODEL)]
FitModelName = Annotated[
    str,
    typer.Option("--model", help="A name from `apgcn models`, or auto: the best of several.", rich_help_panel=MODEL),
]
Penalty = Annotated[
    float | None,
    typer.Option(
        help="Weight of the number of steps in the loss: larger, and nodes stop earlier.", rich_help_panel=MODEL
    ),
]
MaxSteps = Annotated[int | None, typer.Option(help="T, the maximum number of steps.", rich_help_panel=MODEL)]
SetValues = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A hyperparameter, such as hidden_channels, dropout, learning_rate, l2, patience, max_epochs, monitor, "
        "early_stop_mode or another one that `apgcn models MODEL` lists; can be repeated.",
        rich_help_panel=MODEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Random seed of the first initialisation; in `fit` also of the division of the labelled nodes.",
        rich_help_panel=TRAINING,
    ),
]
Device = Annotated[str, typer.Option(help="cpu or cuda.", rich_help_panel=TRAINING)]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="This process is one of the ranks that torchrun started; each holds some rows of the graph.",
        rich_help_panel=TRAINING,
    ),
]
Partition = Annotated[
    str,
    typer.Option(
        help="How --distributed assigns rows to ranks: metis, blocks or auto.",
        rich_help_panel=TRAINING,
    ),
]
AsJSON = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output.", rich_help_panel=OUTPUT)
]
GraphPath = Annotated[
    Path | None,
    typer.Option("--graph", help="One file instead of tables: .graphml, or .npz of `write_npz`.", rich_help_panel=DATA),
]
StorePath = Annotated[
    Path,
    typer.Option("--store", help="Folder of the records; the same command continues there.", rich_help_panel=OUTPUT),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Preset of hyperparameters: paper, published or tuned; default: the one behind the paper's tables.",
        rich_help_panel=MODEL,
    ),
]
ExecutorName = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Where run batches train: local (processes of this machine) or ray (a Ray cluster).",
        rich_help_panel=TRAINING,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of the Ray cluster, auto or host:port; default: a cluster is started on this machine.",
        rich_help_panel=TRAINING,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Number of worker processes; default: 1, or all CPUs that Ray has.",
        rich_help_panel=TRAINING,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads of each worker; default: the cores that this process may use, divided by the workers.",
        rich_help_panel=TRAINING,
    ),
]


# --- hyperparameters ---


def parse_overrides(assignments: Iterable[str], *, model: str, **options: float | None) -> dict[str, Any]:
    """Hyperparameters that the user sets, by name.

    Parameters
    ----------
    assignments : iterable of "NAME=VALUE"
        As passed to --set. Each value is parsed in the type of the hyperparameter's default.
    model : str
        A name of the registry, or "auto": the hyperparameters of all its candidates are known.
    options : values
        Options of the same name, such as --penalty, which have a type already; None where the user passed none.

    Examples
    --------
    >>> parse_overrides(["monitor=training", "hidden_channels=32", "freeze_halted=true"], model="apgcn", penalty=0.05)
    {'monitor': 'training', 'hidden_channels': 32, 'freeze_halted': True, 'penalty': 0.05}
    """
    from apgcn.inference.selection import AUTO, CANDIDATES, registry_name

    defaults: dict[str, Any] = {}
    for name in map(registry_name, CANDIDATES) if model == AUTO else (model,):
        defaults |= _default_hyperparameters(name)
    overrides: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if name not in defaults:
            raise UnknownName(f"hyperparameter of {model}", name, defaults)
        if name in overrides:
            raise InvalidInput(f"{name} must be set once, got it twice.")
        overrides[name] = _parse(name, value, type(defaults[name])) if isinstance(value, str) else value

    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"--set must be NAME=VALUE, got {text!r}.")
        add(name, value)
    for name, option in options.items():
        if option is not None:
            add(name, option)
    return overrides


def _default_hyperparameters(model: str) -> dict[str, Any]:
    """The hyperparameters of a model, and of its training if it has weights, with their defaults."""
    from apgcn.benchmark.config import default_hyperparameters
    from apgcn.models.registry import config_class

    if config_class(model).has_weights:
        return dict(default_hyperparameters(model))
    return {field.name: field.default for field in fields(config_class(model))}


def _parse(name: str, text: str, kind: type) -> Any:
    """A value of a type, from its text."""
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        needed = {int: "an integer", bool: "true or false"}.get(kind, "a number")
        raise InvalidInput(f"{name} must be {needed}, got {text!r}.") from None


def format_override(name: str, value: Any) -> str:
    """NAME=VALUE as `parse_overrides` reads it.

    >>> format_override("freeze_halted", True)
    'freeze_halted=true'
    """
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def split_names(text: str | None) -> list[str] | None:
    """The names in a list separated by commas.

    >>> split_names("apgcn, gcn"), split_names(None)
    (['apgcn', 'gcn'], None)
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


# --- the user's graph ---


@dataclass(frozen=True)
class GraphFiles:
    """The files of a user's graph: the paths after --edges, --nodes and --graph."""

    edges: Path | None
    nodes: Path | None
    graph: Path | None

    def __post_init__(self) -> None:
        if self.graph is not None and (self.edges is not None or self.nodes is not None):
            raise InvalidInput("--graph must be given without --edges and --nodes: it holds both.")
        if self.edges is None and self.nodes is not None:
            raise InvalidInput("--nodes must be given together with --edges.")

    @property
    def is_empty(self) -> bool:
        return self.graph is None and self.edges is None

    @property
    def paths(self) -> tuple[Path | None, ...]:
        return self.edges, self.nodes, self.graph

    @property
    def has_arrays(self) -> bool:
        """Whether the file holds a feature matrix, not columns that must be encoded."""
        return self.graph is not None and self.graph.suffix.lower() == ".npz"

    def read(self, schema: TableSchema, *, quiet: bool = False, **build_options: Any) -> LoadedGraph:
        """Read the graph, and log what was dropped or added unless quiet; options go to `build_graph`."""
        from apgcn.io.graph_builder import build_graph
        from apgcn.io.registry import read_graph, read_table

        if self.graph is not None:
            loaded = read_graph(self.graph, schema, **build_options)
        elif self.edges is not None and self.nodes is not None:
            edges, nodes = read_table(self.edges), read_table(self.nodes)
            loaded = build_graph(edges, nodes, schema, name="graph", **build_options)
        else:
            raise InvalidInput("--edges and --nodes must be given together, or --graph.")
        if not quiet:
            log_all(loaded.notes)
        return loaded


# --- runs of a benchmark ---


def resolve_threads_option(threads: int | None, *, workers: int = 1) -> int:
    """The number of threads of each worker for --threads; one line on standard error if it is less than requested.

    Raises as `resolve_threads`.
    """
    from apgcn.ops.threads import resolve_threads

    resolved = resolve_threads(threads, workers=workers)
    log_fewer_threads(threads, resolved)
    return resolved


def log_fewer_threads(threads: int | None, resolved: int) -> None:
    """Log a line if more threads were requested, by --threads or APGCN_THREADS, than are used."""
    from apgcn.ops.threads import VARIABLE, available_cores, requested_threads

    requested, cores = requested_threads(threads), available_cores()
    if requested is not None and requested > resolved:
        name = VARIABLE if threads is None else "--threads"
        divided = ", which its workers share" if resolved < cores else ""
        log(
            f"{name} {requested} is more than there are cores, so {pluralize(resolved, 'thread')} will be used: "
            f"this process may use {pluralize(cores, 'core')}{divided}."
        )


def check_run_options(
    *,
    runs: int,
    device: str,
    workers: int | None,
    threads: int | None,
    executor: str = "local",
    address: str | None = None,
) -> None:
    """Raise unless so many runs can be trained on the device by these workers."""
    from apgcn._utils.validation import check_int
    from apgcn.ops.devices import parse_device, resolve_device
    from apgcn.ops.threads import requested_threads
    from apgcn.training.runs import MAX_RUNS

    check_int("runs", runs, maximum=MAX_RUNS)
    if executor not in EXECUTORS:
        raise UnknownName("executor", executor, EXECUTORS)
    if address is not None and executor != "ray":
        raise InvalidInput(f"--address must come with --executor ray, got --executor {executor}.")
    cluster = address or (os.environ.get("RAY_ADDRESS") if executor == "ray" else None)
    if cluster and workers is not None:
        raise InvalidInput(
            f"--workers must not come with the address of a cluster ({cluster}), which has its own number of CPUs; "
            "leave one out."
        )
    if workers is not None:
        check_int("workers", workers, maximum=1024)
    (resolve_device if executor == "local" else parse_device)(device)
    requested_threads(threads)
    if executor == "local":
        resolve_threads_option(threads, workers=workers or 1)


def command_text(*arguments: str, **options: str | int | None) -> str:
    """The command for the records, without the store's folder and without options that have their default.

    >>> command_text("reproduce", "table2", models=None, runs=20, device="cuda", workers=1, executor="local")
    'apgcn reproduce table2 --runs 20 --device cuda'
    """
    defaults = {"device": "cpu", "workers": 1, "executor": "local"}
    options = {name: value for name, value in options.items() if value is not None}
    changed = [(f"--{name}", str(value)) for name, value in options.items() if value != defaults.get(name)]
    return shlex.join(["apgcn", *arguments, *(argument for pair in changed for argument in pair)])
