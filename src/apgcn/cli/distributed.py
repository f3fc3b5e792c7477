"""Training on several ranks: `torchrun ... -m apgcn train` or `fit` with `--distributed`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apgcn._utils.atomic import PARTIAL_PREFIX
from apgcn._utils.formatting import format_duration, pluralize
from apgcn.cli import render
from apgcn.cli.options import GraphFiles, log_fewer_threads
from apgcn.cli.progress import log
from apgcn.errors import ApgcnError, InvalidInput, RankDied

if TYPE_CHECKING:
    from apgcn.distributed.communication import Communicator
    from apgcn.distributed.graph_shard import GraphSource
    from apgcn.io.schema import TableSchema

RESUME_HINT = "a checkpoint is kept: the same command continues from there"


def check_distributed_options(distributed: bool, *, partition: str, out: Path | None) -> None:
    """Raise unless --distributed, --partition, --out and torchrun go together."""
    if distributed:
        if out is None:
            raise InvalidInput("--distributed must come with --out, the new folder of the model.")
    elif partition != "auto":
        raise InvalidInput("--partition must come with --distributed.")
    elif "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise InvalidInput(
            f"torchrun has started {os.environ['WORLD_SIZE']} processes, which need --distributed; add it, or start "
            "apgcn without torchrun."
        )


def checkpoint_path(out: Path) -> Path:
    """The checkpoint of a training with this --out: in the folder if it exists and is empty, else beside it."""
    out = out.resolve()
    if out.is_dir():
        return out / f"{PARTIAL_PREFIX}checkpoint.safetensors"
    return out.with_name(f".{out.name}.checkpoint.safetensors")


def fit_on_ranks(
    files: GraphFiles,
    schema: TableSchema,
    *,
    model: str,
    overrides: dict[str, Any],
    ensemble_size: int,
    test_size: float,
    seed: int,
    device: str,
    threads: int | None,
    partition: str,
    out: Path,
    as_json: bool,
) -> None:
    """`apgcn fit --distributed`: read, split, train, evaluate and save; each rank writes predictions for its nodes."""
    from apgcn.distributed.outputs import (
        build_trained_model,
        check_shared_folder,
        shared_folder,
        traffic_by_rank,
        write_predictions_of_rank,
    )
    from apgcn.distributed.train import train_sharded
    from apgcn.inference.fit import GRAPH_NAME
    from apgcn.inference.splits import held_out_sets, missing_class_notes, stratified_split
    from apgcn.training.config import configs_from_values
    from apgcn.training.runs import Run

    model_config, training = configs_from_values(model, overrides)
    checkpoint = checkpoint_path(out)
    with _connect(device, checkpoint, task=["the user's graph", partition, schema.directed]) as comm:
        check_shared_folder(comm, out)
        num_threads = _resolve_threads(comm, threads)
        started = time.perf_counter()
        source = comm.run_collectively(lambda: _graph_source(files, schema, quiet=comm.rank > 0))
        split = comm.run_collectively(lambda: stratified_split(source.labels, test_size=test_size, seed=seed))
        split_notes = missing_class_notes(source, split, sets=held_out_sets(split))
        source.notes.extend(split_notes)
        runs = [Run(split, init=seed + number, dataset=GRAPH_NAME) for number in range(ensemble_size)]
        notify = _notify_on_rank_0(comm)
        for note in split_notes:
            notify(note)
        with _progress_bar(comm, ensemble_size, label=f"{model_config.title} on {out.name}") as report:
            result = train_sharded(
                comm,
                source,
                runs,
                model_config,
                training,
                partition=partition,
                threads=num_threads,
                checkpoint=checkpoint,
                progress=report,
                notify=notify,
            )
        seconds = time.perf_counter() - started
        if comm.rank == 0 and not (result.trainer.finished_epochs[0] > 0).any():
            checkpoint.unlink(missing_ok=True)  # all runs have diverged: there is nothing to resume
        sharded_model = build_trained_model(comm, result, source.class_names, source.num_features)
        metrics = sharded_model.model.metrics
        metrics |= {"seconds": seconds, "threads": num_threads if comm.device.type == "cpu" else None}
        metrics |= {"trials": [], "traffic": traffic_by_rank(comm, result)}
        (steps_mean,) = comm.all_reduce(result.output.steps.double().mean(0).sum()[None] / source.num_nodes)
        with shared_folder(comm, out) as folder:
            comm.run_collectively(lambda: write_predictions_of_rank(comm, folder, source, result, sharded_model))
            comm.run_collectively(
                lambda: None if comm.rank else source.save(folder, sharded_model.model, name=out.name)
            )
        if comm.rank == 0:
            checkpoint.unlink(missing_ok=True)
            summary = {
                "nodes": source.num_nodes,
                "edges": source.num_directed_edges if schema.directed else source.num_directed_edges // 2,
                "features": source.num_features,
                "classes": list(source.class_names),
                "labelled": int((source.labels >= 0).sum()),
                "model": model,
                "ensemble_size": sharded_model.model.ensemble_size,
                "hyperparameters": {**vars(model_config), **vars(training)},
                "steps_mean": float(steps_mean),
                "notes": source.notes,
                **metrics,
                "out": str(out),
            }
            set_name = "test" if metrics["test"]["nodes"] else "stopping"
            accuracy = metrics[set_name]["accuracy"]
            _show(summary, accuracy=accuracy, set_name=set_name, title=model_config.title, as_json=as_json)


def train_on_ranks(
    dataset: str,
    *,
    model: str,
    preset: str | None,
    overrides: dict[str, Any],
    seed: int,
    device: str,
    threads: int | None,
    partition: str,
    out: Path,
    as_json: bool,
) -> None:
    """`apgcn train DATASET --distributed`: one run of the benchmark, saved as without `--distributed`."""
    from apgcn.data import load_prepared
    from apgcn.data.splits import default_seed_set
    from apgcn.distributed.graph_shard import InMemorySource
    from apgcn.distributed.outputs import check_shared_folder, gather_results, shared_folder, traffic_by_rank
    from apgcn.distributed.train import train_sharded
    from apgcn.models.presets import presets_for
    from apgcn.training.config import preset_config
    from apgcn.training.outputs import save, summarize
    from apgcn.training.runs import benchmark_runs

    model_config, training = preset_config(dataset, model=model, preset=preset, **overrides)
    checkpoint = checkpoint_path(out)
    with _connect(device, checkpoint, task=[dataset, partition, False]) as comm:
        check_shared_folder(comm, out)
        num_threads = _resolve_threads(comm, threads)
        started = time.perf_counter()
        graph = comm.run_collectively(lambda: load_prepared(dataset))
        runs = benchmark_runs(graph, 1, seed=seed)
        with _progress_bar(comm, 1, label=f"{model_config.title} on {dataset}") as report:
            result = train_sharded(
                comm,
                InMemorySource(graph),
                runs,
                model_config,
                training,
                partition=partition,
                threads=num_threads,
                checkpoint=checkpoint,
                progress=report,
                notify=_notify_on_rank_0(comm),
            )
        seconds = time.perf_counter() - started
        results = gather_results(comm, result, graph.labels)
        traffic = traffic_by_rank(comm, result)
        if comm.rank == 0:
            summary = summarize(
                results, model_config, training, device=comm.device, threads=num_threads, seconds=seconds
            )
            summary |= {"ranks": comm.size, "traffic": traffic}
            summary["preset"] = preset or presets_for(model, dataset)[0]
            summary["seed_set"] = default_seed_set(dataset)
        with shared_folder(comm, out) as folder:
            comm.run_collectively(lambda: None if comm.rank else save(folder, results, summary))
        if comm.rank == 0:
            checkpoint.unlink(missing_ok=True)
            summary |= {"out": str(out)}
            accuracy = results[0].test_accuracy
            _show(summary, accuracy=accuracy, set_name="test", title=model_config.title, as_json=as_json)
            if summary["diverged"]:
                raise InvalidInput("the run diverged: its loss was never finite; make learning_rate smaller.")


@contextmanager
def _connect(device: str, checkpoint: Path, *, task: list[Any]) -> Iterator[Communicator]:
    """Connect the ranks, check that all were started with the same task, and let rank 0 report errors."""
    from apgcn.distributed.communication import connect_ranks

    with connect_ranks(device) as comm:
        try:
            for rank, task_of_rank in enumerate(comm.all_gather(task)):
                if task_of_rank != task:
                    dataset, partition, directed = task_of_rank
                    raise InvalidInput(
                        f"all ranks must get the same arguments, but rank {rank} trains {dataset}, --partition "
                        f"{partition}{', --directed' if directed else ''}."
                    )
            yield comm
        except KeyboardInterrupt:
            if comm.rank == 0 and checkpoint.exists():
                log(f"{RESUME_HINT}.")
            raise
        except RankDied as error:
            if checkpoint.exists():
                raise RankDied(f"{str(error).rstrip('.')}; {RESUME_HINT}.") from error
            raise
        except ApgcnError as error:
            error.quiet = comm.rank > 0
            raise


def _resolve_threads(comm: Communicator, threads: int | None) -> int:
    """The number of threads of this rank; rank 0 logs a line if it is less than requested."""
    from apgcn.distributed.train import rank_threads

    resolved = rank_threads(comm, threads)
    if comm.rank == 0:
        log_fewer_threads(threads, resolved)
    return resolved


@contextmanager
def _progress_bar(comm: Communicator, runs: int, *, label: str) -> Iterator[Any]:
    """A progress bar on the terminal of rank 0; None on the others."""
    if comm.rank:
        yield None
        return
    with render.progress_bar(runs, label=label) as report:
        yield report


def _notify_on_rank_0(comm: Communicator) -> Any:
    """A function that logs a line on rank 0 and does nothing on the others."""
    return log if comm.rank == 0 else lambda note: None


def _graph_source(files: GraphFiles, schema: TableSchema, *, quiet: bool) -> GraphSource:
    """The graph: an .npz archive is streamed, tables and other files are read into memory."""
    from apgcn.distributed.graph_shard import InMemorySource
    from apgcn.distributed.streaming_npz import NpzSource
    from apgcn.io.schema import TableSchema

    if files.has_arrays and files.graph is not None:
        if schema != TableSchema(directed=schema.directed):
            raise InvalidInput(
                f"{files.graph} contains arrays, not columns; omit --label and the other options about columns."
            )
        return NpzSource(files.graph, directed=schema.directed)
    if schema.label is None:
        raise InvalidInput("--label must name the column of --nodes that holds the classes.")
    loaded = files.read(schema, quiet=quiet, structure="none")
    return InMemorySource(replace(loaded.graph, name="graph"), loaded)


def _show(summary: dict[str, Any], *, accuracy: float, set_name: str, title: str, as_json: bool) -> None:
    """Print the result of a training on several ranks."""
    if as_json:
        print(json.dumps(summary, allow_nan=False))
        return
    print(
        f"{title}, {pluralize(summary['ranks'], 'rank')}: accuracy on {set_name} nodes {100 * accuracy:.2f} %, "
        f"steps K {summary['steps_mean']:.2f} on average, {format_duration(summary['seconds'])}: {summary['out']}"
    )
    for rank, traffic in enumerate(summary["traffic"] if summary["ranks"] > 1 else ()):
        print(
            f"rank {rank} sent {traffic['bytes_per_exchange'] / 2**20:.3g} MiB in each of {traffic['exchanges']:,} "
            f"halo exchanges and spent {100 * traffic['communication_fraction']:.0f} % of its time on communication"
        )
