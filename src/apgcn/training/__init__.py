"""Training of runs in batches, with early stopping; results and their summaries.

Start with `train`, which takes a graph, runs and a model config:

>>> from apgcn.data import clean, load
>>> from apgcn.training import benchmark_runs, preset_config, train
>>> graph = clean(load("cora"))
>>> results = train(graph, benchmark_runs(graph, 2), *preset_config("cora", max_epochs=3))
>>> [result.epochs for result in results]
[3, 3]

| module | contents |
|---|---|
| `config` | `TrainingConfig`, and `preset_config` for the benchmark graphs |
| `runs` | `Run`, `RunResult`, `History`; `benchmark_runs` of the paper's protocol |
| `batching` | `train`; division of runs into batches by memory and cost |
| `trainer` | `BatchedTrainer`, which trains one run batch |
| `loss` | the training loss |
| `early_stopping` | early stopping of every run of a batch |
| `cuda_graphs` | CUDA graphs of an epoch, and synchronised times |
| `outputs` | summaries over runs, and the files of `apgcn train --out` |
| `search_space` | hyperparameter search with optuna |
"""

from __future__ import annotations

from apgcn.training.batching import train
from apgcn.training.config import TrainingConfig, configs_from_values, preset_config
from apgcn.training.runs import History, Run, RunResult, benchmark_runs
from apgcn.training.trainer import BatchedTrainer, Progress, train_batch

__all__ = [
    "BatchedTrainer",
    "History",
    "Progress",
    "Run",
    "RunResult",
    "TrainingConfig",
    "benchmark_runs",
    "configs_from_values",
    "preset_config",
    "train",
    "train_batch",
]
