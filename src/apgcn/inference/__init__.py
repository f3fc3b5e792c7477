"""Models for a user's graph: training, saving and prediction.

Start with `apgcn.inference.fit.fit`, which trains an ensemble on a graph and a split of its labelled nodes
(`splits`, `tuning` for a search of hyperparameters) and returns a `TrainedModel` (`trained_model`). Its method
`predict` gives `Predictions` (`predictions`). `bundle` saves a model with its graph as a folder and loads it; `onnx`
exports it. `evaluation` has accuracy, calibration and temperature scaling.

Where nodes halt, `LazyPredictor` (`lazy_predictor`) computes only the states that the requested nodes depend on, with
the algorithm of `lazy_propagation`; `halting_benchmark` measures what that saves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apgcn.inference.bundle import ModelBundle, load_model, save_model
    from apgcn.inference.evaluation import evaluate, evaluate_split
    from apgcn.inference.fit import fit_predict
    from apgcn.inference.lazy_predictor import LazyPredictor
    from apgcn.inference.onnx import write_onnx
    from apgcn.inference.predictions import Predictions, write_predictions
    from apgcn.inference.splits import stratified_split
    from apgcn.inference.trained_model import TrainedModel
    from apgcn.inference.tuning import tune

_MODULES = {
    "LazyPredictor": "lazy_predictor",
    "ModelBundle": "bundle",
    "Predictions": "predictions",
    "TrainedModel": "trained_model",
    "evaluate": "evaluation",
    "evaluate_split": "evaluation",
    "fit_predict": "fit",
    "load_model": "bundle",
    "save_model": "bundle",
    "stratified_split": "splits",
    "tune": "tuning",
    "write_onnx": "onnx",
    "write_predictions": "predictions",
}

__all__ = [
    "LazyPredictor",
    "ModelBundle",
    "Predictions",
    "TrainedModel",
    "evaluate",
    "evaluate_split",
    "fit_predict",
    "load_model",
    "save_model",
    "stratified_split",
    "tune",
    "write_onnx",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    """Import on first use: prediction needs neither scipy.optimize nor the trainer."""
    if name not in _MODULES:
        raise AttributeError(f"module 'apgcn.inference' has no attribute {name!r}")
    return getattr(import_module(f"apgcn.inference.{_MODULES[name]}"), name)
