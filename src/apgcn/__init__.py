"""Graph neural networks with node-adaptive depth: each node learns how many propagation steps it needs.

An implementation of AP-GCN (Spinelli, Scardapane, Uncini: Adaptive Propagation Graph Convolutional Network, IEEE TNNLS
2020) with every baseline, table and figure of the paper. There are five ways to use it.

**DataFrames** in, predictions out, for your own graph:

    model = apgcn.fit(edges, nodes, label="topic")
    model.leaderboard, model.predict(), model.save("models/topics")

**The command**, for your own graph or a benchmark graph:

    apgcn fit --edges edges.csv --nodes nodes.csv --label topic --out models/topics
    apgcn train cora

**The estimator**, a scikit-learn classifier of nodes:

    from apgcn import APGCNClassifier
    APGCNClassifier(penalty=0.005).fit(features, labels, adjacency=adjacency).predict()

**The layer**, for a PyTorch network of your own, called as in PyTorch Geometric:

    from apgcn.nn import APGCNConv
    out, steps, remainder = APGCNConv(channels=7, max_steps=10)(x, edge_index, return_steps=True)

**The protocol**, the paper's 20 splits and 5 initialisations in Python:

    graph = apgcn.clean(apgcn.load("cora"))
    results = apgcn.train(graph, apgcn.benchmark_runs(graph, 5), *apgcn.preset_config("cora"))

Public names
------------
fit                    train a classifier of nodes on DataFrames, and compare it with simple baselines
NodeClassifier         what `fit` returns: leaderboard, predictions as DataFrames, explain, save
load_model             the classifier of a saved folder
Graph                  adjacency, features and labels of a graph
load                   load a benchmark graph by name
clean                  the preprocessing of the benchmark
Split                  training, stopping, validation and test nodes
split_for_test         draw a split of the protocol, with test nodes
split_for_validation   draw a split for choosing hyperparameters, without test nodes
TEST_SEEDS             the seeds of the 20 published test splits
VALIDATION_SEEDS       the seeds of the 20 validation splits
Run                    a split and an initialisation
benchmark_runs         the first runs of the protocol
train                  train runs, in batches
RunResult              logits, steps, weights and history of a finished run
APGCNConfig            the hyperparameters of AP-GCN
TrainingConfig         the hyperparameters of optimisation and early stopping
preset_config          both, from a preset for a benchmark graph
config_class           the config class of a model by name, such as "appnp"
DeviceGraph            a graph as tensors on a device
RandomStream           counter-based random numbers, one stream per run
APGCNClassifier        the scikit-learn estimator; needs apgcn[sklearn]

Packages
--------
data (graphs, splits, datasets), io (file formats), ops (sparse products, kernels), nn (layers), models, training,
inference (trained models and predictions), benchmark (the paper's tables and figures), distributed, report, cli; and
the module errors, with the exceptions.

Documentation: README.md and the folder docs/ of the source distribution; `apgcn --help` for the commands.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from apgcn._utils.lazy_import import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from apgcn.data.datasets import load
    from apgcn.data.graph import Graph
    from apgcn.data.splits import TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
    from apgcn.data.transforms import clean
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.models.registry import config_class
    from apgcn.node_classifier import NodeClassifier, fit, load_model
    from apgcn.ops.device_graph import DeviceGraph
    from apgcn.ops.rng import RandomStream
    from apgcn.sklearn import APGCNClassifier
    from apgcn.training.batching import train
    from apgcn.training.config import TrainingConfig, preset_config
    from apgcn.training.runs import Run, RunResult, benchmark_runs

_OPTIONAL = {"APGCNClassifier": ("apgcn.sklearn", "sklearn", "scikit-learn")}  # module, package, distribution

__all__ = [
    "TEST_SEEDS",
    "VALIDATION_SEEDS",
    "APGCNConfig",
    "DeviceGraph",
    "Graph",
    "NodeClassifier",
    "RandomStream",
    "Run",
    "RunResult",
    "Split",
    "TrainingConfig",
    "benchmark_runs",
    "clean",
    "config_class",
    "fit",
    "load",
    "load_model",
    "preset_config",
    "split_for_test",
    "split_for_validation",
    "train",
]

_import_name, _required_names = lazy_names(
    __name__,
    {
        "apgcn.data.datasets": ["load"],
        "apgcn.data.graph": ["Graph"],
        "apgcn.data.splits": ["TEST_SEEDS", "VALIDATION_SEEDS", "Split", "split_for_test", "split_for_validation"],
        "apgcn.data.transforms": ["clean"],
        "apgcn.models.apgcn": ["APGCNConfig"],
        "apgcn.models.registry": ["config_class"],
        "apgcn.node_classifier": ["NodeClassifier", "fit", "load_model"],
        "apgcn.ops.device_graph": ["DeviceGraph"],
        "apgcn.ops.rng": ["RandomStream"],
        "apgcn.training.batching": ["train"],
        "apgcn.training.config": ["TrainingConfig", "preset_config"],
        "apgcn.training.runs": ["Run", "RunResult", "benchmark_runs"],
    },
    hints={  # names of version 0.1
        "APGCN": "in 0.2 it is apgcn.nn.APGCN, or apgcn.models.apgcn.BatchedAPGCN over the run axis",
        "APGCNSettings": "in 0.2 it is apgcn.APGCNConfig",
        "GraphTensors": "in 0.2 it is apgcn.DeviceGraph",
        "Noise": "in 0.2 it is apgcn.RandomStream",
        "TrainingSettings": "in 0.2 it is apgcn.TrainingConfig",
        "paper_settings": "in 0.2 it is apgcn.preset_config",
        "settings_of": "in 0.2 it is apgcn.config_class",
    },
)


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import apgcn` is quick."""
    if name not in _OPTIONAL:
        return _import_name(name)
    module, package, distribution = _OPTIONAL[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        from apgcn.errors import MissingPackage

        raise MissingPackage(f'{name} needs {distribution}: pip install "apgcn[{package}]"') from error


def __dir__() -> list[str]:
    return sorted([*_required_names(), *(name for name, (_, package, _) in _OPTIONAL.items() if find_spec(package))])
