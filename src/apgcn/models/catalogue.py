"""Which models are there? A new one is a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from apgcn.errors import UnknownName
from apgcn.graph import Graph
from apgcn.models.ap_appnp import APAPPNPSettings
from apgcn.models.ap_arma import APARMASettings
from apgcn.models.apgcn import APGCNSettings
from apgcn.models.appnp import APPNPSettings
from apgcn.models.arma import ARMASettings
from apgcn.models.btfp import BtFPSettings
from apgcn.models.cheb import ChebSettings
from apgcn.models.gat import GATSettings
from apgcn.models.gcn import GCNSettings
from apgcn.models.jk import JKSettings
from apgcn.models.network import ModelSettings, has_weights
from apgcn.models.ngcn import NGCNSettings
from apgcn.models.ppnp import PPNPSettings
from apgcn.models.vgcn import VGCNSettings
from apgcn.noise import Noise
from apgcn.tensors import GraphTensors

MODELS: Mapping[str, Any] = MappingProxyType(
    {
        settings.name: settings
        for settings in (
            APGCNSettings,
            VGCNSettings,
            GCNSettings,
            NGCNSettings,
            GATSettings,
            JKSettings,
            BtFPSettings,
            PPNPSettings,
            APPNPSettings,
            ARMASettings,
            ChebSettings,
            APAPPNPSettings,
            APARMASettings,
        )
    }
)


def settings_of(model: str) -> Any:
    """The class that holds what can be chosen about a model."""
    try:
        return MODELS[model]
    except KeyError:
        raise UnknownName("model", model, MODELS) from None


def count_weights(settings: ModelSettings, *, features: int, classes: int) -> int:
    """How many numbers one network learns on a graph with so many features and classes."""
    if not has_weights(settings):
        return 0
    node = Graph(sparse.csr_matrix((1, 1)), features=sparse.csr_matrix((1, features)), labels=np.array([classes - 1]))
    network = settings.build(GraphTensors.of(node), Noise([0]))  # weights do not depend on how many nodes there are
    return sum(weight.numel() for weight in network.parameters())
