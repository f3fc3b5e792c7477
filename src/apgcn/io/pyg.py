"""How does a graph of PyTorch Geometric become ours, and ours one of PyTorch Geometric?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn.errors import InvalidInput, MissingPackage
from apgcn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_pyg(data: Data, *, name: str = "graph") -> Graph:
    """Take `x`, `edge_index`, `y` (-1 where unknown) and, where they are there, `edge_weight` and `class_names`."""
    for part in ("x", "edge_index"):
        if getattr(data, part, None) is None:
            raise InvalidInput(f"a Data must have {part} to become a graph, got {data!r}.")
    x = data.x.detach().cpu()
    if x.ndim != 2 or x.dtype.is_complex:
        raise InvalidInput(f"x must be numbers of shape (nodes, features), got {x.dtype} of shape {tuple(x.shape)}.")
    nodes = len(x)
    source, target = _ends(data.edge_index.detach().cpu())
    if len(source) and not 0 <= min(source.min(), target.min()) <= max(source.max(), target.max()) < nodes:
        raise InvalidInput(f"edge_index must hold nodes from 0 to {nodes - 1}.")
    weight = getattr(data, "edge_weight", None)
    if weight is not None and weight.shape != source.shape:
        raise InvalidInput(
            f"edge_weight must have shape ({len(source)},), one for each edge, got {tuple(weight.shape)}."
        )
    values = np.ones(len(source), np.float32) if weight is None else _array(weight)
    labels = getattr(data, "y", None)
    return Graph(
        adjacency=sparse.coo_matrix((values, (source, target)), shape=(nodes, nodes)).tocsr(),
        features=_csr(x) if x.layout != torch.strided else _array(x),
        labels=np.full(nodes, -1) if labels is None else _array(labels).reshape(-1),
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


def _ends(edge_index: Tensor) -> np.ndarray:
    ends = _array(edge_index)
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise InvalidInput(f"edge_index must be whole numbers of shape (2, edges), got {ends.dtype} {ends.shape}.")
    return ends


def _array(tensor: Tensor) -> np.ndarray:
    """Its numbers, bfloat16 as float32, which NumPy knows."""
    dense = tensor.detach().cpu().to_dense()
    return dense.float().numpy() if dense.dtype == torch.bfloat16 else dense.numpy()


def _csr(x: Tensor) -> sparse.csr_matrix:
    coo = x.to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sparse.coo_matrix((_array(coo.values()), (rows, columns)), shape=tuple(x.shape)).tocsr()
