"""Which run is it? A split and an initialisation of one graph; its random numbers follow from these alone."""

from __future__ import annotations

from dataclasses import dataclass

from apgcn.checks import check_whole
from apgcn.datasets.catalogue import describe
from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.noise import seed_of
from apgcn.splits import SETS, TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation

MOST_RUNS = 100_000  # a thousand times the protocol


@dataclass(frozen=True, eq=False)
class Run:
    """One training.

    Parameters
    ----------
    split : Split
    initialisation : int
        Another number gives other initial weights and other dropout.
    dataset : str
        The name of the graph.

    Settings are no part of the key: two trainings that differ only in settings which draw nothing (penalty, l2,
    learning_rate, patience, watch, ...) start from the same weights and meet the same dropout.
    """

    split: Split
    initialisation: int = 0
    dataset: str = "graph"

    @property
    def noise_seed(self) -> int:
        """Where the run's tape of random numbers starts."""
        return seed_of(self.dataset, self.split.seed, self.initialisation)


def benchmark_runs(graph: Graph, count: int, *, seed: int = 0, validation: bool = False) -> list[Run]:
    """The first runs of the paper's protocol: the 20 test splits with one initialisation, then with the next.

    Parameters
    ----------
    graph : Graph
        A graph of the catalogue, cleaned.
    count : int
        100 is the whole protocol.
    seed : int
        The number of the first initialisation.
    validation : bool
        Draw from the validation seeds instead: for choosing settings without a look at the test nodes.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> runs = benchmark_runs(clean(load("cora")), 21)
    >>> runs[20].split.seed == runs[0].split.seed, runs[20].initialisation
    (True, 1)
    """
    check_whole("runs", count, most=MOST_RUNS)
    check_whole("seed", seed, least=0)
    dataset = describe(graph.name)
    if graph.num_nodes != dataset.nodes:
        raise InvalidInput(
            f"the splits of {graph.name} are those of its {dataset.nodes} nodes after cleaning, got {graph.num_nodes}; "
            "call clean(graph) first."
        )
    seeds, draw = (VALIDATION_SEEDS, split_for_validation) if validation else (TEST_SEEDS, split_for_test)
    splits = [draw(graph.labels, split_seed, visible=dataset.visible) for split_seed in seeds[:count]]
    return [
        Run(splits[number % len(seeds)], initialisation=seed + number // len(seeds), dataset=graph.name)
        for number in range(count)
    ]


def check_run(run: Run, graph: Graph) -> None:
    """Whether a run is one of this graph, in words if not."""
    if run.dataset != graph.name:
        raise InvalidInput(f"a run of {run.dataset!r} cannot be trained on {graph.name!r}; give both the same name.")
    for name in SETS:
        nodes = getattr(run.split, name)
        if len(nodes) and nodes[-1] >= graph.num_nodes:
            raise InvalidInput(f"{name} must hold nodes of {graph.name}, 0 to {graph.num_nodes - 1}, got {nodes[-1]}.")
    for name in ("train", "stopping"):
        nodes = getattr(run.split, name)
        if not len(nodes):
            raise InvalidInput(f"the {name} set of a split must not be empty.")
        if graph.labels[nodes].min() < 0:
            unknown = nodes[graph.labels[nodes].argmin()]
            raise InvalidInput(f"every node of the {name} set must have a label, but that of node {unknown} is -1.")
