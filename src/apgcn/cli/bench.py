"""`apgcn bench`: time epochs and trainings on this machine, beside PyTorch Geometric."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from apgcn._utils.formatting import pluralize
from apgcn.cli.options import DATA, TRAINING, AsJSON, Device, Threads, resolve_threads_option
from apgcn.cli.progress import log
from apgcn.cli.render import terminal

if TYPE_CHECKING:
    import torch

    from apgcn.data.graph import Graph
    from apgcn.data.splits import Split

BATCH_SIZES = "1,8,100"
MIN_EDGES = 10_000  # of a synthetic graph
TITLES = {"apgcn": "apgcn", "pyg_apgcn": "AP-GCN in PyTorch Geometric", "pyg_appnp": "APPNP in PyTorch Geometric"}


def bench(
    datasets: Annotated[
        str | None,
        typer.Argument(
            help="Names from `apgcn datasets` separated by commas, or all for the paper's six; default: cora_ml, or "
            "cora if the file of cora_ml is missing."
        ),
    ] = None,
    edges: Annotated[
        int | None,
        typer.Option(
            help="Time a synthetic graph with this number of undirected edges instead, 10000 to 100000000.",
            rich_help_panel=DATA,
        ),
    ] = None,
    batch_sizes: Annotated[
        str,
        typer.Option(help="Numbers of runs per batch; those that do not fit into memory are left out."),
    ] = BATCH_SIZES,
    repeats: Annotated[int, typer.Option(help="Number of measurements of everything, interleaved.")] = 15,
    train: Annotated[
        int, typer.Option(help="Also train this number of runs on each graph to the end.", rich_help_panel=TRAINING)
    ] = 0,
    workers: Annotated[
        int, typer.Option(help="Number of processes that share these runs on a CPU.", rich_help_panel=TRAINING)
    ] = 2,
    threads: Threads = None,
    device: Device = "cpu",
    as_json: AsJSON = False,
) -> None:
    """Time an epoch of AP-GCN on this machine, interleaved with the same in stock PyTorch Geometric."""
    from apgcn._utils.validation import check_int
    from apgcn.benchmark.speed.end_to_end import time_imports, time_trainings
    from apgcn.benchmark.speed.targets import compare_with_targets
    from apgcn.benchmark.worker import cleaned_graph
    from apgcn.errors import InvalidInput
    from apgcn.ops.devices import hardware, peak_memory, resolve_device
    from apgcn.training.outputs import versions

    torch_device = resolve_device(device)
    for name, value in (("repeats", repeats), ("workers", workers)):
        check_int(name, value)
    check_int("train", train, minimum=0)
    sizes = _parse_batch_sizes(batch_sizes)
    num_threads = resolve_threads_option(threads)
    if edges is not None and (datasets or train):
        raise InvalidInput(
            "--edges makes a synthetic graph, which is not trained to the end; leave out the datasets and --train."
        )
    names = _dataset_names(datasets) if edges is None else []
    measured: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": str(torch_device),
        "hardware": hardware(torch_device),
        "threads": num_threads if torch_device.type == "cpu" else None,
        "versions": versions(),
        "command": " ".join(["apgcn", *sys.argv[1:]]),
        "graphs": [],
        "trainings": [],
    }
    graphs = [_synthetic(edges, torch_device)] if edges is not None else [cleaned_graph(name) for name in names]
    for number, graph in enumerate(graphs):
        log(f"timing epochs on {graph.name} ...")
        with_baselines = number == 0 and edges is None
        measured["graphs"].append(
            _time_graph(
                graph, sizes, repeats=repeats, device=torch_device, threads=num_threads, with_baselines=with_baselines
            )
        )
    measured["memory"] = peak_memory()
    for name in names if train else []:
        log(f"training {train} runs on {name} ...")
        training = time_trainings(name, train, device=device, workers=workers, threads=threads)
        log(f"... {training.seconds:.1f} s")
        measured["trainings"].append(asdict(training))
    log("timing imports ...")
    measured["import_seconds"] = time_imports()._asdict()
    measured |= {
        f"speedup_over_{baseline}": _speedup(measured["graphs"][0], baseline) for baseline in ("pyg_apgcn", "pyg_appnp")
    }
    measured["targets"] = (
        [] if edges else compare_with_targets(_target_values(measured, cora_ml=names[:1] == ["cora_ml"]))
    )
    if as_json:
        print(json.dumps(measured))
    else:
        _show(measured)


def _show(measured: Mapping[str, Any]) -> None:
    """Print times of epochs and trainings, and the targets they are compared with."""
    console = terminal()
    console.print(
        f"[bold]{escape(measured['hardware'])}[/], {_device_text(measured)}, PyTorch {measured['versions']['torch']}"
    )
    for graph in measured["graphs"]:
        table = Table(
            title=f"{graph['dataset']}: {graph['nodes']:,} nodes, {graph['directed_edges'] // 2:,} edges",
            title_justify="left",
        )
        for name in ("", "runs", "step ms", "evaluation ms", "epoch ms", "quartiles", "per run ms"):
            table.add_column(name, justify="left" if not name else "right")
        for epoch in graph["epochs"]:
            spread = f"{epoch['epoch_low']:.2f}-{epoch['epoch_high']:.2f}"
            times = [epoch[part] for part in ("step_ms", "evaluation_ms", "epoch_ms")]
            cells = [f"{time:.2f}" for time in times] + [spread, f"{epoch['epoch_ms'] / epoch['runs']:.2f}"]
            table.add_row(TITLES[epoch["name"]], str(epoch["runs"]), *cells)
        console.print(table)
    for training in measured["trainings"]:
        console.print(
            f"{training['runs']} runs on {training['dataset']}, {training['workers']} at a time: "
            f"{training['seconds']:.1f} s, {training['epochs_mean']:.0f} epochs on average, "
            f"accuracy {100 * training['accuracy_mean']:.2f} %, "
            f"{training['memory'] / 1e9:.2f} GB"
        )
    if measured["speedup_over_pyg_apgcn"] is None and any(
        graph["dataset"] != "synthetic" for graph in measured["graphs"]
    ):
        console.print(escape('the comparison needs PyTorch Geometric: pip install "apgcn[pyg]"'))
    if measured["device"] == "cpu" and "numba" not in measured["versions"]:
        console.print("numba, which makes this faster, is not installed: pip install numba")
    if not measured["targets"]:
        return
    table = Table("target", "measured", "must", "aim", "verdict")
    for target in measured["targets"]:
        values = [target["measured"], target["must"], target["aim"]]
        cells = ["" if value is None else f"{value:.3g} {target['unit']}" for value in values]
        table.add_row(target["name"], *cells, target["verdict"])
    console.print(table)


def _device_text(measured: Mapping[str, Any]) -> str:
    """The device, and on a CPU the number of threads."""
    return measured["device"] + (f", {pluralize(measured['threads'], 'thread')}" if measured["threads"] else "")


def _dataset_names(text: str | None) -> list[str]:
    """The names of the graphs; the first is timed beside PyTorch Geometric."""
    from apgcn.data import dataset_info
    from apgcn.data.download import find_file
    from apgcn.data.registry import AMAZON_GRAPHS, CITATION_GRAPHS, DATASETS

    if text == "all":
        return ["cora_ml", *(name for name in CITATION_GRAPHS + AMAZON_GRAPHS if name != "cora_ml")]
    if text:
        return [dataset_info(name.strip()).name for name in text.split(",")]
    if find_file(DATASETS["cora_ml"]):
        return ["cora_ml"]
    log("the file of cora_ml is missing, so the embedded cora is timed instead.")
    return ["cora"]


def _parse_batch_sizes(text: str) -> list[int]:
    from apgcn._utils.validation import check_int
    from apgcn.errors import InvalidInput

    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"--batch-sizes must be integers separated by commas, such as {BATCH_SIZES}, got {text!r}."
        ) from None
    for size in sizes:
        check_int("batch size", size, maximum=100)
    return sizes


def _synthetic(edges: int, device: torch.device) -> Graph:
    """A synthetic graph of average degree 20, if an epoch on it fits into memory.

    The memory of a run grows linearly with the edges, so it is extrapolated from a small graph.
    """
    from apgcn._utils.validation import check_int
    from apgcn.data.synthetic import synthetic_graph
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.ops.devices import available_memory
    from apgcn.training.batching import bytes_per_run, check_memory

    check_int("edges", edges, minimum=MIN_EDGES, maximum=100_000_000)
    small = synthetic_graph(MIN_EDGES // 10, edges=MIN_EDGES)
    need = bytes_per_run(small, APGCNConfig(), device) * edges // MIN_EDGES
    check_memory(
        need, available_memory(device), device, what=f"one run on {edges:,} edges", advice="make --edges smaller"
    )
    log(f"generating a graph of {edges:,} edges ...")
    return synthetic_graph(edges // 10, edges=edges)


def _time_graph(
    graph: Graph, sizes: list[int], *, repeats: int, device: Any, threads: int, with_baselines: bool
) -> dict[str, Any]:
    """Counts of a graph, times of its epochs for the batch sizes that fit into memory, and the estimate per run."""
    from apgcn.benchmark.speed.epochs import time_epochs
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.training.batching import bytes_per_run, max_runs_in_memory
    from apgcn.training.config import TrainingConfig, preset_config
    from apgcn.training.runs import Run, benchmark_runs

    if graph.name == "synthetic":
        model, training = APGCNConfig(), TrainingConfig()
        split = _random_split(graph.num_nodes)
        runs = [Run(split, init=number, dataset=graph.name) for number in range(max(sizes))]
    else:
        model, training = preset_config(graph.name)
        runs = benchmark_runs(graph, max(sizes))
    largest = max_runs_in_memory(graph, model, device)
    left_out = [size for size in sizes if size > largest]
    if left_out:
        log(
            f"batch sizes {', '.join(map(str, left_out))} are left out, because {largest} runs fit into memory; "
            f"the largest is {max((size for size in sizes if size <= largest), default=1)}."
        )
    epochs = time_epochs(
        graph,
        runs,
        model,
        training,
        batch_sizes=[size for size in sizes if size <= largest] or [1],
        repeats=repeats,
        device=device,
        threads=threads,
        with_baselines=with_baselines,
    )
    return {
        "dataset": graph.name,
        "nodes": graph.num_nodes,
        "directed_edges": graph.num_directed_edges,
        "estimated_bytes_per_run": bytes_per_run(graph, model, device),
        "epochs": [asdict(epoch) for epoch in epochs],
    }


def _random_split(nodes: int) -> Split:
    """A tenth of the nodes for training, at most 800, and as many for early stopping."""
    import numpy as np

    from apgcn.data.splits import Split

    size = min(800, nodes // 10)
    order = np.random.default_rng(0).permutation(nodes)
    return Split(train=order[:size], stopping=order[size : 2 * size])


def _speedup(graph: dict[str, Any], baseline: str) -> float | None:
    """The time of the baseline's epoch divided by that of ours, one run each; None if one was not timed."""
    times = {(epoch["name"], epoch["runs"]): epoch["epoch_ms"] for epoch in graph["epochs"]}
    ours, theirs = times.get(("apgcn", 1)), times.get((baseline, 1))
    return theirs / ours if ours and theirs else None


