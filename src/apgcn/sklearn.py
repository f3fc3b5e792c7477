"""AP-GCN as scikit-learn's users expect a classifier: `fit`, `predict`, and what it learned in names that end in _."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from apgcn._utils.validation import MOST, check_int
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import SavedModel, load_model, save_model
from apgcn.inference.calibration import expected_calibration_error, reliability
from apgcn.inference.fit import fit
from apgcn.inference.predictions import Predictions
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig

UNLABELLED = -1


class APGCNClassifier(ClassifierMixin, BaseEstimator):
    """Classify the nodes of a graph, each of which decides for itself how far to listen.

    There are two ways to give it a graph. `fit(features, labels, adjacency=adjacency)` takes all nodes, those without
    a label marked by -1 (or None). Or the graph is given beforehand, `APGCNClassifier(graph=graph)`, and X are numbers
    of its nodes: `fit(nodes, labels)` learns from these, `predict(nodes)` answers for those; this is how to use
    `cross_val_score` and everything else that divides X into parts, because a part of the nodes is no graph.

    Parameters
    ----------
    graph : Graph or None
    penalty : float
        The price of a step: dearer, and nodes stop earlier.
    max_steps : int
        How often a node may listen at most.
    hidden : int
        Width of the hidden layer.
    dropout, edge_dropout : float
        Of features and hidden values, and of edges at every step, while training.
    freeze_halted : bool
        Whether a node keeps its value once it has halted, which saves work; in the paper it goes on changing.
    learning_rate, l2, patience, max_epochs
        See `TrainingConfig`.
    stopping : float
        The share of the labelled nodes that is not trained on but says when to stop.
    n_init : int
        How many initialisations are trained, as one pack; what they say is averaged.
    random_state : int, RandomState or None
        Which split and initialisations; the same number gives the same model; None is 0.
    device : str
        cpu, cuda or cuda:N.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    n_features_in_ : int
    steps_, remainder_ : arrays of shape (nodes,)
        K and R of every node of the graph, the mean over initialisations.
    calibration_error_ : float
        The expected calibration error on the nodes that said when to stop.
    reliability_ : list of Bin
        What it is made of.
    n_iter_ : int
        Epochs, of the initialisation that took most.

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
        hidden_channels: int = 64,
        dropout: float = 0.5,
        edge_dropout: float = 0.5,
        freeze_halted: bool = False,
        learning_rate: float = 0.01,
        l2: float = 0.008,
        patience: int = 100,
        max_epochs: int = 10_000,
        stopping: float = 0.2,
        n_init: int = 1,
        random_state: int = 0,
        device: str = "cpu",
    ):
        self.graph = graph
        self.penalty = penalty
        self.max_steps = max_steps
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.edge_dropout = edge_dropout
        self.freeze_halted = freeze_halted
        self.learning_rate = learning_rate
        self.l2 = l2
        self.patience = patience
        self.max_epochs = max_epochs
        self.stopping = stopping
        self.n_init = n_init
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, adjacency: Any = None) -> APGCNClassifier:
        """Learn from the labelled nodes.

        Parameters
        ----------
        X : array or sparse matrix of shape (nodes, features), or, with a graph given, nodes of shape (m,) or (m, 1)
        y : array of shape (nodes,) or (m,)
            Classes of any type; -1, None or NaN where unknown.
        adjacency : matrix of shape (nodes, nodes), optional
            Entry (i, j) is the weight of the edge from i to j, heard by j alone; without it nobody hears anybody.
        """
        if self.graph is None:
            features = validate_data(self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=2)
            numbers = np.arange(features.shape[0])
            edges = _adjacency(adjacency, features.shape[0])
            if adjacency is None:
                warn(
                    "neither adjacency nor graph is given, so nodes are judged by their own features alone",
                    stacklevel=2,
                )
        else:
            if adjacency is not None:
                raise InvalidInput("adjacency must not be given beside graph, which has its own.")
            numbers, features, edges = self._numbers(X), self.graph.features, self.graph.adjacency
            self.n_features_in_ = 1
        known, classes, places = _classes(y, expected=len(numbers))
        labels = np.full(features.shape[0], -1)
        labels[numbers[known]] = places
        if not np.array_equal(labels[numbers[known]], places):
            raise InvalidInput("X must not name a node twice with two classes.")
        graph = Graph(edges, features=features, labels=labels, class_names=tuple(str(one) for one in classes))
        check_int("n_init", self.n_init)
        seed = self._seed()
        split = stratified_split(labels, stopping=self.stopping, seed=seed)
        self.classes_ = classes
        self._encoded = False
        self._learned(self._trained(graph, split, seed), graph)
        return self

    def _trained(self, graph: Graph, split: Any, seed: int) -> TrainedModel:
        model = APGCNConfig(
            penalty=self.penalty,
            max_steps=self.max_steps,
            hidden_channels=self.hidden_channels,
            dropout=self.dropout,
            edge_dropout=self.edge_dropout,
            freeze_halted=self.freeze_halted,
        )
        training = TrainingConfig(
            learning_rate=self.learning_rate, l2=self.l2, patience=self.patience, max_epochs=self.max_epochs
        )
        return fit(graph, split, model, training, initialisations=self.n_init, seed=seed, device=self.device)

    def _learned(self, fitted: TrainedModel, graph: Graph) -> None:
        self._fitted, self._graph = fitted, graph
        self._said = said = fitted.predict(graph, device=self.device)
        self.steps_, self.remainder_ = said.steps, said.remainder
        held = fitted.split.stopping
        self.calibration_error_ = expected_calibration_error(said.probabilities[held], graph.labels[held])
        self.reliability_ = reliability(said.probabilities[held], graph.labels[held])
        self.n_iter_ = max(fitted.notes["epochs"])

    def predict(self, X: Any = None, adjacency: Any = None) -> np.ndarray:
        """The class of every node; of X as in `predict_proba`."""
        probabilities = self.predict_proba(X, adjacency)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any = None, adjacency: Any = None) -> np.ndarray:
        """The probability of every class, of shape (nodes, classes).

        Without X, for the nodes it was fitted on; with features and adjacency, for the nodes of another graph; with a
        graph given beforehand, for these of its nodes.
        """
        check_is_fitted(self, "classes_")
        if adjacency is not None and (X is None or self.graph is not None):
            raise InvalidInput("adjacency must come with the features of all its nodes, X, and not beside graph.")
        if X is None:
            return self._said.probabilities
        if self.graph is not None:
            if self.graph.num_nodes != self._graph.num_nodes:
                raise InvalidInput("graph must be the one that it was fitted with; fit again with another one.")
            return self._said.probabilities[self._numbers(X)]
        return self.ask(X, adjacency).probabilities

    def ask(self, X: Any, adjacency: Any = None) -> Predictions:
        """Probabilities, steps and remainder of the nodes of another graph."""
        check_is_fitted(self, "classes_")
        if adjacency is None and self._graph.adjacency.nnz:
            raise InvalidInput(
                "adjacency must be given with X, because it was fitted with one; predict() answers for nodes it was "
                "fitted on, and score and cross_val_score want APGCNClassifier(graph=graph) and numbers of nodes."
            )
        if self._encoded:
            raise InvalidInput("the model was trained on columns of tables, not on arrays: ask apgcn predict.")
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        nodes = features.shape[0]
        graph = Graph(_adjacency(adjacency, nodes), features=features, labels=np.full(nodes, -1))
        return self._fitted.predict(graph, device=self.device)

    def save(self, folder: str | Path) -> None:
        """Write a new folder; `APGCNClassifier.load` or `apgcn predict` reads it."""
        check_is_fitted(self, "classes_")
        names = list(getattr(self, "feature_names_in_", []))
        kept = replace(self._fitted, notes={**self._fitted.notes, "feature_names": names})
        save_model(Path(folder), SavedModel(kept, self._graph))

    @classmethod
    def load(cls, folder: str | Path, *, graph: Graph | None = None, device: str = "cpu") -> APGCNClassifier:
        """A fitted classifier; its classes are text. A graph that was given beforehand is given again."""
        saved = load_model(Path(folder))
        fitted = saved.fitted
        settings = {**vars(fitted.model), **vars(fitted.training)}
        settings |= {"n_init": fitted.initialisations, "random_state": fitted.split.seed}
        given = {name: settings[name] for name in cls().get_params() if name in settings}
        loaded = cls(graph=graph, device=device, **given)
        loaded.classes_ = np.array(fitted.class_names)
        loaded.n_features_in_ = 1 if graph is not None else fitted.features
        loaded._encoded = saved.encoding is not None
        if names := fitted.notes.get("feature_names"):
            loaded.feature_names_in_ = np.array(names, dtype=object)
        loaded._learned(fitted, saved.graph)
        return loaded

    def _numbers(self, X: Any) -> np.ndarray:
        assert self.graph is not None
        given = np.asarray(X)
        numbers = given.reshape(-1) if given.ndim <= 1 or given.shape[1:] == (1,) else given
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InvalidInput(f"X must hold numbers of nodes, because a graph was given, got {given.dtype}.")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.graph.num_nodes:
            wrong = numbers.min() if numbers.min() < 0 else numbers.max()
            raise InvalidInput(f"X must hold nodes from 0 to {self.graph.num_nodes - 1}, got {wrong}.")
        return numbers.astype(np.int64)

    def _seed(self) -> int:
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(MOST))
        seed = 0 if self.random_state is None else self.random_state
        check_int("random_state", seed, least=0)
        return int(seed)


