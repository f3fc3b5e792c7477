"""The report of a store as text and as a page, in a browser where there is one."""

import base64
import csv
import hashlib
import io
import json
import os
import re

import numpy as np
import pytest
from helpers.browser import open_page, wait_until
from helpers.fake_records import add_fake_records

from apgcn.benchmark import penalty_sweep
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Series
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.store import Store
from apgcn.errors import InvalidInput
from apgcn.report.csv import to_csv
from apgcn.report.html import render_report, write_report
from apgcn.report.latex import to_latex
from apgcn.report.markdown import to_markdown
from apgcn.report.page import embed_json
from apgcn.report.plots import plotly_figure
from apgcn.report.sections import format_defaults, provenance, report_artifacts

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """AP-GCN on Cora-ML with every penalty, a trial of tuning, and a graph and a model with nasty names."""
    store = Store(tmp_path_factory.mktemp("store"))
    random = np.random.default_rng(0)
    for index, penalty in enumerate(penalty_sweep.PENALTIES):
        run_config = RunConfig.from_preset("cora_ml", "apgcn", penalty=penalty)
        steps = np.clip(random.normal(9 - index, 1, (4, 50)).round().astype(int), 1, 10)
        add_fake_records(store, run_config, (0.85 - 0.01 * index + random.normal(0, 0.005, 4)).tolist(), steps=steps)
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn", seed_set="validation"), [None, None])
    for dataset, model in ((NASTY, "apgcn"), ("cora", NASTY)):
        add_fake_records(store, RunConfig.create(dataset, model, {"hidden_channels": 64, "max_steps": 10}), [0.5, 0.6])
    return store


# --- text ---


def test_markdown_has_every_table_and_escapes_names(store):
    text = to_markdown(report_artifacts(store))
    assert "## Table 2: accuracy on citation and co-author graphs" in text
    row = next(line for line in text.splitlines() if line.startswith("| Cora-ML | AP-GCN | paper | 4 |"))
    assert "85.71 ± 0.22\\*\\*" in row
    assert "<script>" not in text.replace("\\<script>", "")
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_latex_rows_have_a_cell_per_column_and_escaped_text(store):
    """Every row has as many cells as the table has columns; what is special is escaped."""
    text = to_latex(report_artifacts(store))
    for alignment, body in re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", text, flags=re.DOTALL):
        for row in body.replace("\\hline\n", "").splitlines():
            assert row.endswith("\\\\")
            assert len(re.findall(r"(?<!\\)&", row)) == len(alignment) - 1
    uncommented = re.sub(r"(?<!\\)%.*", "", text)
    assert "±" not in uncommented
    assert re.search(r"(?<!\\)_", uncommented.replace("\\label", "")) is None
    assert "\\textless{}script\\textgreater{}" in text


def test_csv_keeps_all_digits_and_all_tables(store):
    rows = list(csv.DictReader(io.StringIO(to_csv(report_artifacts(store)))))
    (ours,) = [row for row in rows if (row["table"], row["model"], row["dataset"]) == ("table2", "apgcn", "cora_ml")]
    records = store.records_for(RunConfig.from_preset("cora_ml", "apgcn"))
    mean = 100 * np.mean([record.test_accuracy for record in records])
    assert float(ours["accuracy"]) == pytest.approx(mean, rel=1e-14)
    assert {"table2", "table4", "figure3", "overview"} <= {row["table"] for row in rows}


def test_csv_has_no_formulas():
    table = ArtifactTable((), ({"name": "=1+1"}, {"name": "-2"}, {"name": -2.0}))
    text = to_csv([Artifact("table1", "t", table)])
    assert text.splitlines() == ["table,name", "table1,'=1+1", "table1,'-2", "table1,-2.0"]


def test_rows_without_runs_can_be_dropped():
    table = ArtifactTable((), ({"runs": 0}, {"runs": 3}))
    reduced = Artifact("table2", "t", table).drop_rows_without_runs()
    assert reduced.table.rows == ({"runs": 3},)
    assert reduced.notes == ("Not run here: 1 more of the paper's numbers.",)


