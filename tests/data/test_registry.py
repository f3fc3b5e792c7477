"""The protocol's constants, against the places they come from."""

import json

import pytest
from helpers import FIXTURES

from apgcn import VALIDATION_SEEDS, benchmark_runs
from apgcn.data import DATASETS, HETEROPHILOUS_GRAPHS
from apgcn.data.splits import SET_NAMES

PUBLISHED = json.loads((FIXTURES / "splits.json").read_text())

GRAPHS_OF_THE_PAPER = ("citeseer", "cora_ml", "pubmed", "ms_academic", "amazon_computers", "amazon_photo")


def test_the_registry_holds_the_graphs_of_the_paper_and_the_heterophilous_ones():
    assert list(DATASETS) == ["cora", *GRAPHS_OF_THE_PAPER, *HETEROPHILOUS_GRAPHS]


@pytest.mark.parametrize("file", PUBLISHED)
def test_counts_and_visible_sets_are_the_published_ones(file):
    (dataset,) = [dataset for dataset in DATASETS.values() if dataset.file_name == f"{file}.npz"]
    for count in ("nodes", "edges", "features", "classes", "visible"):
        assert getattr(dataset, count) == PUBLISHED[file][count]


def test_benchmark_runs_use_the_graphs_own_visible_set(benchmark_graph):
    run = benchmark_runs(benchmark_graph("ms_academic"), 1)[0]
    assert [len(getattr(run.split, name)) for name in SET_NAMES] == [300, 500, 4200, 13333]


def test_the_validation_seeds():
    assert VALIDATION_SEEDS == (
        2413340114, 3258769933, 1789234713, 2222151463, 2813247115, 1920426428, 4272044734, 2092442742, 841404887,
        2188879532, 646784207, 1633698412, 2256863076, 374355442, 289680769, 4281139389, 4263036964, 900418539,
        119332950, 1628837138,
    )  # fmt: skip
