"""README and docs: what they show runs, what they claim is on record, what they link to exists."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/*.md")])


def test_the_readmes_python_runs(monkeypatch, capsys):
    from apgcn.training import packs

    whole = packs.Pack
    monkeypatch.setattr(
        packs,
        "Pack",
        lambda graph, runs, model, training: whole(graph, runs, model, replace(training, max_epochs=4)),
    )
    codes = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    for code in codes:
        exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5
    assert printed[0].startswith("accuracy 0.")
    assert printed[2] == "(2485, 7)"
    assert printed[4].startswith("RunResult(Run(split=Split(seed=0, train=20, stopping=60")


def test_the_tables_are_what_the_records_give():
    script = runpy.run_path(str(ROOT / "scripts" / "results"))
    for page in script["PAGES"]:
        assert page.read_text() == script["renewed"](page.read_text()), f"{page.name}: run scripts/results --write"
        assert "± " in page.read_text()


def test_the_records_reach_what_was_promised():
    """Twenty test splits, one initialisation each."""
    results = ROOT / "results" / "cpu-20-runs"
    cora_ml, citeseer = (json.loads((results / f"{name}.json").read_text()) for name in ("cora_ml", "citeseer"))
    assert cora_ml["runs"] == citeseer["runs"] == 20
    assert cora_ml["accuracy_mean"] >= 0.849
    assert 8.5 <= cora_ml["steps_mean"] <= 10
    assert citeseer["accuracy_mean"] >= 0.750
    assert max(cora_ml["seconds"], citeseer["seconds"]) < 15 * 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_version_is_the_same_everywhere():
    from apgcn import __version__

    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text()
    assert __version__ in (ROOT / "CHANGELOG.md").read_text()
