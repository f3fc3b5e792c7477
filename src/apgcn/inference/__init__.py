"""Models for a user's graph: training, saving and prediction.

Start with `apgcn.inference.fit.fit`, which trains an ensemble on a graph and a split of its labelled nodes
(`splits`, `tuning` for a search of hyperparameters) and returns a `TrainedModel` (`trained_model`). Its method
`predict` gives `Predictions` (`predictions`). `bundle` saves a model with its graph as a folder and loads it; `onnx`
exports it. `evaluation` has accuracy, calibration and temperature scaling.

Where nodes halt, `LazyPredictor` (`lazy_predictor`) computes only the states that the requested nodes depend on, with
the algorithm of `lazy_propagation`; `halting_benchmark` measures what that saves.
"""

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

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

__getattr__, __dir__ = lazy_names(  # prediction needs neither scipy.optimize nor the trainer.
    __name__,
    {
        "bundle": ["ModelBundle", "load_model", "save_model"],
        "evaluation": ["evaluate", "evaluate_split"],
        "fit": ["fit_predict"],
        "lazy_predictor": ["LazyPredictor"],
        "onnx": ["write_onnx"],
        "predictions": ["Predictions", "write_predictions"],
        "splits": ["stratified_split"],
        "trained_model": ["TrainedModel"],
        "tuning": ["tune"],
    },
)