def test_control_characters_of_a_record_are_replaced():
    table = ArtifactTable((ArtifactColumn("name", lambda row: row["name"]),), ({"name": "a\x1b[31m\r=b\x00"},))
    assert table.cells == [["a [31m =b "]]
    artifact = Artifact("table1", "t", table)
    assert to_csv([artifact]).splitlines() == ["table,name", "table1,a [31m =b "]
    starred = Artifact("table1", "t", ArtifactTable(table.columns, ({"name": "*b"}, {"name": "[1pt]"})))
    assert "\n{}*b \\\\\n{}[1pt] \\\\\n" in to_latex([starred])


def test_report_without_a_damaged_archive_lacks_only_its_density(tmp_path):
    store = Store(tmp_path)
    (record,) = add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8])
    (tmp_path / record.steps_file).write_bytes(b"damaged")
    text = render_report(store, report_artifacts(store), title="t")
    assert "Cora-ML (steps are missing)" in text
    assert "80.00" in text


def test_provenance_has_hyperparameters_hardware_versions_and_commands(store):
    records = store.records_for(RunConfig.from_preset("cora_ml", "apgcn"))
    ((*_, hyperparameters, hardware, versions, command),) = provenance(records).cells
    assert hyperparameters == "none"
    (defaults,) = format_defaults(records)
    assert "penalty=0.005" in defaults
    assert "monitor=stopping" in defaults
    ((*_, hyperparameters, _, _, _),) = provenance(
        store.records_for(RunConfig.from_preset("cora_ml", "apgcn", penalty=0.1))
    ).cells
    assert hyperparameters == "penalty=0.1"
    assert hardware == "a made-up CPU (cpu)"
    assert versions == "apgcn 0, torch 0"
    assert command == "apgcn reproduce nothing"


# --- plots ---


def test_plotly_figure_has_the_values_of_the_panel():
    series = Series("a", (1.0, 10.0), (3.0, 4.0), (0.5, None))
    figure = plotly_figure(Panel("title", "penalty", "y", (series,), log_x=True))
    (trace,) = figure["data"]
    assert (trace["x"], trace["y"], trace["error_y"]["array"]) == ([1.0, 10.0], [3.0, 4.0], [0.5, 0.0])
    assert figure["layout"]["xaxis"]["type"] == "log"


def test_names_in_a_plotly_figure_have_no_tags():
    figure = plotly_figure(Panel("t", NASTY, NASTY, (Series(NASTY, (1,), (1,)), Series("b", (1,), (1,), kind="bars"))))
    assert "<" not in json.dumps(figure)


# --- the page ---


def test_page_is_self_contained_and_escapes_names(store):
    text = render_report(store, report_artifacts(store), title=NASTY)
    assert "<title>&lt;script&gt;" in text
    without_plotly = text.replace(_plotly(), "")
    assert "alert(1)</script>" not in without_plotly
    assert without_plotly.count("<script") == 3  # the data, plotly, ours
    assert not re.search(r'(src|href)="(?!#|data:)', without_plotly)
    assert "http" not in without_plotly.replace("http-equiv", "")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def test_embedded_json_cannot_end_its_script_element():
    text = embed_json(["</script><script>alert(1)</script>"])
    assert "<" not in text
    assert json.loads(text) == ["</script><script>alert(1)</script>"]


def test_page_of_an_empty_store_shows_the_command_to_run(tmp_path):
    text = render_report(Store(tmp_path), report_artifacts(Store(tmp_path)), title="empty")
    assert "apgcn reproduce table2 --store DIR" in text
    assert len(text) < 100_000  # no plots, no plotly


def test_page_is_written_completely_or_not_at_all(store, tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    with pytest.raises(InvalidInput, match="in a folder that exists"):
        write_report(path, store, [], title="t")
    path.parent.mkdir()
    write_report(path, store, report_artifacts(store), title="the first")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]

    def no_space(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_space)
        with pytest.raises(OSError, match="No space"):
            write_report(path, store, report_artifacts(store), title="the second")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    assert "<title>the first</title>" in path.read_text()
    with pytest.raises(InvalidInput, match="must name a file"):
        write_report(tmp_path, store, [], title="t")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="must name a file"):
        write_report(tmp_path / "pipe", store, [], title="t")


