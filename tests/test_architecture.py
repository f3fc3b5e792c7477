"""The direction of imports between packages, and what each package's `__init__` offers."""

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers import ROOT

import apgcn

SOURCE = ROOT / "src" / "apgcn"

# A module imports only from packages above its own in this list, and from its own.
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
    "node_classifier",
    "cli",
]

PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def imported_packages(path: Path) -> set[str]:
    """The packages of apgcn that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "apgcn":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("apgcn."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("apgcn") for alias in node.names), "write: from apgcn... import ..."
    return names


def import_package(folder: Path):
    """Import a package; the test is skipped where an optional one that it needs is not installed."""
    name = folder.relative_to(SOURCE.parent).as_posix().replace("/", ".")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "apgcn").startswith("apgcn"):
            raise
        pytest.skip(f"{name} needs {error.name}")


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix().split("/")[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upward(path):
    package = package_of(path)
    if package in ("__init__", "__main__"):
        return
    for name in imported_packages(path) - {"__version__"}:
        assert ORDER.index(name) <= ORDER.index(package), f"{package} must not import {name}"


def test_every_package_is_in_the_order():
    packages = {package_of(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert packages == set(ORDER)


def test_import_apgcn_is_quick_and_imports_little():
    """Nothing is imported before it is used: not even torch."""
    heavy = {"torch", "numba", "scipy", "rich", "typer", "pooch", "requests"}
    code = f"import sys, apgcn; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_numba_is_imported_with_the_first_kernel():
    code = (
        "import sys, apgcn, torch; [getattr(apgcn, name) for name in apgcn.__all__]; print('numba' in sys.modules); "
        "apgcn.ops.dispatch.kernels_for_device(torch.device('cpu')); print('numba' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert printed == ["False", str(find_spec("numba") is not None)]


def test_training_does_not_import_the_compiler_of_pytorch():
    """The first instance of an optimiser of PyTorch does: a second of every process."""
    code = (
        "import sys, apgcn; graph = apgcn.clean(apgcn.load('cora')); model, training = apgcn.preset_config('cora'); "
        "training = apgcn.TrainingConfig(max_epochs=6); "
        "apgcn.train(graph, apgcn.benchmark_runs(graph, 1), model, training); "
        "print('torch._dynamo' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize(
    ("system", "machine", "python", "expected"),
    [
        ("linux", "x86_64", "3.11", True),
        ("linux", "aarch64", "3.15", True),
        ("darwin", "arm64", "3.13", True),
        ("win32", "AMD64", "3.12", True),
        ("linux", "x86_64", "3.16", False),
        ("linux", "riscv64", "3.12", False),
        ("darwin", "x86_64", "3.12", False),
    ],
)
def test_numba_is_installed_where_it_has_builds(system, machine, python, expected):
    requirements = pytest.importorskip("packaging.requirements")
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (numba,) = (requirements.Requirement(text) for text in dependencies if text.startswith("numba"))
    platform = {"sys_platform": system, "platform_machine": machine, "python_version": python}
    assert numba.marker.evaluate({**platform, "platform_python_implementation": "CPython"}) is expected
    assert not numba.marker.evaluate({**platform, "platform_python_implementation": "PyPy"})


def test_every_public_name_can_be_imported():
    for name in apgcn.__all__:
        assert getattr(apgcn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        apgcn.trian  # noqa: B018
    with pytest.raises(AttributeError, match=r"'paper_settings'; in 0\.2 it is apgcn\.preset_config"):
        apgcn.paper_settings  # noqa: B018


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(SOURCE.parent)))
def test_every_package_has_a_docstring_and_lists_its_public_names(folder):
    module = import_package(folder)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def type_checking_imports(path: Path) -> set[str]:
    """The names that a file imports for type checkers only."""
    blocks = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name
        for block in blocks
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(SOURCE.parent)))
def test_type_checkers_know_the_names_that_are_imported_on_first_use(folder):
    module = import_package(folder)
    if "__getattr__" in vars(module):
        optional = set(getattr(module, "_OPTIONAL", ()))
        assert type_checking_imports(folder / "__init__.py") == set(module.__all__) | optional


def test_help_lists_every_public_name():
    lines = (apgcn.__doc__ or "").splitlines()
    listed = {line.split()[0] for line in lines[lines.index("Public names") + 2 : lines.index("Packages") - 1]}
    assert listed == set(apgcn.__all__) | set(apgcn._OPTIONAL)
