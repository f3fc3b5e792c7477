"""Conversion from and to `torch_geometric.data.Data`."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn._utils.formatting import pluralize
from apgcn._utils.validation import check_int
from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.io.graph_builder import LoadedGraph, with_canonical_edges
from apgcn.io.structure_encoding import AUTO, Structure

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_pyg(data: Data, *, name: str = "graph", structure: Structure = AUTO) -> LoadedGraph:
    """Convert `x`, `edge_index`, `y` (-1 where unknown) and, where present, weights, `class_names` and `node_names`.

    Weights are `edge_weight`, or an `edge_attr` with one number per edge. Masks are left to the caller. A `Data`
    without `x` needs `num_nodes` or `y`; `structure` as in `build_graph`.
    """
    if getattr(data, "edge_index", None) is None:
        raise InvalidInput(f"a Data must have edge_index to become a graph, got {data!r}.")
    for key in ("x", "edge_index", "y", "edge_weight", "edge_attr"):
        value = getattr(data, key, None)
        if not isinstance(value, Tensor | None):
            raise InvalidInput(f"{key} of a Data must be a tensor, got {type(value).__name__}; try torch.as_tensor.")
    x = _features(data)
    if x.ndim != 2 or x.dtype.is_complex:
        raise InvalidInput(f"x must be numbers of shape (nodes, features), got {x.dtype} of shape {tuple(x.shape)}.")
    num_nodes = len(x)
    edge_index = _as_edge_index(data.edge_index)
    if edge_index.size and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        raise InvalidInput(f"edge_index must contain node indices from 0 to {num_nodes - 1}.")
    weights, notes = _edge_weights(data, edge_index.shape[1])
    labels, node_names = getattr(data, "y", None), getattr(data, "node_names", None)
    edges = sparse.coo_matrix((weights, tuple(edge_index)), shape=(num_nodes, num_nodes))
    graph = Graph(
        adjacency=edges,
        features=_as_csr(x) if x.layout != torch.strided else _as_array(x),
        labels=None if labels is None else _as_array(labels).reshape(-1),
        name=name,
        class_names=tuple(getattr(data, "class_names", None) or ()),
        node_names=None if node_names is None else tuple(map(str, node_names)),
    )
    loaded = with_canonical_edges(graph, edges, directed=True, structure=structure)
    loaded.notes.extend(notes)
    return loaded


def split_from_masks(data: Any, labels: np.ndarray, notes: list[str], *, auto: bool, seed: int) -> Split | None:
    """The split that the three masks of a `Data` describe; None for another object, or without the masks.

    Parameters
    ----------
    labels : array of shape (nodes,)
        Nodes without a label, -1, are left out, which is added to `notes`.
    auto : bool
        Whether half of the validation mask chooses a model; otherwise all of it stops the training.
    seed : int
        Draws that half.

    Raises
    ------
    InvalidInput
        If a mask has another type or shape, or two masks share a node, or a set is too small.
    """
    masks = {name: getattr(data, f"{name}_mask", None) for name in ("train", "val", "test")}
    if not hasattr(data, "edge_index") or any(mask is None for mask in masks.values()):
        return None
    sets = {}
    for name, mask in masks.items():
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != labels.shape:
            found = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
            raise InvalidInput(
                f"{name}_mask must be booleans of shape ({len(labels)},), one per node, got {found}; of several splits "
                "select one first."
            )
        nodes = np.flatnonzero(mask.cpu().numpy())
        sets[name] = nodes[labels[nodes] >= 0]
        if len(sets[name]) < len(nodes):
            notes.append(f"{name}_mask: {pluralize(len(nodes) - len(sets[name]), 'node')} without a label left out.")
    for first, second in combinations(sets, 2):
        shared = np.intersect1d(sets[first], sets[second])
        if len(shared):
            raise InvalidInput(f"{first}_mask and {second}_mask must share no node, but share {len(shared)}.")
    needed = {"train": 1, "val": 2 if auto else 1, "test": 0}
    for name, count in needed.items():
        if len(sets[name]) < count:
            raise InvalidInput(
                f"{name}_mask must have {pluralize(count, 'node')} with a label or more, got {len(sets[name])}."
            )
    stopping = np.random.default_rng(seed).permutation(sets["val"])
    half = len(stopping) // 2 if auto else len(stopping)
    return Split(
        train=sets["train"], stopping=stopping[:half], validation=stopping[half:], test=sets["test"], seed=seed
    )


def to_pyg(graph: Graph) -> Data:
    """Convert to a `Data` with dense `x`, `edge_index`, `edge_weight`, `y`, `class_names` and, if any, `node_names`."""
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


def _features(data: Data) -> Tensor:
    """The features of a `Data`; without them a tensor with no columns."""
    if getattr(data, "x", None) is not None:
        return data.x.detach().cpu()
    labels = getattr(data, "y", None)
    if "num_nodes" in data:
        num_nodes = data.num_nodes
    elif labels is not None:
        num_nodes = labels.numel()
    else:
        raise InvalidInput(f"a Data must have x, y or num_nodes to become a graph, got {data!r}.")
    check_int("num_nodes", num_nodes)
    return torch.zeros((num_nodes, 0))


def _edge_weights(data: Data, num_edges: int) -> tuple[np.ndarray, list[str]]:
    """Weight of every edge, (edges,), and notes."""
    weight, attributes = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if weight is None and attributes is not None:
        if attributes.shape not in ((num_edges,), (num_edges, 1)):
            return np.ones(num_edges, np.float32), ["edge_attr is not used: it has more than one number per edge."]
        weight = attributes.reshape(-1)
    if weight is None:
        return np.ones(num_edges, np.float32), []
    if weight.shape != (num_edges,):
        raise InvalidInput(f"edge_weight must have shape ({num_edges},), one per edge, got {tuple(weight.shape)}.")
    return _as_array(weight), []


def _as_edge_index(edge_index: Tensor) -> np.ndarray:
    array = _as_array(edge_index)
    if array.ndim != 2 or len(array) != 2 or array.dtype.kind not in "iu":
        raise InvalidInput(f"edge_index must be integers of shape (2, edges), got {array.dtype} {array.shape}.")
    return array


def _as_array(tensor: Tensor) -> np.ndarray:
    """Dense NumPy array; bfloat16, which NumPy lacks, becomes float32."""
    dense = tensor.detach().cpu().to_dense()
    return dense.float().numpy() if dense.dtype == torch.bfloat16 else dense.numpy()


def _as_csr(x: Tensor) -> sparse.csr_matrix:
    coo = x.to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sparse.coo_matrix((_as_array(coo.values()), (rows, columns)), shape=tuple(x.shape)).tocsr()
