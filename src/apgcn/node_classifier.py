"""Fit a model on DataFrames, files or another library's graph, and predict with pandas."""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apgcn._utils.atomic import resolve_output_file
from apgcn._utils.formatting import format_duration
from apgcn._utils.validation import as_node_indices, check_bool
from apgcn.data.graph import Graph
from apgcn.errors import FitWarning, InvalidInput, UnknownName
from apgcn.inference.bundle import ModelBundle, save_model
from apgcn.inference.bundle import load_model as load_bundle
from apgcn.inference.estimate import describe_long_fit, estimate_fit
from apgcn.inference.prediction_graph import graph_to_predict
from apgcn.inference.predictions import prediction_columns
from apgcn.inference.selection import AUTO as AUTO_MODEL
from apgcn.inference.selection import FitOptions, Metric, fit_and_compare, split_for_fit
from apgcn.inference.splits import held_out_sets, missing_class_notes
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.cells import without_decimal_zero
from apgcn.io.graph_builder import LoadedGraph
from apgcn.io.pandas import import_pandas, to_frame
from apgcn.io.pyg import split_from_masks
from apgcn.io.schema import TableSchema
from apgcn.io.sources import has_arrays, load_source
from apgcn.io.structure_encoding import AUTO
from apgcn.report.explain.html import PAGE_SUFFIXES, write_explanation
from apgcn.report.explain.payload import build_payload

if TYPE_CHECKING:
    import pandas
    import torch

INTEGER = re.compile(r"0|-?[1-9][0-9]*")
LEADERBOARD = (
    "model",
    "title",
    "accuracy",
    "low",
    "high",
    "roc_auc",
    "validation_accuracy",
    "validation_roc_auc",
    "steps_mean",
    "epochs",
    "seconds",
    "chosen",
)


def fit(
    edges: Any,
    nodes: Any = None,
    *,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    one_hot: Sequence[str] = (),
    bag_of_words: Sequence[str] = (),
    ignore: Sequence[str] = (),
    min_class: int = 1,
    structure: str | Sequence[str] = AUTO,
    model: str = "apgcn",
    hyperparameters: Mapping[str, Any] | None = None,
    correct_and_smooth: bool | None = None,
    baselines: bool = True,
    test_size: float = 0.2,
    ensemble_size: int = 1,
    time_limit: float | None = None,
    metric: Metric = "accuracy",
    seed: int = 0,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    verbose: bool = False,
) -> NodeClassifier:
    """Train a classifier of nodes on a graph, and compare it with simple baselines.

    Parameters
    ----------
    edges : DataFrame, path, or graph
        A row for every edge; or a whole graph: a networkx graph, a PyTorch Geometric `Data`, a `Graph`, or a file
        (.graphml, .npz).
    nodes : DataFrame or path
        A row for every node: an id, features, and the class where it is known. Left out for a whole graph.
    label : str
        The column, or the node attribute, of classes; empty where the class is unknown. Left out where the graph has
        arrays (`Data`, `Graph`, .npz). The masks of a `Data` are used as the split if it has all three.
    id, source, target, weight : str, optional
        Columns of node ids and of edges; by default those with a usual name, see `apgcn.io.TableSchema`.
    directed : bool
        Whether only the target of an edge receives from its source.
    one_hot, bag_of_words, ignore : sequences of str
        Text columns that become features, and columns that are none.
    min_class : int
        Classes with fewer labelled nodes are treated as unknown.
    structure : "auto", "none", or sequence of "degree", "random_walk", "spectral"
        Features that are computed from the edges; "auto" computes all of them for a graph without features.
    model : str
        A name from `apgcn models`, or "auto": train several, and keep the best on validation nodes.
    hyperparameters : mapping, optional
        Of the model and its training, by name, such as `{"penalty": 0.05}`.
    correct_and_smooth : bool, optional
        Correct the predictions by the known labels of near nodes (Huang et al., 2021). By default "auto" as
        the model tries it, and a named model is not corrected.
    baselines : bool
        Whether features alone and label propagation are trained for comparison.
    test_size : float
        Fraction of the labelled nodes that judges the models; with 0 they are judged by the nodes that stop training.
        The masks of a `Data` take its place.
    ensemble_size : int
        Initialisations whose predictions are averaged.
    time_limit : float, optional
        Seconds after which no epoch begins.
    metric : "accuracy" or "roc_auc"
        By which "auto" chooses; the latter is for two classes of which one is rare.
    seed : int
        Of the split and of the first initialisation.
    device : "cpu", "cuda" or "cuda:N"
    threads : int, optional
        Maximum number of CPU threads, see `apgcn.train`.
    verbose : bool
        Whether each model and its time are printed on standard error. An estimate is, in any case, if it is more than
        a minute.

    Warns
    -----
    FitWarning
        If the training was cut off, K is the same for all nodes, or a model without the graph is as good; the texts
        are in `advice`, too.

    Raises
    ------
    InvalidInput
        If the tables, the options or the labels do not allow a training; the message states what to change.

    Examples
    --------
    A graph of two teams, whose members mostly know each other; every second node has a known team:

    >>> import numpy as np, pandas as pd
    >>> random = np.random.default_rng(0)
    >>> team = np.repeat(["red", "blue"], 60)
    >>> nodes = pd.DataFrame({"id": range(120), "height": random.normal(size=120) + (team == "red"), "team": team})
    >>> pairs = [(a, (60 * (a // 60) + b) % 120) for a in range(120) for b in random.integers(70, size=4)]
    >>> edges = pd.DataFrame(pairs, columns=["source", "target"])
    >>> nodes.loc[::2, "team"] = None
    >>> model = fit(edges, nodes, label="team", hyperparameters={"hidden_channels": 8, "patience": 20})
    >>> model
    NodeClassifier(AP-GCN, nodes=120, classes=2, accuracy=1.000 on 12 test nodes)
    >>> model.predict().columns.to_list()
    ['id', 'prediction', 'probability', 'steps', 'label']
    """
    schema = TableSchema(
        label=label,
        id=id,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        one_hot=one_hot,
        bag_of_words=bag_of_words,
        ignore=ignore,
        min_class=min_class,
    )
    options = FitOptions(
        model=model,
        overrides=hyperparameters,
        baselines=baselines,
        correct_and_smooth=correct_and_smooth,
        ensemble_size=ensemble_size,
        seed=seed,
        device=device,
        threads=threads,
        time_limit=time_limit,
        metric=metric,
    )
    for name, value in (("directed", directed), ("baselines", baselines), ("verbose", verbose)):
        check_bool(name, value)
    if label is None and not has_arrays(edges, nodes):
        raise InvalidInput("label must name the column or node attribute of classes, got None.")
    loaded = load_source(edges, nodes, schema, structure=structure)
    notes = loaded.notes
    split = split_from_masks(edges, loaded.graph.labels, notes, auto=model == AUTO_MODEL, seed=seed) or split_for_fit(
        loaded.graph.labels, model=model, test_size=test_size, seed=seed
    )
    notes += missing_class_notes(loaded.graph, split, sets=held_out_sets(split))
    announcement = describe_long_fit(
        estimate_fit(loaded.graph, options), time_limit=time_limit, option="time_limit=SECONDS"
    )
    if announcement:
        print(f"apgcn.fit: {announcement}", file=sys.stderr, flush=True)
    trained, _ = fit_and_compare(
        loaded.graph,
        split,
        options,
        computed_features=loaded.structure is not None,
        progress=_print_model if verbose else None,
    )
    for text in trained.metrics["warnings"]:
        warnings.warn(text, FitWarning, stacklevel=2)
    return NodeClassifier(
        ModelBundle(
            trained,
            loaded.graph,
            loaded.encoding,
            loaded.schema,
            notes=notes,
            structure=loaded.structure,
            integer_ids=_has_integer_ids(nodes, loaded),
        )
    )


