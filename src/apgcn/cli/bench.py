"""`apgcn bench`: measure this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apgcn.cli.bench_output import show_measured
from apgcn.cli.progress import say

if TYPE_CHECKING:
    import torch

    from apgcn.data.graph import Graph
    from apgcn.data.splits import Split

PACKS = "1,8,100"
SMALL = 10_000  # edges of the smallest made graph


def bench(
    datasets: Annotated[
        str | None,
        typer.Argument(
            help="Names from `apgcn datasets` with commas between, or all for the paper's six; default: cora_ml, or "
            "cora where its file is not here."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    packs: Annotated[
        str, typer.Option(help="How many runs train together; those that do not fit are left out.")
    ] = PACKS,
    rounds: Annotated[int, typer.Option(help="How often everything is measured, in turns.")] = 15,
    train: Annotated[int, typer.Option(help="Also train so many runs of each graph to their end.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that share these runs on a processor.")] = 2,
    edges: Annotated[
        int | None, typer.Option(help="Measure a made graph of so many undirected edges, 10000 to 100000000, instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Measure this machine: an epoch of AP-GCN, beside the same in stock PyTorch Geometric, in turns."""
    from apgcn._utils.validation import check_int
    from apgcn.benchmark.graph_cache import cleaned
    from apgcn.benchmark.speed.end_to_end import timed_start, timed_trainings
    from apgcn.benchmark.speed.targets import standing
    from apgcn.errors import InvalidInput
    from apgcn.ops.devices import hardware, peak_memory, resolve
    from apgcn.training.outputs import versions

    place = resolve(device)
    for name, value in (("rounds", rounds), ("workers", workers)):
        check_int(name, value)
    check_int("train", train, least=0)
    sizes = _whole_numbers(packs)
    if edges is not None and (datasets or train):
        raise InvalidInput("edges makes a graph of its own, not trained to the end; leave out datasets and train.")
    names = _names(datasets) if edges is None else []
    found: dict[str, Any] = {
        "when": datetime.now(UTC).date().isoformat(),
        "device": str(place),
        "hardware": hardware(place),
        "threads": 1,
        "versions": versions(),
        "command": " ".join(["apgcn", *sys.argv[1:]]),
        "graphs": [],
        "trainings": [],
    }
    graphs = [_made(edges, place)] if edges is not None else [cleaned(name) for name in names]
    for number, graph in enumerate(graphs):
        say(f"measuring epochs on {graph.name} ...")
        beside = number == 0 and edges is None
        found["graphs"].append(_measured(graph, sizes, rounds=rounds, device=place, beside=beside))
    found["memory"] = peak_memory()
    for name in names if train else []:
        say(f"training {train} runs on {name} ...")
        whole = timed_trainings(name, train, device=device, workers=workers)
        say(f"... {whole.seconds:.1f} s")
        found["trainings"].append(asdict(whole))
    say("measuring how long it takes to start ...")
    found["start"] = timed_start()._asdict()
    found |= {f"speedup_over_{peer}": _speedup(found["graphs"][0], peer) for peer in ("pyg_apgcn", "pyg_appnp")}
    found["targets"] = [] if edges else standing(_against_targets(found, cora_ml=names[:1] == ["cora_ml"]))
    if as_json:
        print(json.dumps(found))
    else:
        show_measured(found)


def _names(given: str | None) -> list[str]:
    """Names of graphs, of which the first is compared with its peers."""
    from apgcn.data import describe
    from apgcn.data.download import find
    from apgcn.data.registry import CATALOGUE

    if given == "all":
        return ["cora_ml", *(name for name in CATALOGUE if name not in ("cora", "cora_ml"))]
    if given:
        return [describe(name.strip()).name for name in given.split(",")]
    if find(CATALOGUE["cora_ml"]):
        return ["cora_ml"]
    say("the file of cora_ml is not here, so the embedded cora is measured instead.")
    return ["cora"]


def _whole_numbers(text: str) -> list[int]:
    from apgcn._utils.validation import check_int
    from apgcn.errors import InvalidInput

    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"packs must be whole numbers separated by commas, such as {PACKS}, got {text!r}.") from None
    for size in sizes:
        check_int("packs", size, most=100)
    return sizes