def test_page_never_replaces_a_file_of_the_store(store, tmp_path):
    before = (store.folder / "runs.jsonl").read_bytes()
    (tmp_path / "link.html").symlink_to(store.folder / "runs.jsonl")
    for path in (store.folder / "runs.jsonl", tmp_path / "link.html", next(store.folder.glob("steps/*.npz"))):
        with pytest.raises(InvalidInput, match="must not name a file of the store"):
            write_report(path, store, [], title="t")
    assert (store.folder / "runs.jsonl").read_bytes() == before


# --- in a browser ---


@pytest.fixture
def opened(browser, store, tmp_path):
    """A function that opens the report; console messages and requests fail the test."""
    path = tmp_path / "report.html"
    write_report(path, store, report_artifacts(store), title="a report")
    messages: list[str] = []

    def open_report(**options):
        ready = "[...document.querySelectorAll('.plot')].every(plot => plot.data)"
        return open_page(browser, path, messages, ready=ready, **options)

    yield open_report
    assert messages == []
    for context in browser.contexts:
        context.close()


def test_browser_shows_cells_and_plots_without_errors_or_requests(opened, store):
    view = opened()
    cells = view.locator("#table2 tbody tr").first.locator("td").all_inner_texts()
    mean = 100 * np.mean(
        [record.test_accuracy for record in store.records_for(RunConfig.from_preset("cora_ml", "apgcn"))]
    )
    assert cells[:4] == ["Cora-ML", "AP-GCN", "paper", "4"]
    assert cells[4].startswith(f"{mean:.2f} ± ")
    assert cells[8] == "85.71 ± 0.22**"
    data = view.evaluate("document.querySelectorAll('#figure3 .plot')[2].data[0]")
    assert data["x"] == list(penalty_sweep.PENALTIES)
    assert data["y"] == sorted(data["y"], reverse=True)  # K falls
    assert view.locator("#figure3 .plot svg.main-svg").count() >= 3


def test_policy_allows_the_scripts_of_the_page_and_no_other(store):
    text = render_report(store, report_artifacts(store), title="a report")
    (sources,) = re.findall(r"script-src ([^;]*);", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digests = [hashlib.sha256(code.encode()).digest() for code in scripts]
    assert sources.split() == [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


def test_browser_runs_no_script_that_was_added_to_the_page(browser, store, tmp_path):
    path = tmp_path / "report.html"
    write_report(path, store, report_artifacts(store), title="a report")
    path.write_text(path.read_text().replace("</body>", "<script>document.title = 'added'</script></body>"))
    messages: list[str] = []
    view = open_page(browser, path, messages, ready="document.querySelector('.plot').data")
    assert view.title() == "a report"
    assert ["Content Security Policy" in message for message in messages] == [True]
    view.context.close()


def test_markup_in_names_is_text_in_the_browser(opened):
    view = opened()
    assert NASTY in view.locator("#overview tbody").first.inner_text()
    assert view.locator("main script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_a_phone_screen(opened, scheme):
    view = opened(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    for summary in view.locator("summary").all():
        summary.click()
    assert view.evaluate("document.documentElement.scrollWidth") <= 360


def test_dark_mode_has_dark_plots(opened):
    view = opened(color_scheme="dark")
    background = view.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(20, 23, 27)"
    ink = "document.querySelector('.plot').layout.font.color"
    assert view.evaluate(ink) == "#e7eaee"
    view.emulate_media(color_scheme="light")
    wait_until(view, f"{ink} === '#1b1f24'")


def test_printed_page_has_all_details_open(opened):
    view = opened(color_scheme="dark")
    assert view.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert view.pdf().startswith(b"%PDF")
    view.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert view.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert view.evaluate("document.querySelector('.plot').layout.font.color") == "#1b1f24"
    view.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert view.evaluate("document.querySelectorAll('details[open]').length") == 0
