"""The leaderboard of models on the held-out nodes of a user's graph, and what the comparison shows about the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apgcn._utils.formatting import pluralize
from apgcn.data.graph import Graph
from apgcn.data.splits import Split

Z = 1.959964  # 97.5 % quantile of the normal distribution
MIN_DIFFERENT = 6  # nodes: if five of five speak for one model, a sign test does not reject chance at 5 % (2 / 2^5)
MAJORITY, FEATURES, LABELS = "majority class", "mlp", "lp"
WITH_LABELS = " + C&S"  # after the name of a model


@dataclass(frozen=True, eq=False)
class LeaderboardRow:
    """A model and its accuracy on the nodes that judge it.

    Attributes
    ----------
    model : str
        Name in the registry, perhaps with hyperparameters and " + C&S" after it, or "majority class".
    title : str
        For people.
    accuracy : float
    interval : tuple of float
        Wilson's 95 % interval of the accuracy, over the nodes.
    roc_auc : float or None
        The area under the ROC curve on the same nodes; None unless there are two classes.
    validation_accuracy, validation_roc_auc : float or None
        On the nodes by which `--model auto` chooses; None where there are none.
    steps_mean : float
        K, averaged over all nodes.
    epochs : int
        Of its training, the most of an ensemble; 1 for a model without weights.
    seconds : float
        Of its training and evaluation.
    chosen : bool
        Whether it is the model that predicts.
    correct : array of bool, (nodes,)
        For each judging node whether its prediction is correct; not saved.
    """

    model: str
    title: str
    accuracy: float
    interval: tuple[float, float]
    roc_auc: float | None
    validation_accuracy: float | None
    validation_roc_auc: float | None
    steps_mean: float
    epochs: int
    seconds: float
    chosen: bool
    correct: np.ndarray

    def as_json(self) -> dict[str, Any]:
        values = {name: value for name, value in asdict(self).items() if name != "correct"}
        return {**values, "interval": list(self.interval)}


def leaderboard_row(
    model: str,
    title: str,
    classes: np.ndarray,
    graph: Graph,
    split: Split,
    *,
    steps_mean: float,
    seconds: float,
    metrics: Mapping[str, Any] | None = None,
) -> LeaderboardRow:
    """The row of a model from its predicted classes of the judging nodes, `judging_nodes(split)`.

    `metrics` are those of `evaluate_split`, for what it knows besides.
    """
    judges, validation = ((metrics or {}).get(name, {}) for name in (judging_set(split), "validation"))
    correct = classes == graph.labels[judging_nodes(split)]
    return LeaderboardRow(
        model,
        title,
        float(correct.mean()),
        wilson_interval(int(correct.sum()), len(correct)),
        judges.get("roc_auc"),
        validation.get("accuracy"),
        validation.get("roc_auc"),
        steps_mean,
        max((metrics or {}).get("epochs", [1])),
        seconds,
        False,
        correct,
    )


def majority_row(graph: Graph, split: Split) -> LeaderboardRow:
    """The row of the most frequent class among the training nodes."""
    nodes = judging_nodes(split)
    majority = int(np.bincount(graph.labels[split.train]).argmax())
    classes = np.full(len(nodes), majority)
    return leaderboard_row(
        MAJORITY, f"majority class ({graph.class_names[majority]})", classes, graph, split, steps_mean=0.0, seconds=0.0
    )


def judging_nodes(split: Split) -> np.ndarray:
    """The nodes on which the leaderboard judges."""
    return getattr(split, judging_set(split))


def judging_set(split: Split) -> str:
    """The set of nodes on which the leaderboard judges: the test set or, without one, the stopping set."""
    return "test" if len(split.test) else "stopping"


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a proportion.

    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    p, z2 = successes / count, Z**2
    center = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = Z / (1 + z2 / count) * np.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    return float(max(0.0, min(p, center - half))), float(min(1.0, max(p, center + half)))  # p, in spite of rounding


def paired_difference(first: LeaderboardRow, second: LeaderboardRow) -> tuple[float, float, float]:
    """Accuracy of the first minus that of the second, and its 95 % interval over the same nodes.

    The interval is that of Bonett and Price (2012), which holds for few nodes, too: it is not empty where the two
    predict alike or one is always better.
    """
    better = int((first.correct & ~second.correct).sum())
    worse = int((second.correct & ~first.correct).sum())
    count = len(first.correct)
    p, q = (better + 1) / (count + 2), (worse + 1) / (count + 2)
    half = Z * np.sqrt((p + q - (p - q) ** 2) / (count + 2))
    return (better - worse) / count, float(max(-1.0, p - q - half)), float(min(1.0, p - q + half))


def describe_graph_effect(
    rows: Sequence[LeaderboardRow], *, num_edges: int, auto: bool = False, can_keep: bool = False
) -> str | None:
    """A sentence on whether the edges help: the chosen model against features alone. None if one was not trained.

    Parameters
    ----------
    rows : sequence of LeaderboardRow
    num_edges : int
    auto : bool
        Whether the model was chosen among several; otherwise the user has named it.
    can_keep : bool
        Whether with `min_steps=0` a node of the model could keep its own prediction.
    """
    chosen = next((row for row in rows if row.chosen), None)
    features = next((row for row in rows if row.model == FEATURES), None)
    if not num_edges:
        return "The graph has no edges: nodes are predicted from their own features or from how frequent classes are."
    if chosen is None or features is None or (chosen is features and not auto):
        return None
    if chosen is features:
        return "The graph does not help: no model that uses it was better than features alone on the validation nodes."
    mean, low, high = paired_difference(chosen, features)
    if not _is_enough(chosen, features):
        count = pluralize(int((chosen.correct != features.correct).sum()), "node")
        return (
            f"The graph makes no measurable difference: {100 * mean:+.1f} points over features alone, from "
            f"{count} in which one is right and the other wrong."
        )
    interval = f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
    if low > 0:
        return f"The graph helps: {100 * mean:+.1f} points over features alone ({interval})."
    if high < 0:
        advice = "" if auto else "; try --model auto" + (" or --set min_steps=0 --set l2=0.0005" if can_keep else "")
        return (
            f"The graph misleads {chosen.title}: {100 * mean:+.1f} points against features alone ({interval}){advice}."
        )
    return f"The graph makes no measurable difference: {100 * mean:+.1f} points over features alone ({interval})."


def is_graph_doubtful(rows: Sequence[LeaderboardRow]) -> bool:
    """Whether features alone are as good as the chosen model, on nodes enough to tell."""
    chosen = next((row for row in rows if row.chosen), None)
    features = next((row for row in rows if row.model == FEATURES), None)
    if chosen is None or features is None:
        return False
    return chosen is features or (_is_enough(chosen, features) and paired_difference(chosen, features)[1] <= 0)


def _is_enough(first: LeaderboardRow, second: LeaderboardRow) -> bool:
    """Whether the predictions differ, in being correct, for as many nodes as a sign test needs."""
    return int((first.correct != second.correct).sum()) >= MIN_DIFFERENT


def describe_no_better_than_majority(rows: Sequence[LeaderboardRow]) -> str | None:
    """A sentence if the chosen model is not better, beyond chance, than the majority class; otherwise None."""
    chosen = next((row for row in rows if row.chosen), None)
    majority = next((row for row in rows if row.model == MAJORITY), None)
    if chosen is None or majority is None:
        return None
    mean, low, _ = paired_difference(chosen, majority)
    if low > 0 or not _is_enough(chosen, majority):
        return None
    return (
        f"{chosen.title} is no better than always answering the {majority.title}: {100 * mean:+.1f} points; features "
        "and edges may carry no information on these classes."
    )


def describe_better_baseline(rows: Sequence[LeaderboardRow], *, auto: bool = False) -> str | None:
    """A sentence if label propagation is better than the chosen model, beyond chance; otherwise None."""
    chosen = next((row for row in rows if row.chosen), None)
    labels = next((row for row in rows if row.model == LABELS), None)
    if chosen is None or labels is None or chosen is labels:
        return None
    mean, low, _ = paired_difference(labels, chosen)
    if low <= 0 or not _is_enough(labels, chosen):
        return None
    advice = "" if auto else "; try --model auto or --correct-and-smooth"
    return (
        f"Label propagation is {100 * mean:.1f} points better than {chosen.title}: the known labels are the better "
        f"evidence{advice}."
    )
