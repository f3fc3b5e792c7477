"""Node classifiers: AP-GCN, its variants, and every baseline of the paper, batched over runs.

* `registry`: all models by name; `config_class("gat")()` has the hyperparameters of one, and builds it;
* `presets`: hyperparameters with their sources, per model and graph;
* `base`: `ModelConfig` and `BatchedModel`, what each model implements;
* one file per model: `apgcn` (start there), `ap_variants`, `gcn`, `gat`, `jk`, `cheb`, `arma`, `ngcn`, `ppnp`, `appnp`,
  and `btfp`, which has no weights.

docs/adding_a_model.md is the recipe for a new one. `apgcn.nn.APGCN` is the model for a training loop of yours.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apgcn.models.base import BatchedModel, ModelConfig
    from apgcn.models.presets import Preset, preset_values, presets_for
    from apgcn.models.registry import MODELS, config_class, count_weights

_MODULES = {
    "BatchedModel": "base",
    "MODELS": "registry",
    "ModelConfig": "base",
    "Preset": "presets",
    "config_class": "registry",
    "count_weights": "registry",
    "preset_values": "presets",
    "presets_for": "presets",
}

__all__ = [
    "MODELS",
    "BatchedModel",
    "ModelConfig",
    "Preset",
    "config_class",
    "count_weights",
    "preset_values",
    "presets_for",
]


def __getattr__(name: str) -> Any:
    """Import on first use: the registry imports every model."""
    if name not in _MODULES:
        raise AttributeError(f"module 'apgcn.models' has no attribute {name!r}")
    return getattr(import_module(f"apgcn.models.{_MODULES[name]}"), name)
