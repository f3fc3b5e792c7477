"""Node classifiers: AP-GCN, its variants, every baseline of the paper, and newer ones, batched over runs.

* `registry`: all models by name; `config_class("gat")()` has the hyperparameters of one, and builds it;
* `presets`: hyperparameters with their sources, per model and graph;
* `base`: `ModelConfig` and `BatchedModel`, what each model implements;
* one file per model: `apgcn` (start there), `ap_variants`, `gcn`, `gat`, `jk`, `cheb`, `arma`, `ngcn`, `ppnp`, `appnp`,
  `sgc`, `dagnn`, `gprgnn`, `grand`, `ndls`, `mlp`, which does not propagate, and `btfp` and `lp`, which have no
  weights; `state_sums` is what `dagnn` and `gprgnn` share.

docs/adding_a_model.md is the recipe for a new one. `apgcn.nn.APGCN` is the model for a training loop of yours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

if TYPE_CHECKING:
    from apgcn.models.base import BatchedModel, ModelConfig
    from apgcn.models.presets import Preset, preset_values, presets_for
    from apgcn.models.registry import MODELS, config_class, count_weights

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

__getattr__, __dir__ = lazy_names(  # the registry imports every model.
    __name__,
    {
        "base": ["BatchedModel", "ModelConfig"],
        "presets": ["Preset", "preset_values", "presets_for"],
        "registry": ["MODELS", "config_class", "count_weights"],
    },
)
