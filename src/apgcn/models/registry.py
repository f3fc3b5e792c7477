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
from apgcn.models.base import ModelSettings
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise

FILES = {  # and the class of settings in each
    "apgcn": "APGCNSettings",
    "vgcn": "VGCNSettings",
    "gcn": "GCNSettings",
    "ngcn": "NGCNSettings",
    "gat": "GATSettings",
    "jk": "JKSettings",
    "btfp": "BtFPSettings",
    "ppnp": "PPNPSettings",
    "appnp": "APPNPSettings",
    "arma": "ARMASettings",
    "cheb": "ChebSettings",
    "ap_appnp": "APAPPNPSettings",
    "ap_arma": "APARMASettings",
}

_SETTINGS = [getattr(import_module(f"apgcn.models.{file}"), kind) for file, kind in FILES.items()]

MODELS: Mapping[str, Any] = MappingProxyType({settings.name: settings for settings in _SETTINGS})


def settings_of(model: str) -> Any:
    """The class that holds what can be chosen about a model."""
    try:
        return MODELS[model]
    except (KeyError, TypeError):  # the latter for what cannot be a name
        raise UnknownName("model", model, MODELS) from None


def count_weights(settings: ModelSettings, *, features: int, classes: int) -> int:
    """How many numbers one network learns on a graph with so many features and classes."""
    if not settings.has_weights:
        return 0
    node = Graph(sparse.csr_matrix((1, 1)), features=sparse.csr_matrix((1, features)), labels=np.array([classes - 1]))
    network = settings.build(GraphTensors.of(node), Noise([0]))  # weights do not depend on how many nodes there are
    return sum(weight.numel() for weight in network.parameters())
