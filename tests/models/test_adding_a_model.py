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


def insert(folder: Path, step: str) -> str:
    """Insert the block of a step of the page at the end of the dictionary that the step names; returns the block."""
    ((name, file),) = re.findall(rf"{step}, in `(\w+)` of `(\S+)`", PAGE)
    (block,) = re.findall(rf"{step}, in.*?```\n(.*?)```", PAGE, flags=re.DOTALL)
    source = (folder / file).read_text()
    start = re.search(rf"^{name}\b.*= {{", source, flags=re.MULTILINE).end()
    end = source.index("\n}", start) + 1
    (folder / file).write_text(source[:end] + block + source[end:])
    return block


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The package and its tests with what the page adds, and five epochs for all trainings."""
    folder = tmp_path_factory.mktemp("copy")
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, folder / part)  # with the compiled kernels
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (file,) = re.findall(r"The file: `(\S+)`", PAGE)
    (folder / file).write_text(code)
    line = insert(folder, "The line")
    assert len(line.splitlines()) == 1
    insert(folder, "The presets")
    presets = folder / "src" / "apgcn" / "models" / "presets.py"
    few_epochs = presets.read_text().replace('"max_epochs": 10_000', '"max_epochs": 5')
    assert few_epochs != presets.read_text()
    presets.write_text(few_epochs)
    return folder


def commands() -> list[list[str]]:
    (block,) = re.findall(r"Test it\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    return [line.split() for line in block.splitlines()]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_page_can_be_followed(copy, command):
    process = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "S²GC" in process.stdout or " passed" in process.stdout


def test_the_file_of_the_page_passes_the_linter():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    linter = shutil.which("ruff") or str(Path(sys.executable).parent / "ruff")
    options = ["--config", str(ROOT / "pyproject.toml"), "--stdin-filename", "src/apgcn/models/s2gc.py", "-"]
    for command in (["check"], ["format", "--check"]):
        process = subprocess.run([linter, *command, *options], input=code, capture_output=True, text=True, cwd=ROOT)
        assert process.returncode == 0, process.stdout + process.stderr
