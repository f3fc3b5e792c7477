"""Which run is it? A split and an initialisation of one graph; its random numbers follow from these alone."""

from __future__ import annotations

from dataclasses import dataclass

from apgcn.datasets.catalogue import CATALOGUE
from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.noise import seed_of
from apgcn.splits import TEST_SEEDS, Split, split_for_test


@dataclass(frozen=True, eq=False)
class Run:
    """One training.

    The settings are not part of its noise: two settings of the same run start from the same weights and meet the same
    dropout, so that what differs between them is the settings.
    """

    dataset: str
    split: Split
    initialisation: int = 0

    @property
    def noise_seed(self) -> int:
        return seed_of(self.dataset, self.split.seed, self.initialisation)


def benchmark_runs(graph: Graph, count: int, *, seed: int = 0) -> list[Run]:
    """The first runs of the paper's protocol: the 20 test splits with one initialisation, then with the next.

    Parameters
    ----------
    graph : Graph
        A cleaned graph; the catalogue knows how many of its nodes are visible.
    count : int
        100 is the whole protocol.
    seed : int
        The number of the first initialisation; another one gives other weights and other dropout on the same splits.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> runs = benchmark_runs(clean(load("cora")), 21)
    >>> runs[20].split.seed == runs[0].split.seed, runs[20].initialisation
    (True, 1)
    """
    if count < 1:
        raise InvalidInput(f"runs must be >= 1, got {count}.")
    visible = CATALOGUE[graph.name].visible if graph.name in CATALOGUE else 1500
    splits = [split_for_test(graph.labels, split_seed, visible=visible) for split_seed in TEST_SEEDS[:count]]
    return [
        Run(graph.name, splits[number % len(TEST_SEEDS)], initialisation=seed + number // len(TEST_SEEDS))
        for number in range(count)
    ]