def _is_target_hardware(measured: dict[str, Any], training: dict[str, Any]) -> bool:
    """Whether a training ran on the hardware of the targets: an H200, or two cores."""
    on_two_cores = measured["device"] == "cpu" and training["workers"] * training["threads"] == 2
    return "H200" in measured["hardware"] or on_two_cores


def _target_values(measured: dict[str, Any], *, cora_ml: bool) -> dict[str, float | None]:
    """Measured values by the keys of the targets."""
    device = "cuda" if measured["device"].startswith("cuda") else "cpu"
    hundred_runs = {
        training["dataset"]: training
        for training in measured["trainings"]
        if training["runs"] == 100 and _is_target_hardware(measured, training)
    }
    values: dict[str, float | None] = {
        "import_seconds": measured["import_seconds"]["apgcn"],
        "all_names_seconds": measured["import_seconds"]["all_names"],
    }
    if cora_ml and device == "cpu" and measured["threads"] == 1:
        values |= {name: measured[name] for name in ("speedup_over_pyg_apgcn", "speedup_over_pyg_appnp")}
    if "cora_ml" in hundred_runs:
        values[f"cora_ml_100_{device}_seconds"] = hundred_runs["cora_ml"]["seconds"]
    if len(hundred_runs) == 6:
        values[f"six_100_{device}_seconds"] = sum(training["seconds"] for training in hundred_runs.values())
    if "amazon_computers" in hundred_runs:
        values[f"amazon_computers_100_{device}_gigabytes"] = hundred_runs["amazon_computers"]["memory"] / 1e9
    return values
