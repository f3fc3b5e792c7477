"""Data flows one way: a module imports only from those above it in this list."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

SOURCE = ROOT / "src" / "apgcn"

ORDER = [
    "errors",
    "_utils",
    "data",
    "io",
    "ops",
    "nn",
    "models",
    "training",
    "inference",
    "sklearn",
    "benchmark",
    "distributed",
    "report",
    "cli",
]


def imported(path: Path) -> set[str]:
    """The parts of apgcn that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "apgcn":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("apgcn."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("apgcn") for alias in node.names), "write: from apgcn... import ..."
    return names


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upward(path):
    part = part_of(path)
    if part in ("__init__", "__main__"):
        return
    for name in imported(path) - {"__version__"}:
        assert ORDER.index(name) <= ORDER.index(part), f"{part} must not import {name}"


def test_every_part_has_its_place():
    parts = {part_of(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert parts == set(ORDER)


def test_import_apgcn_is_quick_and_asks_for_little():
    """Nothing is imported before it is used: not even torch."""
    code = (
        "import sys, apgcn; print(sorted({'torch', 'scipy', 'rich', 'typer', 'pooch', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_every_public_name_can_be_imported():
    import apgcn

    for name in apgcn.__all__:
        assert getattr(apgcn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        apgcn.trian  # noqa: B018
