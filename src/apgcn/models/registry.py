"""Which models are there? A new one is a file beside this one, and a line here: docs/adding_a_model.md."""

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

FILES = {  # and the class of settings in each
    "apgcn": "APGCNConfig",
    "vgcn": "VGCNConfig",
    "gcn": "GCNConfig",
    "ngcn": "NGCNConfig",
    "gat": "GATConfig",
    "jk": "JKConfig",
    "btfp": "BtFPConfig",
    "ppnp": "PPNPConfig",
    "appnp": "APPNPConfig",
    "arma": "ARMAConfig",
    "cheb": "ChebConfig",
    "ap_appnp": "APAPPNPConfig",
    "ap_arma": "APARMAConfig",
}

_SETTINGS = [getattr(import_module(f"apgcn.models.{file}"), kind) for file, kind in FILES.items()]

MODELS: Mapping[str, Any] = MappingProxyType({config.name: config for config in _SETTINGS})


def config_class(model: str) -> Any:
    """The class that holds what can be chosen about a model."""
    try:
        return MODELS[model]
    except (KeyError, TypeError):  # the latter for what cannot be a name
        raise UnknownName("model", model, MODELS) from None


def count_weights(config: ModelConfig, *, features: int, classes: int) -> int:
    """How many numbers one network learns on a graph with so many features and classes."""
    if not config.has_weights:
        return 0
    node = Graph(sparse.csr_matrix((1, 1)), features=sparse.csr_matrix((1, features)), labels=np.array([classes - 1]))
    network = config.build(DeviceGraph.of(node), RandomStream([0]))  # weights do not depend on how many nodes there are
    return sum(weight.numel() for weight in network.parameters())
