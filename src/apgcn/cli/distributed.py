"""`torchrun ... -m apgcn train ... --distributed`: one training, whose rows lie on several ranks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apgcn._utils.atomic import BEGUN
from apgcn._utils.formatting import counted
from apgcn.cli import render
from apgcn.cli.fit import check_test_share, held_out
from apgcn.cli.input_files import Files
from apgcn.cli.progress import say
from apgcn.errors import ApgcnError, InvalidInput, RankDied
from apgcn.io.build_graph import TableSchema

if TYPE_CHECKING:
    from apgcn.distributed.communication import Communicator
    from apgcn.distributed.graph_source import Source

KEPT = "what was learned is kept: the same command goes on from there"


def checkpoint_of(out: Path) -> Path:
    """Where a training that will write a folder keeps how far it is: beside it or, if it is there and empty, in it."""
    out = out.resolve()
    return (
        out / f"{BEGUN}checkpoint.safetensors" if out.is_dir() else out.with_name(f".{out.name}.checkpoint.safetensors")
    )


def train_own_together(
    files: Files,
    schema: TableSchema,
    *,
    model: str,
    changes: dict[str, Any],
    initialisations: int,
    test_size: float,
    seed: int,
    device: str,
    partition: str,
    out: Path,
    as_json: bool,
) -> None:
    """Read, split, train, judge and save, together; predictions of all nodes are written by all ranks."""
    from apgcn.distributed.fit import fitted_together
    from apgcn.distributed.outputs import folder_of_all, save_predictions, traffic_of, try_folder
    from apgcn.distributed.train import train_together
    from apgcn.inference.fit import NAME
    from apgcn.inference.splits import stratified_split, without
    from apgcn.training.config import split_config
    from apgcn.training.runs import Run

    chosen, training = split_config(model, changes)
    check_test_share(test_size)
    kept = checkpoint_of(out)
    with _together(device, kept, task=["one's own graph", partition, schema.directed]) as world:
        try_folder(world, out)
        started = time.perf_counter()
        source = world.together(lambda: _source(files, schema, quiet=world.rank > 0))
        split = world.together(lambda: stratified_split(source.labels, test=test_size, seed=seed))
        lacking = without(source, split, asked=held_out(test_size))
        runs = [Run(split, init=seed + number, dataset=NAME) for number in range(initialisations)]
        how = _how(world, partition, kept)
        for note in lacking:
            how["tell"](note)
        with _bar(world, initialisations, label=f"{chosen.title} on {out.name}") as report:
            trained = train_together(world, source, runs, chosen, training, progress=report, **how)
        seconds = time.perf_counter() - started
        if world.rank == 0 and not (trained.pack.lasted[0] > 0).any():
            kept.unlink(missing_ok=True)  # all runs have diverged: nobody wants to go on there
        made = fitted_together(world, trained, source.class_names, source.features)
        notes = made.fitted.notes
        notes |= {"seconds": seconds, "tried": [], "traffic": traffic_of(world, trained)}
        (steps,) = world.sums(trained.said.steps.double().mean(0).sum()[None] / source.nodes)
        with folder_of_all(world, out) as folder:
            world.together(lambda: save_predictions(world, folder, source, trained, made))
            world.together(lambda: None if world.rank else source.save(folder, made.fitted, name=out.name))
        if world.rank == 0:
            kept.unlink(missing_ok=True)
            summary = {
                "nodes": source.nodes,
                "edges": source.edges if schema.directed else source.edges // 2,
                "features": source.features,
                "classes": list(source.class_names),
                "labelled": int((source.labels >= 0).sum()),
                "model": model,
                "initialisations": made.fitted.initialisations,
                "settings": {**vars(chosen), **vars(training)},
                "steps_mean": float(steps),
                "read": [*source.notes, *lacking],
                **notes,
                "out": str(out),
            }
            held = "test" if notes["test"]["nodes"] else "stopping"
            _tell(summary, accuracy=notes[held]["accuracy"], of=held, title=chosen.title, as_json=as_json)


def train_catalogued_together(
    dataset: str,
    *,
    model: str,
    kind: str | None,
    changes: dict[str, Any],
    seed: int,
    device: str,
    partition: str,
    out: Path,
    as_json: bool,
) -> None:
    """One run of the benchmark, together; kept as `apgcn train NAME --out` keeps it."""
    from apgcn.data import load
    from apgcn.data.transforms import clean
    from apgcn.distributed.graph_source import InMemory
    from apgcn.distributed.outputs import folder_of_all, gathered, traffic_of, try_folder
    from apgcn.distributed.train import train_together
    from apgcn.models.presets import presets_for
    from apgcn.models.registry import config_class
    from apgcn.training.config import preset_config
    from apgcn.training.outputs import save, summarize
    from apgcn.training.runs import benchmark_runs

    chosen, training = preset_config(dataset, model=model, kind=kind, **changes)
    kept = checkpoint_of(out)
    with _together(device, kept, task=[dataset, partition, False]) as world:
        try_folder(world, out)
        started = time.perf_counter()
        graph = world.together(lambda: clean(load(dataset)))
        runs = benchmark_runs(graph, 1, seed=seed)
        how = _how(world, partition, kept)
        with _bar(world, 1, label=f"{chosen.title} on {dataset}") as report:
            trained = train_together(world, InMemory(graph), runs, chosen, training, progress=report, **how)
        seconds = time.perf_counter() - started
        results = gathered(world, trained, graph.labels)
        traffic = traffic_of(world, trained)
        if world.rank == 0:
            summary = summarize(results, chosen, training, device=world.device, seconds=seconds)
            summary |= {"ranks": world.size, "traffic": traffic}
            summary["settings_kind"] = kind or presets_for(config_class(model), dataset)[0]
        with folder_of_all(world, out) as folder:
            world.together(lambda: None if world.rank else save(folder, results, summary))
        if world.rank == 0:
            kept.unlink(missing_ok=True)
            summary |= {"out": str(out)}
            accuracy = results[0].test_accuracy
            _tell(summary, accuracy=accuracy, of="test", title=chosen.title, as_json=as_json)
            if summary["diverged"]:
                raise InvalidInput("the run diverged: its loss was never finite; make learning_rate smaller.")


@contextmanager
def _together(device: str, kept: Path, *, task: list[Any]) -> Iterator[Communicator]:
    """The ranks, who must have been told the same; what all of them have found wrong is said by the first."""
    from apgcn.distributed.communication import world

    with world(device) as ranks:
        try:
            for rank, theirs in enumerate(ranks.all_gather(task)):
                if theirs != task:
                    raise InvalidInput(
                        f"all ranks must be told the same, but rank {rank} trains {theirs[0]}, --partition {theirs[1]}"
                        f"{', --directed' if theirs[2] else ''}."
                    )
            yield ranks
        except KeyboardInterrupt:
            if ranks.rank == 0 and kept.exists():
                say(f"{KEPT}.")
            raise
        except RankDied as error:
            if kept.exists():
                raise RankDied(f"{str(error).rstrip('.')}; {KEPT}.") from error
            raise
        except ApgcnError as error:
            error.quiet = ranks.rank > 0
            raise


@contextmanager
def _bar(world: Communicator, runs: int, *, label: str) -> Iterator[Any]:
    """How far it is, on the terminal of rank 0."""
    if world.rank:
        yield None
        return
    with render.progress_bar(runs, label=label) as report:
        yield report


def _how(world: Communicator, partition: str, kept: Path) -> dict[str, Any]:
    """What both kinds of training have in common."""
    tell = say if world.rank == 0 else lambda note: None
    return {"partition": partition, "checkpoint": kept, "tell": tell}


def _source(files: Files, schema: TableSchema, *, quiet: bool) -> Source:
    """The graph: an archive is read in parts, tables as a whole."""
    from apgcn.distributed.graph_source import InMemory
    from apgcn.distributed.streaming_npz import Archive

    if files.arrays and files.graph is not None:
        if schema != TableSchema(directed=schema.directed):
            raise InvalidInput(
                f"{files.graph} holds arrays, not columns: leave out --label and what else is said about columns."
            )
        return Archive(files.graph, directed=schema.directed)
    if schema.label is None:
        raise InvalidInput("--label must name the column of --nodes that holds the classes.")
    read = files.read(schema, quiet=quiet)
    return InMemory(replace(read.graph, name="graph"), read)


def _tell(summary: dict[str, Any], *, accuracy: float, of: str, title: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, allow_nan=False))
        return
    print(
        f"{title}, {counted(summary['ranks'], 'rank')}: accuracy on {of} nodes {100 * accuracy:.2f} %, "
        f"K {summary['steps_mean']:.2f} on average, {render.duration(summary['seconds'])}: {summary['out']}"
    )
    for rank, one in enumerate(summary["traffic"] if summary["ranks"] > 1 else ()):
        print(
            f"rank {rank} sent {one['bytes_per_exchange'] / 2**20:.3g} MiB in each of {one['exchanges']:,} exchanges; "
            f"{100 * one['share_of_time']:.0f} % of its time it talked or waited"
        )
