"""The published numbers, compared with the LaTeX source of the paper where it is available."""

import re

import pytest
from helpers import ROOT

from apgcn.benchmark import published
from apgcn.data import DATASETS

PAPER = ROOT.parent / "shared" / "paper" / "ap-gcn.tex"
ROWS = {  # as the paper spells them
    "Citeseer": "citeseer",
    "Cora-ML": "cora_ml",
    "PubMed": "pubmed",
    "MS-Academic": "ms_academic",
    "A. Computers": "amazon_computers",
    "A.Computer": "amazon_computers",
    "A. Photos": "amazon_photo",
    "A.Photo": "amazon_photo",
}
MODELS = {title.replace("V.GCN", "V. GCN"): name for name, title in published.MODEL_TITLES.items()}


def tables() -> list[list[list[str]]]:
    """The cells of every table in the paper's source."""
    if not PAPER.exists():
        pytest.skip("needs the source of the paper")
    bodies = re.findall(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", PAPER.read_text(), flags=re.DOTALL)
    return [[[cell.strip() for cell in row.split("&")] for row in body.split("\\\\")] for body in bodies]


def numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.?\d*", cell)]


def test_table_1_equals_the_papers():
    rows = [row for row in tables()[0] if row[0].removeprefix("\\hline").strip() in ROWS]
    assert len(rows) == 6
    for name, *cells in rows:
        line = published.TABLE1[ROWS[name.removeprefix("\\hline").strip()]]
        assert [float(cell) for cell in cells] == [line.classes, line.features, line.nodes, line.edges, line.degree]


@pytest.mark.parametrize(("index", "graphs"), [(1, published.CITATION_GRAPHS), (2, published.AMAZON_GRAPHS)])
def test_tables_2_and_3_equal_the_papers(index, graphs):
    seen = set()
    for name, *cells in tables()[index][1:]:
        model = MODELS[name.removeprefix("\\hline").strip()]
        for dataset, cell in zip(graphs, cells, strict=True):
            ours = published.ACCURACIES.get((dataset, model))
            if ours is None:
                assert cell == "{-}"
                continue
            assert numbers(cell) == [ours.accuracy, ours.interval]
            assert cell.count("*") == len(ours.stars)
            seen.add((dataset, model))
    assert seen == {cell for cell in published.ACCURACIES if cell[0] in graphs}


def test_table_4_equals_the_papers():
    rows = tables()[3][1:]
    assert len(rows) == 6
    for name, *cells in rows:
        line = published.TABLE4[ROWS[name.removeprefix("\\hline").strip()]]
        values = [number for cell in cells for number in numbers(cell)]
        assert values == [line.penalty, line.steps, line.steps_spread, line.drop]


def test_table_5_equals_the_papers():
    header, *rows = tables()[4]
    models = [MODELS[cell] for cell in header[1:]]
    milliseconds = {
        (ROWS[name.removeprefix("\\hline").strip()], model): float(cell)
        for name, *cells in rows
        for model, cell in zip(models, cells, strict=True)
    }
    assert milliseconds == published.TABLE5


def test_table_1_equals_the_dataset_registry():
    for name, line in published.TABLE1.items():
        dataset = DATASETS[name]
        counted = (dataset.classes, dataset.features, dataset.nodes, dataset.edges)
        assert counted == (line.classes, line.features, line.nodes, line.edges)
        assert line.degree == pytest.approx(4 * line.edges / line.nodes, abs=0.0101)  # cut off, the paper's 4E/n


def test_copied_numbers_have_the_ppnp_paper_as_source():
    copied = {cell for cell, number in published.ACCURACIES.items() if number.source == published.PPNP_PAPER}
    assert ("cora_ml", "appnp") in copied
    assert not any(model in ("apgcn", "arma") or dataset.startswith("amazon") for dataset, model in copied)
    assert len(copied) == 8 * 4 - 2  # eight models on four graphs, PPNP on two