def load_model(folder: str | Path) -> NodeClassifier:
    """The classifier of a folder that `NodeClassifier.save` or `apgcn fit` wrote.

    Raises
    ------
    MissingFile, BrokenFile
        If the folder or one of its files is missing, was altered, or was written in another format.
    """
    return NodeClassifier(load_bundle(_as_path(folder, "folder")))


class NodeClassifier:
    """A trained model with the graph that it was trained on; made by `fit` or `load_model`.

    Attributes
    ----------
    bundle : ModelBundle
        The model, its graph, and how columns become features.
    """

    def __init__(self, bundle: ModelBundle):
        self.bundle = bundle

    @property
    def model(self) -> TrainedModel:
        """The trained model."""
        return self.bundle.model

    @property
    def graph(self) -> Graph:
        """The graph that it was trained on."""
        return self.bundle.graph

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.model.class_names

    @property
    def leaderboard(self) -> pandas.DataFrame:
        """The compared models, the best first: accuracy on the nodes that judge, with a 95 % interval over nodes.

        Columns: model, title, accuracy, low, high (bounds of the interval), roc_auc, validation_accuracy and
        validation_roc_auc (by one of which "auto" chooses), steps_mean, epochs, seconds, chosen.
        """
        rows = [{**row, "low": row["interval"][0], "high": row["interval"][1]} for row in self._metric("leaderboard")]
        return to_frame({name: [row[name] for row in rows] for name in LEADERBOARD})

    @property
    def advice(self) -> list[str]:
        """What the comparison shows: whether the graph helps, and what to try."""
        return list(self._metric("advice"))

    @property
    def homophily(self) -> float | None:
        """The fraction of edges between labelled nodes that join two of the same class."""
        return self._metric("homophily")

    @property
    def notes(self) -> list[str]:
        """What was assumed, removed or replaced when the tables were read."""
        return list(self.bundle.notes)

    def predict(
        self,
        edges: Any = None,
        nodes: Any = None,
        *,
        add: bool = False,
        new_only: bool = False,
        ids: Sequence[Any] | None = None,
        probabilities: bool = False,
        device: torch.device | str = "cpu",
        threads: int | None = None,
    ) -> pandas.DataFrame:
        """Predictions as a DataFrame with the columns id, prediction, probability, steps and label (None if unknown).

        Ids are integers if those of the table of nodes in `fit` were. `attrs["notes"]` of the frame has what was
        assumed, removed or replaced when other tables were read.

        Parameters
        ----------
        edges, nodes : as in `fit`, optional
            Another graph with the same columns; default: the graph of the training.
        add : bool
            Add these edges and nodes to the graph of the training, instead.
        new_only : bool
            With `add`, predict the added nodes only.
        ids : sequence, optional
            Predict these nodes only.
        probabilities : bool
            Whether to add the probability of every class, a column each.
        device, threads
            As in `fit`.
        """
        for name, value in (("add", add), ("new_only", new_only), ("probabilities", probabilities)):
            check_bool(name, value)
        if new_only and (not add or nodes is None):
            raise InvalidInput("new_only must come with add=True and nodes: it selects the nodes that are added.")
        if new_only and ids is not None:
            raise InvalidInput("new_only must come without ids: both select nodes.")
        graph, notes = graph_to_predict(self.bundle, edges, nodes, add=add)
        selected = None if ids is None else _indices(graph, ids)
        if new_only:
            selected = np.arange(self.graph.num_nodes, graph.num_nodes)
            if not len(selected):
                raise InvalidInput("new_only needs a row for each new node in nodes, which has none.")
        predictions = self.model.predict(graph, selected, device=device, threads=threads)
        columns: dict[str, Any] = prediction_columns(
            graph, predictions, self.classes, nodes=selected, probabilities=probabilities
        )
        columns["label"] = import_pandas().Series([label or None for label in columns["label"]], dtype=object)
        if self.bundle.integer_ids and all(map(_is_int64, columns["id"])):
            columns["id"] = np.array(columns["id"], dtype=np.int64)
        frame = to_frame(columns)
        frame.attrs["notes"] = notes
        return frame

    def explain(self, path: str | Path, *, node: str | None = None) -> None:
        """Write a page for the browser: the graph, the steps of its nodes, and what each node received.

        Parameters
        ----------
        path : path
            An .html file.
        node : str, optional
            Draw the part of the graph around this node.
        """
        path = resolve_output_file(path, option="path", example="steps.html", suffixes=PAGE_SUFFIXES)  # type: ignore[arg-type]
        write_explanation(path, build_payload(self.bundle, node=None if node is None else str(node)))

    def save(self, folder: str | Path) -> None:
        """Write a new folder, which `load_model` and `apgcn predict` read; after an error nothing of it is left."""
        save_model(_as_path(folder, "folder"), self.bundle, option="folder")

    def __repr__(self) -> str:
        judges = "test" if len(self.model.split.test) else "stopping"
        held_out = self.model.metrics[judges]
        return (
            f"NodeClassifier({self.model.title}, nodes={self.graph.num_nodes}, classes={len(self.classes)}, "
            f"accuracy={held_out['accuracy']:.3f} on {held_out['nodes']} {judges} nodes)"
        )

    def _metric(self, name: str) -> Any:
        if name not in self.model.metrics:
            raise InvalidInput(f"the model has no {name}: it was fitted without a comparison; fit it again.")
        return self.model.metrics[name]


