"""Tables of predictions: ids and classes that a spreadsheet would evaluate as formulas."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn import APGCNConfig
from apgcn.cli import run
from apgcn.inference.bundle import ModelBundle, save_model
from apgcn.inference.fit import fit
from apgcn.inference.splits import stratified_split
from apgcn.io.registry import read_table
from apgcn.training.config import TrainingConfig

IDS = (
    "=1+1",
    "+SUM(A1)",
    "-2+3",
    "@cmd",
    "\t=tab",
    "\rreturn",
    " =space",
    "\uff1d1",
    "-5",
    "+5",
    "-1.5e3",
    "a=1",
    "'=",
    "a\r=1",
)
ESCAPED = (*(f"'{name}" for name in IDS[:8]), *IDS[8:])
CLASSES = ("=HYPERLINK(1)", "-1")
ESCAPED_CLASSES = {"'=HYPERLINK(1)", "-1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    graph = two_communities()
    names = (*IDS, *(f"n{number}" for number in range(graph.num_nodes - len(IDS))))
    graph = replace(graph, node_names=names, class_names=CLASSES)
    folder = tmp_path_factory.mktemp("models") / "formulas"
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=2))
    save_model(folder, ModelBundle(trained, graph))
    return folder


def predicted(model, path, *options):
    assert run(["predict", str(model), "--out", str(path), *options]) == 0
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_formulas_in_predictions_are_escaped_and_numbers_stay(model, tmp_path):
    rows = predicted(model, tmp_path / "out.csv", "--probabilities")
    assert tuple(row["id"] for row in rows[: len(IDS)]) == ESCAPED
    assert {row["prediction"] for row in rows} <= ESCAPED_CLASSES
    assert {row["label"] for row in rows} == ESCAPED_CLASSES | {""}
    assert np.isfinite([float(row["probability of =HYPERLINK(1)"]) for row in rows]).all()


def test_raw_predictions_and_parquet_have_the_ids_unchanged(model, tmp_path):
    rows = predicted(model, tmp_path / "out.csv", "--raw")
    assert tuple(row["id"] for row in rows[: len(IDS)]) == IDS
    assert {row["label"] for row in rows} == {*CLASSES, ""}
    assert run(["predict", str(model), "--out", str(tmp_path / "out.parquet")]) == 0
    table = read_table(tmp_path / "out.parquet")
    assert tuple(table.cells[0][: len(IDS)]) == IDS
