"""How does a graph of PyTorch Geometric become ours, and ours one of PyTorch Geometric?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse

from apgcn.errors import InvalidInput, MissingPackage
from apgcn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_pyg(data: Data, *, name: str = "graph") -> Graph:
    """Take `x`, `edge_index`, `y` (-1 where unknown) and, where they are there, `edge_weight` and `class_names`."""
    for part in ("x", "edge_index"):
        if getattr(data, part, None) is None:
            raise InvalidInput(f"a Data must have {part} to become a graph, got {data!r}.")
    nodes = int(data.num_nodes)
    source, target = data.edge_index.detach().cpu().numpy()
    weight = getattr(data, "edge_weight", None)
    values = np.ones(len(source), np.float32) if weight is None else weight.detach().cpu().numpy()
    x = data.x.detach().cpu()
    labels = getattr(data, "y", None)
    if len(source) and not 0 <= min(source.min(), target.min()) <= max(source.max(), target.max()) < nodes:
        raise InvalidInput(f"edge_index must hold nodes from 0 to {nodes - 1}.")
    return Graph(
        adjacency=sparse.coo_matrix((values, (source, target)), shape=(nodes, nodes)).tocsr(),
        features=_csr(x) if x.layout != torch.strided else x.numpy(),
        labels=np.full(nodes, -1) if labels is None else labels.detach().cpu().reshape(-1).numpy(),
        name=name,
        class_names=tuple(getattr(data, "class_names", None) or ()),
    )


def to_pyg(graph: Graph) -> Data:
    """A `Data` with dense `x`, `edge_index`, `edge_weight`, `y` and `class_names`."""
    try:
        from torch_geometric.data import Data
    except ImportError:
        raise MissingPackage('a Data needs PyTorch Geometric: pip install "apgcn[pyg]"') from None
    coo = graph.adjacency.tocoo()
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    return Data(
        x=torch.as_tensor(features.copy()),
        edge_index=torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64)),
        edge_weight=torch.as_tensor(coo.data.copy()),
        y=torch.as_tensor(graph.labels.copy()),
        class_names=list(graph.class_names),
    )


def _csr(x: Any) -> sparse.csr_matrix:
    coo = x.to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sparse.coo_matrix((coo.values().numpy(), (rows, columns)), shape=tuple(x.shape)).tocsr()
