"""`torchrun ... -m apgcn train ... --distributed`: one training, whose rows lie on several ranks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apgcn.checks import check_share
from apgcn.cli import show
from apgcn.cli.given import Files
from apgcn.cli.own import MOST_FOR_TEST
from apgcn.cli.watching import say
from apgcn.errors import ApgcnError, InvalidInput, RankDied
from apgcn.io.assembling import Reading
from apgcn.texts import counted

if TYPE_CHECKING:
    from apgcn.distributed.world import World


def checkpoint_of(out: Path) -> Path:
    """Where a training that will write a folder keeps how far it is."""
    out = out.resolve()
    return out.with_name(f".{out.name}.checkpoint.safetensors")


def train_own_together(
    files: Files,
    reading: Reading,
    *,
    model: str,
    changes: dict[str, Any],
    initialisations: int,
    test_share: float,
    seed: int,
    device: str,
    partition: str,
    out: Path,
    as_json: bool,
) -> None:
    """Read, split, train, judge and save, together; predictions of all nodes are written by all ranks."""
    from apgcn.distributed.fitting import fitted_together
    from apgcn.distributed.saving import folder_of_all, save_model, save_predictions, traffic_of
    from apgcn.distributed.training import train_together
    from apgcn.own.fitting import NAME
    from apgcn.own.holdout import hold_out
    from apgcn.training.paper import divide_settings
    from apgcn.training.runs import Run

    chosen, training = divide_settings(model, changes)
    check_share("--test-share", test_share)
    if test_share > MOST_FOR_TEST:
        raise InvalidInput(f"--test-share must leave nodes to train: at most {MOST_FOR_TEST}, got {test_share}.")
    with _together(device, out) as world:
        with folder_of_all(world, out) as folder:
            started = time.perf_counter()
            source, read = world.together(lambda: _source(files, reading, quiet=world.rank > 0))
            split = world.together(lambda: hold_out(source.labels, test=test_share, seed=seed))
            runs = [Run(split, initialisation=seed + number, dataset=NAME) for number in range(initialisations)]
            how = _how(world, partition, out)
            with _bar(world, initialisations, label=f"{chosen.title} on {out.name}") as report:
                trained = train_together(world, source, runs, chosen, training, progress=report, **how)
            seconds = time.perf_counter() - started
            made = fitted_together(world, trained, source.class_names, source.features)
            notes = made.fitted.notes
            notes |= {"seconds": seconds, "tried": [], "traffic": traffic_of(world, trained)}
            world.together(lambda: save_predictions(world, folder, source, trained, made))
            world.together(lambda: None if world.rank else save_model(folder, made.fitted, source, read, name=out.name))
            (steps,) = world.sums(trained.said.steps.double().mean(0).sum()[None] / source.nodes)
        if world.rank == 0:
            checkpoint_of(out).unlink(missing_ok=True)
            summary = {
                "nodes": source.nodes,
                "features": source.features,
                "classes": list(source.class_names),
                "labelled": int((source.labels >= 0).sum()),
                "model": model,
                "initialisations": made.fitted.initialisations,
                "settings": {**vars(chosen), **vars(training)},
                "steps_mean": float(steps),
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
    from apgcn.cleaning import clean
    from apgcn.datasets import load
    from apgcn.distributed.saving import folder_of_all, gathered, traffic_of
    from apgcn.distributed.sources import InMemory
    from apgcn.distributed.training import train_together
    from apgcn.models.catalogue import settings_of
    from apgcn.models.given import kinds_for
    from apgcn.training.paper import paper_settings
    from apgcn.training.runs import benchmark_runs
    from apgcn.training.saving import save
    from apgcn.training.summary import summarize

    chosen, training = paper_settings(dataset, model=model, kind=kind, **changes)
    with _together(device, out) as world:
        with folder_of_all(world, out) as folder:
            started = time.perf_counter()
            graph = world.together(lambda: clean(load(dataset)))
            runs = benchmark_runs(graph, 1, seed=seed)
            how = _how(world, partition, out)
            with _bar(world, 1, label=f"{chosen.title} on {dataset}") as report:
                trained = train_together(world, InMemory(graph), runs, chosen, training, progress=report, **how)
            seconds = time.perf_counter() - started
            results = gathered(world, trained, graph.labels)
            traffic = traffic_of(world, trained)
            if world.rank == 0:
                summary = summarize(results, chosen, training, device=world.device, seconds=seconds)
                summary |= {"ranks": world.size, "traffic": traffic}
                summary["settings_kind"] = kind or kinds_for(settings_of(model), dataset)[0]
                save(folder, results, summary)
        if world.rank == 0:
            checkpoint_of(out).unlink(missing_ok=True)
            summary |= {"out": str(out)}
            accuracy = results[0].test_accuracy
            _tell(summary, accuracy=accuracy, of="test", title=chosen.title, as_json=as_json)
            if summary["diverged"]:
                raise InvalidInput("the run diverged: its loss was never finite; make learning_rate smaller.")


@contextmanager
def _together(device: str, out: Path) -> Iterator[World]:
    """The ranks; what all of them have found wrong is said by the first."""
    from apgcn.distributed.world import world

    with world(device) as ranks:
        try:
            yield ranks
        except KeyboardInterrupt:
            if ranks.rank == 0 and checkpoint_of(out).exists():
                say("what was learned is kept: the same command goes on from there.")
            raise
        except ApgcnError as error:
            error.quiet = ranks.rank > 0 and not isinstance(error, RankDied)
            raise


@contextmanager
def _bar(world: World, runs: int, *, label: str) -> Iterator[Any]:
    """How far it is, on the terminal of rank 0."""
    if world.rank:
        yield None
        return
    with show.progress_bar(runs, label=label) as report:
        yield report


def _how(world: World, partition: str, out: Path) -> dict[str, Any]:
    """What both kinds of training have in common."""
    tell = say if world.rank == 0 else lambda note: None
    return {"partition": partition, "checkpoint": checkpoint_of(out), "tell": tell}


def _source(files: Files, reading: Reading, *, quiet: bool) -> tuple[Any, Any]:
    """The graph: an archive is read in parts, tables as a whole."""
    from apgcn.distributed.reading import Archive
    from apgcn.distributed.sources import InMemory

    if files.arrays and files.graph is not None:
        if reading != Reading(directed=reading.directed):
            raise InvalidInput(
                f"{files.graph} holds arrays, not columns: leave out --label and what else is said about columns."
            )
        return Archive(files.graph, directed=reading.directed), None
    if reading.label is None:
        raise InvalidInput("--label must name the column of --nodes that holds the classes.")
    read = files.read(reading, quiet=quiet)
    return InMemory(replace(read.graph, name="graph")), read


def _tell(summary: dict[str, Any], *, accuracy: float, of: str, title: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, allow_nan=False))
        return
    print(
        f"{title}, {counted(summary['ranks'], 'rank')}: accuracy on {of} nodes {100 * accuracy:.2f} %, "
        f"K {summary['steps_mean']:.2f} on average, {show.duration(summary['seconds'])}: {summary['out']}"
    )
    for rank, one in enumerate(summary["traffic"]):
        print(
            f"rank {rank} sent {one['bytes_per_exchange'] / 2**20:.3g} MiB in each of {one['exchanges']:,} exchanges; "
            f"{100 * one['share_of_time']:.0f} % of its time it talked or waited"
        )
