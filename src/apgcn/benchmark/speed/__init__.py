"""Speed of this machine, for `apgcn bench`.

`epochs` times an epoch, interleaved with the PyTorch Geometric implementations of `pyg_baselines`; `end_to_end` times
complete trainings and imports; `targets` compares both with the speeds that this project aims at.
"""

from apgcn.benchmark.speed.end_to_end import ImportTime, TrainingTime, time_imports, time_trainings
from apgcn.benchmark.speed.epochs import EpochTime, time_epochs
from apgcn.benchmark.speed.pyg_baselines import build_baselines
from apgcn.benchmark.speed.targets import TARGETS, compare_with_targets

__all__ = [
    "TARGETS",
    "EpochTime",
    "ImportTime",
    "TrainingTime",
    "build_baselines",
    "compare_with_targets",
    "time_epochs",
    "time_imports",
    "time_trainings",
]