def _classes(y: Any, *, expected: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which nodes have a label, the classes, and the number of the class of each of these nodes."""
    if y is None:
        raise InvalidInput("APGCNClassifier requires y to be passed, but the target y is None.")
    given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    if given.ndim == 2:
        given = column_or_1d(given, warn=True)
    if given.shape != (expected,):
        raise InvalidInput(f"y must have one label for each of {expected} nodes, got {given.shape}.")
    if given.dtype.kind == "f":
        assert_all_finite(given, allow_nan=True, input_name="y")
    if given.dtype.kind == "O":
        known = np.array([not _is_unknown(one) for one in given], dtype=bool)
        named = given[known] if any(isinstance(one, str) for one in given[known]) else np.array(given[known].tolist())
    else:
        known = (given == given) & (given != UNLABELLED if given.dtype.kind in "iuf" else np.ones(expected, bool))
        named = given[known]
    check_classification_targets(named)
    if not known.any():
        raise InvalidInput("y must hold the classes of some nodes, but all are unknown.")
    classes, places = np.unique(named, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(f"y must hold two classes or more, got one class, {classes[0]!r}.")
    return known, classes, places


def _is_unknown(label: Any) -> bool:
    """Whether a label is None, NaN, the NA of pandas, or -1."""
    return label is None or type(label).__name__ == "NAType" or label != label or label == UNLABELLED


def _adjacency(given: Any, nodes: int) -> Any:
    if given is None:
        return sparse.csr_matrix((nodes, nodes), dtype=np.float32)
    if isinstance(given, list | tuple):
        given = np.array(given)
    if not hasattr(given, "shape"):
        raise InvalidInput(
            f"adjacency must be an array or a sparse matrix, got {type(given).__name__}; see apgcn.io for other graphs."
        )
    if given.shape != (nodes, nodes):
        raise InvalidInput(f"adjacency must be {nodes} x {nodes}, as there are rows of X, got {given.shape}.")
    return given
