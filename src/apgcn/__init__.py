"""Graph networks in which every node decides for itself how far to listen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from apgcn.cleaning import clean
    from apgcn.datasets import load
    from apgcn.graph import Graph
    from apgcn.models.apgcn import APGCN, APGCNSettings
    from apgcn.noise import Noise
    from apgcn.splits import TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
    from apgcn.tensors import GraphTensors
    from apgcn.training.packs import train
    from apgcn.training.paper import paper_settings
    from apgcn.training.result import RunResult
    from apgcn.training.runs import Run, benchmark_runs
    from apgcn.training.settings import TrainingSettings

_HOMES = {
    "apgcn.cleaning": ["clean"],
    "apgcn.datasets": ["load"],
    "apgcn.graph": ["Graph"],
    "apgcn.models.apgcn": ["APGCN", "APGCNSettings"],
    "apgcn.models.catalogue": ["settings_of"],
    "apgcn.splits": ["TEST_SEEDS", "VALIDATION_SEEDS", "Split", "split_for_test", "split_for_validation"],
    "apgcn.noise": ["Noise"],
    "apgcn.tensors": ["GraphTensors"],
    "apgcn.training.packs": ["train"],
    "apgcn.training.paper": ["paper_settings"],
    "apgcn.training.result": ["RunResult"],
    "apgcn.training.runs": ["Run", "benchmark_runs"],
    "apgcn.training.settings": ["TrainingSettings"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

_OPTIONAL = {"APGCNClassifier": ("apgcn.estimator", "scikit-learn", "sklearn")}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import apgcn` is quick."""
    if name in _OPTIONAL:
        return _optional(name)
    if name not in _HOME:
        raise AttributeError(f"module 'apgcn' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def _optional(name: str) -> Any:
    module, package, extra = _OPTIONAL[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        from apgcn.errors import MissingPackage

        raise MissingPackage(f'{name} needs {package}: pip install "apgcn[{extra}]"') from error


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL])