@contextmanager
def _print_model(title: str) -> Iterator[None]:
    """Print which model is trained, and then how long it took."""
    started = time.perf_counter()
    print(f"apgcn.fit: {title} ...", end=" ", file=sys.stderr, flush=True)
    yield
    print(format_duration(time.perf_counter() - started), file=sys.stderr, flush=True)


def _as_path(path: Any, name: str) -> Path:
    """A path from an argument of that name."""
    if not isinstance(path, str | Path):
        raise InvalidInput(f"{name} must be a path, got {path!r}.")
    return Path(path)


def _has_integer_ids(nodes: Any, loaded: LoadedGraph) -> bool:
    """Whether the ids of a DataFrame of nodes are integers."""
    if not hasattr(nodes, "dtypes") or loaded.schema.id is None:
        return False
    named = [nodes.iloc[:, number] for number, name in enumerate(nodes.columns) if str(name) == loaded.schema.id]
    return (named[0] if named else nodes.index).dtype.kind in "iu"


def _is_int64(text: str) -> bool:
    """Whether a text is how a 64-bit integer is written: 7, not 007 or 7.0."""
    return INTEGER.fullmatch(text) is not None and len(text) < 20 and -(2**63) <= int(text) < 2**63


def _indices(graph: Graph, ids: Sequence[Any]) -> np.ndarray:
    """Indices of nodes by their ids."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInput(f"ids must be a list of node ids, got {ids!r}.")
    index = {node_id: node for node, node_id in enumerate(graph.node_ids)}
    names = [str(node_id) for node_id in ids]
    names = [name if name in index else without_decimal_zero(name) for name in names]
    for name in names:
        if name not in index:
            raise UnknownName("node", name, graph.node_ids)
    return as_node_indices(np.array([index[name] for name in names], dtype=np.int64), num_nodes=graph.num_nodes)
