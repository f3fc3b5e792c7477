"""Fit on a user's graph with a leaderboard: one model beside its baselines, or the best of several candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from apgcn._utils.validation import check_bool, check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.data.homophily import edge_homophily
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput, UnknownName
from apgcn.inference.fit import FitResult, evaluate_with_labels, fit_and_evaluate
from apgcn.inference.known_labels import CorrectAndSmooth
from apgcn.inference.leaderboard import (
    FEATURES,
    LABELS,
    WITH_LABELS,
    LeaderboardRow,
    describe_better_baseline,
    describe_graph_effect,
    judging_set,
    leaderboard_row,
    majority_row,
)
from apgcn.inference.predictions import Predictions
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.registry import config_class
from apgcn.ops.devices import resolve_device
from apgcn.ops.threads import resolve_threads
from apgcn.training.batching import estimate_training
from apgcn.training.config import TrainingConfig, configs_from_values, hyperparameter_names
from apgcn.training.runs import MAX_RUNS
from apgcn.training.trainer import Progress

Metric = Literal["accuracy", "roc_auc"]
AUTO = "auto"
# Nodes may keep their own prediction; with the paper's l2 the weights may vanish before they do.
NO_STEP = "apgcn, min_steps=0, l2=0.0005"
VARIANTS: Mapping[str, tuple[str, dict[str, Any]]] = {NO_STEP: ("apgcn", {"min_steps": 0, "l2": 0.0005})}
CANDIDATES = (LABELS, FEATURES, "apgcn", NO_STEP, "appnp", "gcn", "arma")  # of `model="auto"`; the first wins a tie
BASELINES = (LABELS, FEATURES)  # beside a model that the user names
VALIDATION_SIZE = 0.15  # fraction of the labelled nodes by which `auto` chooses
STOPPING_SIZE = 0.2
MAX_TEST_SIZE, MAX_TEST_SIZE_OF_AUTO = 0.7, 0.6  # of the labelled nodes
MIN_SECONDS = 1e-3  # of the training of a model, which takes one epoch at least
CONSTANT_STEPS = 0.01  # a standard deviation of K below which it is constant
TITLES = {LABELS: "label propagation (LP)", FEATURES: "features alone (MLP)"}

ProgressBar = Callable[[str, float, float], AbstractContextManager[Callable[[Progress], None] | None]]


@dataclass(frozen=True)
class FitOptions:
    """What is fitted on a user's graph.

    Parameters
    ----------
    model : str
        A name of the registry, or "auto" for the best of `CANDIDATES`.
    overrides : mapping
        Hyperparameters by name; with "auto" each goes to the candidates that have it.
    baselines : bool
        Whether label propagation and features alone are trained beside a model that the user names.
    correct_and_smooth : bool, optional
        Whether the known labels correct the predictions of the model; by default the model "auto" tries both, and a
        named one is not corrected.
    ensemble_size, seed, device, threads
        See `fit`.
    time_limit : float, optional
        Seconds after which no epoch begins; the models share it.
    metric : "accuracy" or "roc_auc"
        By which "auto" chooses; the area under the ROC curve is for two classes, of which one is rare.
    """

    model: str = "apgcn"
    overrides: Mapping[str, Any] | None = None
    baselines: bool = True
    correct_and_smooth: bool | None = None
    ensemble_size: int = 1
    seed: int = 0
    device: torch.device | str = "cpu"
    threads: int | None = None
    time_limit: float | None = None
    metric: Metric = "accuracy"

    def __post_init__(self) -> None:
        if not isinstance(self.overrides or {}, Mapping):
            raise InvalidInput(f"hyperparameters must be a mapping of names to values, got {self.overrides!r}.")
        if self.correct_and_smooth is not None:
            check_bool("correct_and_smooth", self.correct_and_smooth)
        names = map(registry_name, CANDIDATES) if self.model == AUTO else (self.model,)
        known = list(dict.fromkeys(name for model in names for name in hyperparameter_names(model)))
        for name in self.overrides or {}:
            if name not in known:
                raise UnknownName(f"hyperparameter of {self.model}", name, known)
        if self.metric not in get_args(Metric):
            raise InvalidInput(f"metric must be accuracy or roc_auc, got {self.metric!r}.")
        check_int("ensemble_size", self.ensemble_size, maximum=MAX_RUNS)
        check_int("seed", self.seed, minimum=0)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, positive=True)
        if self.model == AUTO:  # a wrong value is a mistake, not a reason to leave a candidate out
            for model in self.models:
                self.configs(model)
        if self.correct_and_smooth and self.model != AUTO and not config_class(self.model).has_weights:
            raise InvalidInput(f"correct_and_smooth needs a model with weights, but {self.model} has none.")

    @property
    def models(self) -> tuple[str, ...]:
        """The models to train, in order."""
        if self.model == AUTO:
            fixed = self.overrides or {}
            return tuple(name for name in CANDIDATES if name != NO_STEP or "min_steps" not in fixed)
        return (*(name for name in BASELINES if self.baselines and name != self.model), self.model)

    def configs(self, model: str) -> tuple[Any, TrainingConfig]:
        """The model config and training config of one of the models, with the overrides that it has."""
        name, values = VARIANTS.get(model, (model, {}))
        overrides = dict(self.overrides or {})
        if name != self.model:
            known = hyperparameter_names(name)
            overrides = {key: value for key, value in overrides.items() if key in known}
        return configs_from_values(name, {**values, **overrides})


def registry_name(candidate: str) -> str:
    """The name in the registry of a candidate, which may be a model with other hyperparameters."""
    return VARIANTS.get(candidate, (candidate, {}))[0]


class _Candidate(NamedTuple):
    """A candidate after its training; `uncorrected` are predictions without known labels, None without weights."""

    row: LeaderboardRow
    result: FitResult
    uncorrected: Predictions | None


def fit_with_leaderboard(
    graph: Graph, split: Split, options: FitOptions, *, progress: ProgressBar | None = None
) -> tuple[TrainedModel, Predictions]:
    """`fit_and_compare`, and the predictions of the model for all nodes."""
    model, predictions = fit_and_compare(graph, split, options, progress=progress)
    return model, predictions or model.predict(graph, device=options.device, threads=options.threads)


def fit_and_compare(
    graph: Graph, split: Split, options: FitOptions, *, progress: ProgressBar | None = None
) -> tuple[TrainedModel, Predictions | None]:
    """Train the models of the options, choose one, and return it with its predictions for all nodes.

    The predictions are None where they take more work than the training has done: save the model before.

    The metrics of the model get "leaderboard", "homophily" and "advice": sentences on what the comparison shows. With
    "auto" the model is chosen by its accuracy on the validation nodes of the split, and judged on the test nodes.

    Parameters
    ----------
    split : Split
        See `split_for_fit`.
    progress : function, optional
        `progress(title, epoch, total)` is a context whose value is called with a `Progress` after every epoch of one
        model; `epoch` and `total` are rough estimates of the seconds of an epoch and of the training.

    Raises
    ------
    InvalidInput
        If a named model cannot be trained on the graph, or with "auto" none can. Baselines and candidates that cannot,
        also for lack of memory, are left out and named in "advice".
    """
    if options.metric == "roc_auc" and graph.num_classes != 2:
        raise InvalidInput(f"metric roc_auc needs two classes, got {graph.num_classes}; leave it out for accuracy.")
    started = time.perf_counter()
    candidates: list[_Candidate] = []
    advice: list[str] = []
    for index, name in enumerate(options.models):
        time_limit = None
        if options.time_limit is not None:
            left = options.time_limit - (time.perf_counter() - started)
            time_limit = max(MIN_SECONDS, left / (len(options.models) - index))
            if left <= 0 and candidates and name != options.model:
                advice.append(f"{_title(name)} was not trained: the time limit was reached.")
                continue
        try:
            candidates += _train(graph, split, name, options, time_limit=time_limit, progress=progress)
        except (InvalidInput, MemoryError, RuntimeError) as error:
            if name == options.model or (isinstance(error, RuntimeError) and "memory" not in str(error).lower()):
                raise
            reason = error if isinstance(error, InvalidInput) else "not enough memory."
            advice.append(f"{_title(name)} was not trained: {reason}")
    if not candidates:
        raise InvalidInput(f"no model could be trained: {' '.join(advice)}")
    chosen = _choose(candidates, options)
    rows = [replace(candidate.row, chosen=candidate is chosen) for candidate in candidates]
    majority = replace(majority_row(graph, split), roc_auc=0.5 if graph.num_classes == 2 else None)
    rows = sorted([*rows, majority], key=lambda row: (-(getattr(row, options.metric) or 0.0), -row.accuracy))
    model = chosen.result.model
    auto = options.model == AUTO
    graph_effect = describe_graph_effect(
        rows, num_edges=graph.adjacency.nnz, auto=auto, can_keep=getattr(model.config, "min_steps", 0) == 1
    )
    advice += [text for text in (graph_effect, describe_better_baseline(rows, auto=auto)) if text]
    advice += describe_training(model, chosen.uncorrected)
    metrics = {
        **model.metrics,
        "leaderboard": [row.as_json() for row in rows],
        "homophily": edge_homophily(graph),
        "advice": advice,
    }
    return replace(model, metrics=metrics), chosen.result.predictions


def _train(
    graph: Graph,
    split: Split,
    name: str,
    options: FitOptions,
    *,
    time_limit: float | None,
    progress: ProgressBar | None,
) -> list[_Candidate]:
    """A trained model and, where it is wanted, the same with Correct and Smooth."""
    started = time.perf_counter()
    model, training = options.configs(name)
    common: dict[str, Any] = {"device": options.device, "threads": options.threads}
    title = _title(name)
    estimate = estimate_training(
        graph,
        model,
        training,
        runs=options.ensemble_size,
        device=resolve_device(str(options.device)),
        threads=resolve_threads(options.threads),
    )
    with progress(title, *estimate) if progress else nullcontext() as report:
        plain = fit_and_evaluate(
            graph,
            split,
            model,
            training,
            ensemble_size=options.ensemble_size,
            seed=options.seed,
            progress=report,
            time_limit=time_limit,
            **common,
        )
    steps_mean = float(plain.predictions.steps.mean()) if plain.predictions else float(model.max_steps)

    def candidate(result: FitResult, suffix: str = "") -> _Candidate:
        row = leaderboard_row(
            name + suffix,
            title + suffix,
            result.held_out[judging_set(split)],
            graph,
            split,
            metrics=result.model.metrics,
            steps_mean=steps_mean,
            seconds=time.perf_counter() - started,
        )
        return _Candidate(row, result, plain.predictions)

    candidates = [candidate(plain)]
    tries_both = options.model == AUTO and options.correct_and_smooth is not False
    if model.has_weights and (tries_both or (options.correct_and_smooth and name == options.model)):
        corrected = evaluate_with_labels(replace(plain.model, correct_and_smooth=CorrectAndSmooth()), graph, **common)
        candidates.append(candidate(corrected, suffix=WITH_LABELS))
    return candidates


def _title(name: str) -> str:
    """The name of a model in the leaderboard."""
    return TITLES.get(name, config_class(registry_name(name)).title + name.removeprefix(registry_name(name)))


def describe_training(model: TrainedModel, predictions: Predictions | None) -> list[str]:
    """Warnings about a trained model: training that was cut off, and a halting unit without effect."""
    warnings = []
    if not model.metrics["converged"]:
        epochs = max(model.metrics["epochs"])
        limit = f"max_epochs={epochs}" if epochs == model.training.max_epochs else "the time limit"
        warnings.append(
            f"The training of {model.title} was ended by {limit} while it still improved; raise the limit for a better "
            "model."
        )
    if predictions is None or not hasattr(model.config, "penalty"):
        return warnings
    steps = predictions.steps
    if steps.std() < CONSTANT_STEPS:
        value, last = steps.mean(), model.config.max_steps
        remedy = f"a larger one, such as {10 * model.config.penalty:g}" if value > 0.99 * last else "a smaller one"
        warnings.append(
            f"K is {value:.4g} for every node: a penalty of {model.config.penalty:g} does not distinguish the nodes of "
            f"this graph; try {remedy} (--penalty, or hyperparameters={{'penalty': ...}})."
        )
    return warnings


def _choose(candidates: Sequence[_Candidate], options: FitOptions) -> _Candidate:
    """The candidate that is best on the validation nodes; without "auto" the model that the user named, the last."""
    if options.model != AUTO:
        return candidates[-1]
    name = f"validation_{options.metric}"
    return max(candidates, key=lambda candidate: getattr(candidate.row, name) or 0.0)


def split_for_fit(labels: np.ndarray, *, model: str, test_size: float, seed: int) -> Split:
    """The split of a user's graph: with "auto" some labelled nodes choose the model, and have no other use.

    Raises
    ------
    InvalidInput
        If `test_size` leaves too few nodes, or "auto" has no class with labelled nodes enough.
    """
    check_fraction("test_size", test_size)
    maximum = MAX_TEST_SIZE_OF_AUTO if model == AUTO else MAX_TEST_SIZE
    if test_size > maximum:
        reason = "to train and to choose a model by" if model == AUTO else "to train"
        raise InvalidInput(f"test_size must leave nodes {reason}: at most {maximum}, got {test_size}.")
    if model != AUTO:
        return stratified_split(labels, stopping_size=STOPPING_SIZE, test_size=test_size, seed=seed)
    split = stratified_split(
        labels, stopping_size=VALIDATION_SIZE, validation_size=VALIDATION_SIZE, test_size=test_size, seed=seed
    )
    if not len(split.validation):
        raise InvalidInput(
            "model auto needs a class with three labelled nodes or more, one of them to choose a model by; label more "
            "nodes, or name a model."
        )
    return split
