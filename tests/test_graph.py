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


def test_a_graph_does_not_change_with_the_arrays_it_was_made_from():
    features, adjacency = np.eye(3), sparse.csr_matrix(PATH, dtype=np.float32)
    graph = Graph(adjacency, features=features, labels=[0, 1, 1])
    features[0, 0] = adjacency.data[0] = 7
    assert graph.features[0, 0] == 1
    assert graph.adjacency.data[0] == 1


def test_a_graph_cannot_be_written_to():
    graph = Graph(PATH, features=np.eye(3), labels=[0, 1, 1])
    with pytest.raises(AttributeError):
        graph.labels = graph.labels  # type: ignore[misc]
    for array in (graph.labels, graph.features, graph.adjacency.data, graph.adjacency.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("change", "sentence"),
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
        ({"labels": [0, 1, -2]}, "labels must be >= -1, got -2"),
        ({"labels": [0.0, 1.0, 2.0]}, "labels must be whole numbers"),
        ({"class_names": ["one"]}, "labels count 2 classes but there are 1 class names"),
        ({"node_names": ["one"]}, "g has 3 nodes but 1 node names"),
    ],
)
def test_a_mistake_is_told_in_words(change, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Graph(**{"adjacency": PATH, "features": np.eye(3), "labels": [0, 1, 1], "name": "g", **change})


def test_a_graph_needs_a_node():
    with pytest.raises(InvalidInput, match="at least one node"):
        Graph(np.zeros((0, 0)), features=np.zeros((0, 2)), labels=np.zeros(0, dtype=int))
