"""Scikit-learn classifier for the nodes of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from apgcn._utils.validation import MAX_INT32, check_int
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import ModelBundle, load_model, save_model
from apgcn.inference.evaluation import expected_calibration_error, reliability_bins
from apgcn.inference.fit import fit
from apgcn.inference.predictions import Predictions
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig

UNLABELLED = -1


class APGCNClassifier(ClassifierMixin, BaseEstimator):
    """AP-GCN classifier for the nodes of a graph, with a learned number of propagation steps for each node.

    There are two ways to pass a graph. `fit(features, labels, adjacency=adjacency)` takes all nodes, those without a
    label marked by -1 (or None). Or the graph is a parameter, `APGCNClassifier(graph=graph)`, and X holds indices of
    its nodes: `fit(nodes, labels)` trains on these, `predict(nodes)` predicts for those. The second way works with
    `cross_val_score` and everything else that splits X, because a subset of the nodes is not the whole graph.

    Parameters
    ----------
    graph : Graph or None
    penalty : float
        Weight of the number of steps in the loss: with a larger penalty nodes halt earlier.
    max_steps : int
        Largest number of propagation steps of a node.
    min_steps : int
        Smallest number of propagation steps of a node; with 0 a node may be predicted from its features alone.
    hidden_channels : int
        Width of the hidden layer.
    dropout, edge_dropout : float
        Dropout of features and hidden units, and of edges at every step, in training.
    freeze_halted : bool
        Whether the state of a node is frozen once it has halted, which saves computation; in the paper it is not.
    learning_rate, l2, patience, max_epochs
        See `TrainingConfig`.
    stopping_size : float
        Fraction of the labelled nodes that is held out for early stopping.
    ensemble_size : int
        Number of initialisations, trained as one run batch; their predictions are averaged.
    random_state : int, RandomState or None
        Seed of the split and of the initialisations; None is 0.
    device : str
        cpu, cuda or cuda:N.
    threads : int or None
        Maximum number of CPU threads; None: the cores that this process may use. The results do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    n_features_in_ : int
    steps_, remainder_ : arrays of shape (nodes,)
        K and R of every node of the graph, averaged over the ensemble.
    calibration_error_ : float
        Expected calibration error on the nodes of early stopping.
    reliability_ : list of ReliabilityBin
        Confidence and accuracy of these nodes, in bins of confidence.
    n_iter_ : int
        Number of epochs, of the initialisation that took most.

    Examples
    --------
    >>> import numpy as np
    >>> from apgcn import clean, load
    >>> cora = clean(load("cora"))
    >>> labels = np.where(np.arange(cora.num_nodes) % 4 == 0, cora.labels, -1)
    >>> classifier = APGCNClassifier(max_epochs=30).fit(cora.features, labels, adjacency=cora.adjacency)
    >>> classifier.predict_proba().shape, classifier.steps_.shape
    ((2485, 7), (2485,))
    """

    def __init__(
        self,
        *,
        graph: Graph | None = None,
        penalty: float = 0.005,
        max_steps: int = 10,
        min_steps: int = 1,
        hidden_channels: int = 64,
        dropout: float = 0.5,
        edge_dropout: float = 0.5,
        freeze_halted: bool = False,
        learning_rate: float = 0.01,
        l2: float = 0.008,
        patience: int = 100,
        max_epochs: int = 10_000,
        stopping_size: float = 0.2,
        ensemble_size: int = 1,
        random_state: int = 0,
        device: str = "cpu",
        threads: int | None = None,
    ):
        self.graph = graph
        self.penalty = penalty
        self.max_steps = max_steps
        self.min_steps = min_steps
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.edge_dropout = edge_dropout
        self.freeze_halted = freeze_halted
        self.learning_rate = learning_rate
        self.l2 = l2
        self.patience = patience
        self.max_epochs = max_epochs
        self.stopping_size = stopping_size
        self.ensemble_size = ensemble_size
        self.random_state = random_state
        self.device = device
        self.threads = threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, adjacency: Any = None) -> APGCNClassifier:
        """Train on the labelled nodes.

        Parameters
        ----------
        X : array or sparse matrix of shape (nodes, features), or, with `graph`, node indices of shape (m,) or (m, 1)
        y : array of shape (nodes,) or (m,)
            Classes of any type; -1, None or NaN where unknown.
        adjacency : matrix of shape (nodes, nodes), optional
            Entry (i, j) is the weight of the edge from i to j, along which j receives from i. Without it there are no
            edges.
        """
        if self.graph is None:
            features = validate_data(self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=2)
            nodes = np.arange(features.shape[0])
            edges = _check_adjacency(adjacency, features.shape[0])
            if adjacency is None:
                warn(
                    "neither adjacency nor graph is given, so nodes are classified by their own features alone",
                    stacklevel=2,
                )
        else:
            if adjacency is not None:
                raise InvalidInput(
                    "adjacency must not be given with graph, which has its own edges; leave one of them out."
                )
            nodes, features, edges = self._node_indices(X), self.graph.features, self.graph.adjacency
            self.n_features_in_ = 1
        is_labelled, classes, encoded = _encode_labels(y, num_nodes=len(nodes))
        labels = np.full(features.shape[0], UNLABELLED)
        labels[nodes[is_labelled]] = encoded
        if not np.array_equal(labels[nodes[is_labelled]], encoded):
            raise InvalidInput("X must not hold a node twice with two classes.")
        graph = Graph(edges, features=features, labels=labels, class_names=tuple(str(name) for name in classes))
        self.classes_ = classes
        self._has_encoding = False
        self._set_model(self._train(graph, labels), graph)
        return self

    def _train(self, graph: Graph, labels: np.ndarray) -> TrainedModel:
        check_int("ensemble_size", self.ensemble_size)
        seed = self._seed()
        split = stratified_split(labels, stopping_size=self.stopping_size, seed=seed)
        model = APGCNConfig(
            penalty=self.penalty,
            max_steps=self.max_steps,
            min_steps=self.min_steps,
            hidden_channels=self.hidden_channels,
            dropout=self.dropout,
            edge_dropout=self.edge_dropout,
            freeze_halted=self.freeze_halted,
        )
        training = TrainingConfig(
            learning_rate=self.learning_rate, l2=self.l2, patience=self.patience, max_epochs=self.max_epochs
        )
        return fit(
            graph,
            split,
            model,
            training,
            ensemble_size=self.ensemble_size,
            seed=seed,
            device=self.device,
            threads=self.threads,
        )

    def _set_model(self, model: TrainedModel, graph: Graph) -> None:
        """Set the fitted attributes; `predict` gives the same bits after `fit` and after `load`."""
        self._model, self._graph = model, graph
        self._predictions = model.predict(graph, device=self.device, threads=self.threads)
        self.steps_, self.remainder_ = self._predictions.steps, self._predictions.remainder
        stopping = model.split.stopping
        probabilities, labels = self._predictions.probabilities[stopping], graph.labels[stopping]
        self.calibration_error_ = expected_calibration_error(probabilities, labels)
        self.reliability_ = reliability_bins(probabilities, labels)
        self.n_iter_ = max(model.metrics["epochs"])

    def predict(self, X: Any = None, adjacency: Any = None) -> np.ndarray:
        """The predicted class of every node; X as in `predict_proba`."""
        probabilities = self.predict_proba(X, adjacency)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any = None, adjacency: Any = None) -> np.ndarray:
        """The probability of every class, of shape (nodes, classes).

        Without X, for the nodes it was fitted on; with features and adjacency, for the nodes of another graph; with
        the parameter `graph`, for the nodes of that graph whose indices X holds.
        """
        check_is_fitted(self, "classes_")
        if adjacency is not None and (X is None or self.graph is not None):
            raise InvalidInput(
                "adjacency must come with X, the features of all its nodes, and without the parameter graph."
            )
        if X is None:
            return self._predictions.probabilities
        if self.graph is not None:
            if self.graph.num_nodes != self._graph.num_nodes:
                raise InvalidInput(
                    "graph must be the one that the classifier was fitted with; call fit again for another one."
                )
            return self._predictions.probabilities[self._node_indices(X)]
        return self.predict_nodes(X, adjacency).probabilities

    def predict_nodes(self, X: Any, adjacency: Any = None) -> Predictions:
        """Probabilities, steps and remainder of the nodes of another graph, as `Predictions`."""
        check_is_fitted(self, "classes_")
        if adjacency is None and self._graph.adjacency.nnz:
            raise InvalidInput(
                "adjacency must be given with X, because the classifier was fitted with one; use predict() for the "
                "nodes it was fitted on, and APGCNClassifier(graph=graph) with node indices for score and "
                "cross_val_score."
            )
        if self._has_encoding:
            raise InvalidInput("X must be a table, on whose columns the model was trained; use apgcn predict.")
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        num_nodes = features.shape[0]
        labels = np.full(num_nodes, UNLABELLED)
        graph = Graph(_check_adjacency(adjacency, num_nodes), features=features, labels=labels)
        return self._model.predict(graph, device=self.device, threads=self.threads)

    def save(self, folder: str | Path) -> None:
        """Write a new folder for `APGCNClassifier.load` and `apgcn predict`."""
        check_is_fitted(self, "classes_")
        names = tuple(getattr(self, "feature_names_in_", ()))
        save_model(Path(folder), ModelBundle(self._model, self._graph, feature_names=names))

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        graph: Graph | None = None,
        device: str = "cpu",
        threads: int | None = None,
    ) -> APGCNClassifier:
        """Load a fitted classifier; its classes are strings. The parameter `graph` has to be passed again."""
        bundle = load_model(Path(folder))
        model = bundle.model
        values = {**vars(model.config), **vars(model.training)}
        values |= {"ensemble_size": model.ensemble_size, "random_state": model.split.seed}
        parameters = {name: values[name] for name in cls().get_params() if name in values}
        classifier = cls(graph=graph, device=device, threads=threads, **parameters)
        classifier.classes_ = np.array(model.class_names)
        classifier.n_features_in_ = 1 if graph is not None else model.num_features
        classifier._has_encoding = bundle.encoding is not None
        if bundle.feature_names:
            classifier.feature_names_in_ = np.array(bundle.feature_names, dtype=object)
        classifier._set_model(model, bundle.graph)
        return classifier

    def _node_indices(self, X: Any) -> np.ndarray:
        assert self.graph is not None
        array = np.asarray(X)
        nodes = array.reshape(-1) if array.ndim <= 1 or array.shape[1:] == (1,) else array
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise InvalidInput(f"X must hold indices of nodes, because graph is set, got {array.dtype}.")
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < self.graph.num_nodes:
            wrong = nodes.min() if nodes.min() < 0 else nodes.max()
            raise InvalidInput(f"X must hold nodes from 0 to {self.graph.num_nodes - 1}, got {wrong}.")
        return nodes.astype(np.int64)

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(MAX_INT32))
        seed = 0 if self.random_state is None else self.random_state
        check_int("random_state", seed, minimum=0)
        return int(seed)


def _encode_labels(y: Any, *, num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which nodes are labelled (nodes,), the classes, and the class of each labelled node as an index."""
    if y is None:
        raise InvalidInput("APGCNClassifier requires y to be passed, but the target y is None.")
    y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    if y.ndim == 2:
        y = column_or_1d(y, warn=True)
    if y.shape != (num_nodes,):
        raise InvalidInput(f"y must have one label for each of {num_nodes} nodes, got {y.shape}.")
    if y.dtype.kind == "f":
        assert_all_finite(y, allow_nan=True, input_name="y")
    if y.dtype.kind == "O":
        is_labelled = np.array([not _is_missing(label) for label in y], dtype=bool)
        has_strings = any(isinstance(label, str) for label in y[is_labelled])
        labels = y[is_labelled] if has_strings else np.array(y[is_labelled].tolist())
    else:
        is_labelled = (y == y) & (y != UNLABELLED if y.dtype.kind in "iuf" else np.ones(num_nodes, bool))
        labels = y[is_labelled]
    check_classification_targets(labels)
    if not is_labelled.any():
        raise InvalidInput("y must hold the classes of some nodes, but all are unknown.")
    classes, encoded = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(f"y must hold at least two classes, got one class, {classes[0]!r}.")
    return is_labelled, classes, encoded


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, the NA of pandas, or -1."""
    return label is None or type(label).__name__ == "NAType" or label != label or label == UNLABELLED


def _check_adjacency(adjacency: Any, num_nodes: int) -> Any:
    if adjacency is None:
        return sparse.csr_matrix((num_nodes, num_nodes), dtype=np.float32)
    if isinstance(adjacency, list | tuple):
        adjacency = np.array(adjacency)
    if not hasattr(adjacency, "shape"):
        raise InvalidInput(
            f"adjacency must be an array or a sparse matrix, got {type(adjacency).__name__}; see apgcn.io for other "
            "graphs."
        )
    if adjacency.shape != (num_nodes, num_nodes):
        raise InvalidInput(
            f"adjacency must be {num_nodes} x {num_nodes}, a row for each row of X, got {adjacency.shape}."
        )
    return adjacency
