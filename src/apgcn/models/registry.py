"""Registry of the models. A new one is a file beside this one, a line in `CONFIGS`, and its presets.

The recipe is docs/adding_a_model.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from apgcn.data.graph import Graph
from apgcn.errors import UnknownName
from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

CONFIGS = {  # class: its module
    "APGCNConfig": "apgcn",
    "VGCNConfig": "gcn",
    "GCNConfig": "gcn",
    "NGCNConfig": "ngcn",
    "GATConfig": "gat",
    "JKConfig": "jk",
    "BtFPConfig": "btfp",
    "PPNPConfig": "ppnp",
    "APPNPConfig": "appnp",
    "ARMAConfig": "arma",
    "ChebConfig": "cheb",
    "MLPConfig": "mlp",
    "LPConfig": "lp",
    "SGCConfig": "sgc",
    "DAGNNConfig": "dagnn",
    "GPRGNNConfig": "gprgnn",
    "GRANDConfig": "grand",
    "NDLSConfig": "ndls",
    "APAPPNPConfig": "ap_variants",
    "APARMAConfig": "ap_variants",
}

_CLASSES = [getattr(import_module(f"apgcn.models.{module}"), name) for name, module in CONFIGS.items()]

MODELS: Mapping[str, Any] = MappingProxyType({config.name: config for config in _CLASSES})


def config_class(model: str) -> Any:
    """The configuration class of a model, by name."""
    try:
        return MODELS[model]
    except (KeyError, TypeError):  # TypeError: an unhashable name
        raise UnknownName("model", model, MODELS) from None


def count_weights(config: ModelConfig, *, features: int, classes: int) -> int:
    """Number of learned parameters of one model on a graph with so many features and classes."""
    if not config.has_weights:
        return 0
    node = Graph(sparse.csr_matrix((1, 1)), features=sparse.csr_matrix((1, features)), labels=np.array([classes - 1]))
    model = config.build(
        DeviceGraph.from_graph(node), RandomStream([0])
    )  # the weights do not depend on the number of nodes
    return sum(weight.numel() for weight in model.parameters())
