"""The columns that most tables begin with."""

from __future__ import annotations

from apgcn.experiments.exhibit import Column
from apgcn.experiments.words import graph_title, model_title, plus_minus

GRAPH = Column("graph", lambda row: graph_title(row["dataset"]), words=True)
MODEL = Column("model", lambda row: model_title(row["model"]), words=True)
RUNS = Column("runs", lambda row: str(row["runs"]))
STEPS = Column("mean K", lambda row: plus_minus(row["steps"], row["steps_interval"]))
ACCURACY = Column("accuracy", lambda row: plus_minus(row["accuracy"], row["interval"]))
VALIDATION = Column(
    "on validation nodes", lambda row: plus_minus(row["validation_accuracy"], row["validation_interval"])
)
