"""How does a graph of PyTorch Geometric become ours, and ours one of PyTorch Geometric?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.build_graph import ReadGraph, canonical_edges

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_pyg(data: Data, *, name: str = "graph") -> ReadGraph:
    """Take `x`, `edge_index`, `y` (-1 where unknown) and, where they are there, weights, `class_names`, `node_names`.

    Weights are `edge_weight`, or an `edge_attr` with one number for each edge. Masks are left to the caller.
    """
    for part in ("x", "edge_index"):
        if getattr(data, part, None) is None:
            raise InvalidInput(f"a Data must have {part} to become a graph, got {data!r}.")
    x = data.x.detach().cpu()
    if x.ndim != 2 or x.dtype.is_complex:
        raise InvalidInput(f"x must be numbers of shape (nodes, features), got {x.dtype} of shape {tuple(x.shape)}.")
    nodes = len(x)
    ends = _ends(data.edge_index)
    if ends.size and not 0 <= ends.min() <= ends.max() < nodes:
        raise InvalidInput(f"edge_index must hold nodes from 0 to {nodes - 1}.")
    weights, notes = _weights(data, ends.shape[1])
    labels, names = getattr(data, "y", None), getattr(data, "node_names", None)
    edges = sparse.coo_matrix((weights, tuple(ends)), shape=(nodes, nodes))
    graph = Graph(
        adjacency=edges,
        features=_csr(x) if x.layout != torch.strided else _array(x),
        labels=None if labels is None else _array(labels).reshape(-1),
        name=name,
        class_names=tuple(getattr(data, "class_names", None) or ()),
        node_names=tuple(names) if names else None,
    )
    read = canonical_edges(graph, edges, directed=True)
    read.notes.extend(notes)
    return read


def _weights(data: Data, edges: int) -> tuple[np.ndarray, list[str]]:
    """The weight of every edge, and what is to be said."""
    weight, attributes = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if weight is None and attributes is not None:
        if attributes.shape not in ((edges,), (edges, 1)):
            return np.ones(edges, np.float32), ["not used: edge_attr, which is more than one number for each edge."]
        weight = attributes.reshape(-1)
    if weight is None:
        return np.ones(edges, np.float32), []
    if weight.shape != (edges,):
        raise InvalidInput(f"edge_weight must have shape ({edges},), one for each edge, got {tuple(weight.shape)}.")
    return _array(weight), []


def to_pyg(graph: Graph) -> Data:
    """A `Data` with dense `x`, `edge_index`, `edge_weight`, `y`, `class_names` and, if there are any, `node_names`."""
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
        **({} if graph.node_names is None else {"node_names": list(graph.node_names)}),
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
