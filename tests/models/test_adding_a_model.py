"""docs/adding_a_model.md, followed to the letter in a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

PAGE = (ROOT / "docs" / "adding_a_model.md").read_text()


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The package and its tests, with what the page adds."""
    folder = tmp_path_factory.mktemp("copy")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (file,) = re.findall(r"The file: `(\S+)`", PAGE)
    (folder / file).write_text(code)
    ((name, catalogue),) = re.findall(r"The line, in `(\w+)` of `(\S+)`", PAGE)
    (line,) = re.findall(r"The line.*?```\n(.*?)```", PAGE, flags=re.DOTALL)
    before = (folder / catalogue).read_text()
    end = before.index("}", before.index(f"{name} = {{"))
    (folder / catalogue).write_text(before[:end] + line + before[end:])
    assert len(line.splitlines()) == 1
    return folder


def commands() -> list[list[str]]:
    (block,) = re.findall(r"See whether it holds\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    return [line.split() for line in block.splitlines()]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_page_can_be_followed(copy, words):
    quick = ["--set", "max_epochs=5"] if words[:2] == ["apgcn", "train"] else []
    done = subprocess.run(
        [sys.executable, "-m", *words, *quick],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SGC" in done.stdout or " passed" in done.stdout


def test_what_the_page_adds_passes_the_linter():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    linter = shutil.which("ruff") or str(Path(sys.executable).parent / "ruff")
    options = ["--config", str(ROOT / "pyproject.toml"), "--stdin-filename", "src/apgcn/models/sgc.py", "-"]
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run([linter, *words, *options], input=code, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