def _made(edges: int, device: torch.device) -> Graph:
    """A made graph whose nodes have twenty neighbours on average; only if an epoch on it would fit into memory.

    What a run needs grows with the edges, so a small graph says what a large one needs.
    """
    from apgcn._utils.validation import check_int
    from apgcn.data.synthetic import synthetic_graph
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.ops.devices import memory_of
    from apgcn.training.batching import bytes_per_run, check_fits

    check_int("edges", edges, least=SMALL, most=100_000_000)
    small = synthetic_graph(SMALL // 10, edges=SMALL)
    need = bytes_per_run(small, APGCNConfig(), device) * edges // SMALL
    check_fits(need, memory_of(device), device, what=f"one run on {edges:,} edges", advice="make --edges smaller")
    say(f"making a graph of {edges:,} edges ...")
    return synthetic_graph(edges // 10, edges=edges)


def _measured(graph: Graph, sizes: list[int], *, rounds: int, device: Any, beside: bool) -> dict[str, Any]:
    """A graph's counts, the epochs that fit into memory, and what a run is thought to need."""
    from apgcn.benchmark.speed.epochs import timed_epochs
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.training.batching import bytes_per_run, fitting
    from apgcn.training.config import TrainingConfig, preset_config
    from apgcn.training.runs import Run, benchmark_runs

    if graph.name == "synthetic":
        model, training = APGCNConfig(), TrainingConfig()
        split = _split_at_random(graph.num_nodes)
        runs = [Run(split, init=number, dataset=graph.name) for number in range(max(sizes))]
    else:
        model, training = preset_config(graph.name)
        runs = benchmark_runs(graph, max(sizes))
    most = fitting(graph, model, device)
    left_out = [size for size in sizes if size > most]
    if left_out:
        kept = max((size for size in sizes if size <= most), default=1)
        say(
            f"of runs in a pack, {', '.join(map(str, left_out))} are left out, because {most} fit into memory; "
            f"the largest is {kept}."
        )
    epochs = timed_epochs(
        graph,
        runs,
        model,
        training,
        packs=[size for size in sizes if size <= most] or [1],
        rounds=rounds,
        device=device,
        beside=beside,
    )
    return {
        "dataset": graph.name,
        "nodes": graph.num_nodes,
        "directed_edges": graph.num_directed_edges,
        "estimated_bytes_per_run": bytes_per_run(graph, model, device),
        "epochs": [asdict(epoch) for epoch in epochs],
    }


def _split_at_random(nodes: int) -> Split:
    """A tenth of the nodes trains, at most 800, and another stops."""
    import numpy as np

    from apgcn.data.splits import Split

    size = min(800, nodes // 10)
    order = np.random.default_rng(0).permutation(nodes)
    return Split(train=order[:size], stopping=order[size : 2 * size])


def _speedup(measured: dict[str, Any], peer: str) -> float | None:
    """How many times longer the peer's epoch takes than ours, one run each."""
    times = {(epoch["what"], epoch["runs"]): epoch["epoch_ms"] for epoch in measured["epochs"]}
    ours, theirs = times.get(("apgcn", 1)), times.get((peer, 1))
    return theirs / ours if ours and theirs else None


def _comparable(found: dict[str, Any], training: dict[str, Any]) -> bool:
    """Whether it ran on what the bars were set for: an H200, or two cores."""
    return "H200" in found["hardware"] or (found["device"] == "cpu" and training["workers"] == 2)


def _against_targets(found: dict[str, Any], *, cora_ml: bool) -> dict[str, float | None]:
    """What was measured, by the names of the targets."""
    kind = "cuda" if found["device"].startswith("cuda") else "cpu"
    of_100 = {one["dataset"]: one for one in found["trainings"] if one["runs"] == 100 and _comparable(found, one)}
    measured: dict[str, float | None] = {
        "import_seconds": found["start"]["importing"],
        "everything_seconds": found["start"]["everything"],
    }
    if cora_ml and kind == "cpu":
        measured |= {name: found[name] for name in ("speedup_over_pyg_apgcn", "speedup_over_pyg_appnp")}
    if "cora_ml" in of_100:
        measured[f"cora_ml_100_{kind}_seconds"] = of_100["cora_ml"]["seconds"]
    if len(of_100) == 6:
        measured[f"six_100_{kind}_seconds"] = sum(one["seconds"] for one in of_100.values())
    if "amazon_computers" in of_100:
        measured[f"amazon_computers_100_{kind}_gigabytes"] = of_100["amazon_computers"]["memory"] / 1e9
    return measured
