"""Graph networks in which every node decides for itself how far to listen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from apgcn.data import load
    from apgcn.data.graph import Graph
    from apgcn.data.splits import TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
    from apgcn.data.transforms import clean
    from apgcn.models.apgcn import APGCN, APGCNConfig
    from apgcn.ops.device_graph import DeviceGraph
    from apgcn.ops.rng import RandomStream
    from apgcn.training.batching import train
    from apgcn.training.config import TrainingConfig, preset_config
    from apgcn.training.runs import Run, RunResult, benchmark_runs

_HOMES = {
    "apgcn.data": ["load"],
    "apgcn.data.graph": ["Graph"],
    "apgcn.data.splits": ["TEST_SEEDS", "VALIDATION_SEEDS", "Split", "split_for_test", "split_for_validation"],
    "apgcn.data.transforms": ["clean"],
    "apgcn.models.apgcn": ["APGCN", "APGCNConfig"],
    "apgcn.models.registry": ["config_class"],
    "apgcn.ops.device_graph": ["DeviceGraph"],
    "apgcn.ops.rng": ["RandomStream"],
    "apgcn.training.batching": ["train"],
    "apgcn.training.config": ["TrainingConfig", "preset_config"],
    "apgcn.training.runs": ["Run", "RunResult", "benchmark_runs"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

_OPTIONAL = {"APGCNClassifier": ("apgcn.sklearn", "scikit-learn", "sklearn")}

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
