"""What the examples show is so."""

import re
import runpy
from pathlib import Path

import pytest
import torch
from helpers import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def own_random_numbers():
    with torch.random.fork_rng(devices=[]):
        yield


def main_of(name):
    (path,) = EXAMPLES.glob(f"?_{name}.py")
    return runpy.run_path(str(path))["main"]


def test_two_tables(capsys, tmp_path):
    assert main_of("two_tables")(tmp_path / "cora") > 0.75
    assert re.search(r"0 +AP-GCN +0\.[78]\d+ ", capsys.readouterr().out)
    predictions = (tmp_path / "cora" / "predictions.csv").read_text()
    assert re.match(r"id,prediction,probability,steps,label\n31336,\w+,0\.\d+,\d+\.0,\n", predictions)


def test_scikit_learn():
    found, accuracy = main_of("scikit_learn")()
    assert min(found.values()) > 0.72
    assert accuracy > 0.8


def test_a_training_loop():
    assert main_of("training_loop")() > 0.78


def test_any_operator():
    accuracy, steps = main_of("any_operator")(0.05)
    assert accuracy > 0.75
    assert steps < 5


def test_whole_graphs_are_told_apart_by_the_weights_of_their_edges():
    main = main_of("whole_graphs")
    assert main() > 0.95
    assert main(use_weights=False) < 0.6


def test_edges():
    assert main_of("edges")() > 0.65


def test_onnx():
    accuracy, error = main_of("onnx")()
    assert accuracy > 0.8
    assert error < 1e-5


def test_every_example_is_tested_and_begins_with_what_it_shows():
    for path in EXAMPLES.glob("*.py"):
        assert f'main_of("{path.stem[2:]}")' in Path(__file__).read_text()
        assert path.read_text().startswith('"""')
