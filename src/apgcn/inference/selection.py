"""Fit on a user's graph with a leaderboard: one model beside its baselines, or the best of several candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from apgcn._utils.formatting import pluralize
from apgcn._utils.validation import check_bool, check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.data.homophily import edge_homophily, random_homophily
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
    describe_no_better_than_majority,
    is_graph_doubtful,
    judging_set,
    leaderboard_row,
    majority_row,
)
from apgcn.inference.predictions import Predictions
from apgcn.inference.splits import stratified_split
from apgcn.inference.trained_model import TrainedModel
from apgcn.models.registry import MODELS, config_class
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
FIRST_PENALTY = 0.005  # to try where the penalty is 0; the paper's for Cora-ML
FEW_VALIDATION_NODES = 50  # with fewer the choice of "auto" is named as one by chance
TITLES = {LABELS: "label propagation (LP)", FEATURES: "features alone (MLP)"}

ProgressBar = Callable[[str], AbstractContextManager[Callable[[Progress], None] | None]]


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
        if self.model not in (AUTO, *MODELS):
            raise UnknownName("model", self.model, (AUTO, *MODELS))
        names = map(registry_name, CANDIDATES) if self.model == AUTO else (self.model,)
        known = list(dict.fromkeys(name for model in names for name in _hyperparameters(model)))
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
        """The model config and training config of one of the models, with the overrides that it has.

        Label propagation beside other models keeps its own: its number of steps is of another kind.
        """
        name, values = VARIANTS.get(model, (model, {}))
        overrides = dict(self.overrides or {})
        if name != self.model:
            known = () if name == LABELS else hyperparameter_names(name)
            overrides = {key: value for key, value in overrides.items() if key in known}
        return configs_from_values(name, {**values, **overrides})

    def title(self, model: str) -> str:
        """The name of one of the models in the leaderboard; of a variant with the values that it has."""
        name, values = VARIANTS.get(model, (model, {}))
        present = {key: (self.overrides or {}).get(key, value) for key, value in values.items()}
        return TITLES.get(name, config_class(name).title) + "".join(f", {key}={present[key]}" for key in present)


def registry_name(candidate: str) -> str:
    """The name in the registry of a candidate, which may be a model with other hyperparameters."""
    return VARIANTS.get(candidate, (candidate, {}))[0]


def _hyperparameters(model: str) -> list[str]:
    """The hyperparameters that a model uses: one without weights has none of a training."""
    config = config_class(model)
    return hyperparameter_names(model) if config.has_weights else [field.name for field in fields(config)]


class _Candidate(NamedTuple):
    """A candidate after its training; `uncorrected` are predictions without known labels, None without weights."""

    row: LeaderboardRow
    result: FitResult
    uncorrected: Predictions | None


def fit_and_compare(
    graph: Graph,
    split: Split,
    options: FitOptions,
    *,
    computed_features: bool = False,
    progress: ProgressBar | None = None,
) -> tuple[TrainedModel, Predictions | None]:
    """Train the models of the options, choose one, and return it with its predictions for all nodes.

    The predictions are None where they take more work than the training has done: save the model before.

    The metrics of the model get "leaderboard", "homophily", "advice": sentences on what the comparison shows, and
    "warnings": those of them that call for a change. With "auto" the model is chosen by its accuracy on
    the validation nodes of the split, and judged on the test nodes.

    Parameters
    ----------
    split : Split
        See `split_for_fit`.
    computed_features : bool
        Whether features of the graph were computed from its edges, so that features alone know the edges, too.
    progress : function, optional
        `progress(title)` is a context whose value is called with a `Progress` after every epoch of one model.

    Raises
    ------
    InvalidInput
        If a named model cannot be trained on the graph, or with "auto" none can. Baselines and candidates that cannot,
        also for lack of memory, are left out and named in "advice".
    """
    if options.metric == "roc_auc" and graph.num_classes != 2:
        raise InvalidInput(f"metric roc_auc needs two classes, got {graph.num_classes}; leave it out for accuracy.")
    auto = options.model == AUTO
    if auto and options.metric == "roc_auc" and len(np.unique(graph.labels[split.validation])) < 2:
        raise InvalidInput(
            f"metric roc_auc needs validation nodes of both classes to choose by, got {len(split.validation)} of one; "
            "label more nodes of the other, name a model, or leave metric out for accuracy."
        )
    started = time.perf_counter()
    candidates: list[_Candidate] = []
    warnings: list[str] = []
    for index, name in enumerate(options.models):
        time_limit = None
        if options.time_limit is not None:
            left = options.time_limit - (time.perf_counter() - started)
            time_limit = max(MIN_SECONDS, left / (len(options.models) - index))
            if left <= 0 and candidates and name != options.model:
                warnings.append(f"{options.title(name)} was not trained: the time limit was reached.")
                continue
        try:
            candidates += _train(graph, split, name, options, time_limit=time_limit, progress=progress)
        except (InvalidInput, MemoryError, RuntimeError) as error:
            if name == options.model or (isinstance(error, RuntimeError) and "memory" not in str(error).lower()):
                raise
            reason = error if isinstance(error, InvalidInput) else "not enough memory."
            warnings.append(f"{options.title(name)} was not trained: {reason}")
    if not candidates:
        raise InvalidInput(f"no model could be trained: {' '.join(warnings)}")
    chosen = _choose(candidates, options)
    if auto and chosen.result.model.correct_and_smooth is not None:
        result = evaluate_with_labels(chosen.result.model, graph, device=options.device, threads=options.threads)
        candidates = [each._replace(result=result) if each is chosen else each for each in candidates]
        chosen = next(each for each in candidates if each.result is result)
    rows = [replace(candidate.row, chosen=candidate is chosen) for candidate in candidates]
    majority = replace(majority_row(graph, split), roc_auc=0.5 if graph.num_classes == 2 else None)
    rows = sorted([*rows, majority], key=lambda row: (-(getattr(row, options.metric) or 0.0), -row.accuracy))
    model = chosen.result.model
    can_keep = "min_steps" in vars(model.config) and model.config.min_steps == 1
    graph_effect = describe_graph_effect(rows, num_edges=graph.adjacency.nnz, auto=auto, can_keep=can_keep)
    if model.metrics["converged"]:  # otherwise its accuracy is that of a cut training
        better = (describe_no_better_than_majority(rows), describe_better_baseline(rows, auto=auto))
        warnings += [text for text in better if text]
    if auto and len(split.validation) < FEW_VALIDATION_NODES:
        warnings.append(
            f"The choice among the models rests on {pluralize(len(split.validation), 'validation node')}: with so few "
            "another model may be as good; label more nodes for a surer choice."
        )
    warnings += describe_training(model, chosen.uncorrected)
    warnings += _describe_other_limits(candidates, chosen)
    effect = [graph_effect] if graph_effect else []
    if computed_features and effect:
        effect.append("Some features were computed from the edges: features alone have them, too.")
    metrics = {
        **model.metrics,
        "leaderboard": [row.as_json() for row in rows],
        "homophily": edge_homophily(graph),
        "random_homophily": random_homophily(graph),
        "advice": effect + warnings,
        "warnings": effect + warnings if is_graph_doubtful(rows) else warnings,
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
    title = options.title(name)
    with progress(title) if progress else nullcontext() as report:
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
            (config_class(name).title if suffix and name in TITLES else title) + suffix,
            result.held_out[judging_set(split)],
            graph,
            split,
            metrics=result.model.metrics,
            steps_mean=steps_mean,
            seconds=time.perf_counter() - started,
        )
        return _Candidate(row, result, plain.predictions)

    candidates = [candidate(plain)]
    has_time = time_limit is None or time.perf_counter() - started < time_limit
    tries_both = options.model == AUTO and options.correct_and_smooth is not False and has_time
    if model.has_weights and (tries_both or (options.correct_and_smooth and name == options.model)):
        smoothed = replace(plain.model, correct_and_smooth=CorrectAndSmooth())
        corrected = evaluate_with_labels(smoothed, graph, calibrate=not tries_both, **common)
        candidates.append(candidate(corrected, suffix=WITH_LABELS))
    return candidates


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
    if warnings or predictions is None or not hasattr(model.config, "penalty"):
        return warnings
    steps = predictions.steps
    if steps.std() < CONSTANT_STEPS:
        value, last = steps.mean(), model.config.max_steps
        larger = 10 * model.config.penalty or FIRST_PENALTY
        remedy = f"a larger one, first {larger:g}" if value > 0.99 * last else "a smaller one"
        warnings.append(
            f"K is {value:.4g} for every node: a penalty of {model.config.penalty:g} does not distinguish the nodes of "
            f"this graph; try {remedy} (--penalty, or hyperparameters={{'penalty': ...}})."
        )
    return warnings


def _describe_other_limits(candidates: Sequence[_Candidate], chosen: _Candidate) -> list[str]:
    """A warning about the models that were not chosen and whose training a limit ended."""
    titles = dict.fromkeys(
        each.row.title.removesuffix(WITH_LABELS) for each in candidates if not each.result.model.metrics["converged"]
    )
    titles.pop(chosen.row.title.removesuffix(WITH_LABELS), None)
    if not titles:
        return []
    return [f"A limit of time or epochs ended the training of {', '.join(titles)}, too, while it still improved."]


def _choose(candidates: Sequence[_Candidate], options: FitOptions) -> _Candidate:
    """The candidate that is best on the validation nodes; without "auto" the model that the user named, the last."""
    if options.model != AUTO:
        return candidates[-1]
    name = f"validation_{options.metric}"
    return max(candidates, key=lambda candidate: getattr(candidate.row, name) or 0.0)


def check_test_size(test_size: float, *, model: str, name: str = "test_size") -> None:
    """Raise `InvalidInput` unless this fraction leaves enough labelled nodes; `name` is for the message."""
    check_fraction(name, test_size)
    maximum = MAX_TEST_SIZE_OF_AUTO if model == AUTO else MAX_TEST_SIZE
    if test_size > maximum:
        reason = "to train and to choose a model by" if model == AUTO else "to train"
        raise InvalidInput(f"{name} must leave nodes {reason}: at most {maximum}, got {test_size}.")


def split_for_fit(labels: np.ndarray, *, model: str, test_size: float, seed: int) -> Split:
    """The split of a user's graph: with "auto" some labelled nodes choose the model, and have no other use.

    Raises
    ------
    InvalidInput
        If `test_size` leaves too few nodes, or "auto" has no class with labelled nodes enough.
    """
    check_test_size(test_size, model=model)
    if model != AUTO:
        return stratified_split(labels, stopping_size=STOPPING_SIZE, test_size=test_size, seed=seed)
    split = stratified_split(
        labels, stopping_size=VALIDATION_SIZE, validation_size=VALIDATION_SIZE, test_size=test_size, seed=seed
    )
    if not len(split.validation):
        raise InvalidInput(
            "model auto needs a class with four labelled nodes or more, one of them to choose a model by; label more "
            "nodes, or name a model."
        )
    return split
