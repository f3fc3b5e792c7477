"""The graph container: validation, immutability, types."""

import numpy as np
import pytest
from scipy import sparse

from apgcn import Graph
from apgcn.errors import InvalidInput

PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_sparse_features_stay_sparse_and_dense_ones_dense():
    labels = [0, 1, -1]
    assert sparse.issparse(Graph(PATH, features=sparse.eye(3), labels=labels).features)
    assert isinstance(Graph(PATH, features=np.eye(3), labels=labels).features, np.ndarray)


def test_a_graph_copies_the_arrays_it_is_created_from():
    features, adjacency = np.eye(3), sparse.csr_matrix(PATH, dtype=np.float32)
    graph = Graph(adjacency, features=features, labels=[0, 1, 1])
    features[0, 0] = adjacency.data[0] = 7
    assert graph.features[0, 0] == 1
    assert graph.adjacency.data[0] == 1


def test_a_graph_is_immutable():
    graph = Graph(PATH, features=np.eye(3), labels=[0, 1, 1])
    with pytest.raises(AttributeError):
        graph.labels = graph.labels  # type: ignore[misc]
    for array in (graph.labels, graph.features, graph.adjacency.data, graph.adjacency.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adjacency": np.ones((3, 2))}, "adjacency must be square, got 3 x 2"),
        ({"adjacency": -PATH}, "edge weights must be >= 0, got -1"),
        ({"adjacency": np.full((3, 3), np.nan)}, "adjacency must be finite"),
        ({"adjacency": "edges.csv"}, "adjacency must be a matrix of numbers"),
        ({"features": np.eye(2)}, "g has 3 nodes but 2 rows of features"),
        ({"features": np.ones(3)}, r"features must have two axes \(nodes, features\), got shape \(3,\)"),
        ({"features": np.full((3, 3), np.inf)}, "features must be finite"),
        ({"features": [["a"], ["b"], ["c"]]}, "features must be numbers"),
        ({"labels": [0, 1]}, "g has 3 nodes but 2 labels; write -1"),
        ({"labels": [0, 1, -2]}, "labels must be >= -1 and < 65536, got -2"),
        ({"labels": [0.0, 1.0, 2.0]}, "labels must be integers"),
        ({"labels": [0, 1, 10**9]}, "labels must be >= -1 and < 65536, got 1000000000"),
        ({"labels": np.array([0, 1, 2**64 - 1], dtype=np.uint64)}, "labels must be >= -1 and < 65536"),
        ({"labels": [[0], [1, 2], [3]]}, "labels must have one axis"),
        ({"adjacency": (3, 3)}, "adjacency must be a matrix of numbers"),
        ({"adjacency": PATH * 1j}, "adjacency must be a matrix of numbers"),
        ({"features": PATH * 1j}, "features must be numbers"),
        ({"adjacency": PATH * 3e38}, r"edge weights must be at most 3.33333e\+29, got 3e\+38"),
        ({"adjacency": PATH * 1e-300}, r"edge weights must be 0 or at least 1\.4013e-45, .* got 1e-300; multiply all"),
        ({"adjacency": sparse.lil_matrix(PATH * 1e-300)}, "edge weights must be 0 or at least"),
        ({"class_names": 3}, "class_names must be a list of names, got 3"),
        ({"class_names": ["one"]}, "labels count 2 classes but there are 1 class names"),
        ({"node_names": ["one"]}, "g has 3 nodes but 1 node names"),
    ],
)
def test_invalid_arguments_raise_a_message_that_names_them(change, message):
    with pytest.raises(InvalidInput, match=message):
        Graph(**{"adjacency": PATH, "features": np.eye(3), "labels": [0, 1, 1], "name": "g", **change})


def test_an_index_outside_the_matrix_is_refused():
    """scipy trusts the arrays of a CSR matrix; such an index, used unchecked, crashes the process."""
    broken = sparse.csr_matrix(PATH, dtype=np.float32)
    broken.indices[0] = 10**8
    with pytest.raises(InvalidInput, match="adjacency must be a matrix of numbers"):
        Graph(broken, features=np.eye(3), labels=[0, 1, 1])


def test_names_may_be_an_array():
    assert Graph(PATH, np.eye(3), [0, 1, 1], class_names=np.array(["a", "b"])).class_names == ("a", "b")


def test_a_graph_needs_a_node():
    with pytest.raises(InvalidInput, match="at least one node"):
        Graph(np.zeros((0, 0)), features=np.zeros((0, 2)), labels=np.zeros(0, dtype=int))
