"""Model bundles: a trained model with its graph as a folder on disk that can be moved and loaded on any device.

    model.json            hyperparameters, feature encoding, classes, split, metrics, version and checksums
    weights.safetensors   the weights of the ensemble, with a leading run axis
    graph.npz             the graph it was trained on

Nothing in it is unpickled. The checksums show whether a file was altered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from apgcn import __version__
from apgcn._utils.atomic import new_folder, write_bytes
from apgcn.data.graph import Graph
from apgcn.data.npz import read_npz, write_npz
from apgcn.data.splits import Split
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput, MissingFile
from apgcn.inference.known_labels import CorrectAndSmooth
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.io.schema import TableSchema
from apgcn.io.structure_encoding import StructureEncoding
from apgcn.models.registry import config_class
from apgcn.training.config import TrainingConfig

FORMAT = 2  # of model.json: 1 was written by apgcn 0.1
METADATA_FILE, WEIGHTS_FILE, GRAPH_FILE = "model.json", "weights.safetensors", "graph.npz"
SETS = ("train", "stopping", "validation", "test")


@dataclass(frozen=True, eq=False)
class ModelBundle:
    """A trained model, the graph it was trained on, and the encoding of its features.

    Attributes
    ----------
    model : TrainedModel
    graph : Graph
    encoding : FeatureEncoding or None
        How the columns of a table become features; None where features came as an array.
    schema : TableSchema or None
        Which columns hold ids, labels and edges; None where features came as an array.
    structure : StructureEncoding or None
        The features that are computed from the edges; None where there are none.
    feature_names : tuple of str
        Column names of an array of features, as scikit-learn records them; may be empty.
    notes : sequence of str
        What was assumed, removed or replaced when the graph was read, one sentence each.
    integer_ids : bool
        Whether the ids of the nodes are integers in the user's table, and so in predictions.
    """

    model: TrainedModel
    graph: Graph
    encoding: FeatureEncoding | None = None
    schema: TableSchema | None = None
    feature_names: tuple[str, ...] = ()
    notes: Sequence[str] = ()
    structure: StructureEncoding | None = None
    integer_ids: bool = False


def save_model(folder: Path, bundle: ModelBundle, *, option: str = "--out") -> None:
    """Write a new folder; after an error nothing of it is left. `option` is what the user gave it with."""
    with new_folder(Path(folder), option=option) as partial:
        write_bundle(partial, bundle)


def write_graph(folder: Path, graph: Graph) -> None:
    """Write the graph of a bundle, usually its largest file: before a training it shows whether there is space."""
    write_npz(folder / GRAPH_FILE, graph)


def write_bundle(folder: Path, bundle: ModelBundle) -> None:
    """Write a bundle into an existing folder."""
    write_graph(folder, bundle.graph)
    write_bundle_without_graph(folder, bundle)


def write_bundle_without_graph(folder: Path, bundle: ModelBundle) -> None:
    """Write a bundle into a folder to which `write_graph` has written its graph."""
    write_model(
        folder,
        bundle.model,
        graph_name=bundle.graph.name,
        graph_fingerprint=fingerprint(bundle.graph),
        encoding=bundle.encoding,
        schema=bundle.schema,
        feature_names=bundle.feature_names,
        notes=bundle.notes,
        structure=bundle.structure,
        integer_ids=bundle.integer_ids,
    )


def write_model(
    folder: Path,
    model: TrainedModel,
    *,
    graph_name: str,
    graph_fingerprint: str,
    encoding: FeatureEncoding | None = None,
    schema: TableSchema | None = None,
    feature_names: Sequence[str] = (),
    notes: Sequence[str] = (),
    structure: StructureEncoding | None = None,
    integer_ids: bool = False,
) -> None:
    """Write the weights and model.json into a folder that has the graph already."""
    from safetensors.torch import save as to_bytes

    weights = {name: weight.contiguous() for name, weight in model.weights.items()}
    write_bytes(folder / WEIGHTS_FILE, to_bytes(weights))
    content = {
        "format": FORMAT,
        "apgcn": __version__,
        "model": model.config.name,
        "hyperparameters": vars(model.config),
        "training": vars(model.training),
        "classes": list(model.class_names),
        "num_features": model.num_features,
        "feature_names": list(feature_names),
        "temperature": model.temperature,
        "correct_and_smooth": model.correct_and_smooth and vars(model.correct_and_smooth),
        "encoding": encoding.as_json() if encoding else None,
        "schema": asdict(schema) if schema else None,
        "structure": structure.as_json() if structure else None,
        "integer_ids": integer_ids,
        "graph": {"name": graph_name, "fingerprint": graph_fingerprint},
        "split": {"seed": model.split.seed} | {name: getattr(model.split, name).tolist() for name in SETS},
        "metrics": model.metrics,
        "notes": list(notes),
        "checksums": {name: _file_checksum(folder / name) for name in (WEIGHTS_FILE, GRAPH_FILE)},
    }
    content["checksum"] = _json_checksum(content)
    write_bytes(folder / METADATA_FILE, f"{json.dumps(content, indent=1, allow_nan=False)}\n".encode())


def load_model(folder: Path) -> ModelBundle:
    """Read a folder that `save_model` wrote.

    Raises
    ------
    MissingFile
        If the folder or one of its files is missing.
    BrokenFile
        If a file was altered or truncated, or was written in another format.
    """
    folder = Path(folder)
    content = _read_metadata(folder)
    try:
        for name in (WEIGHTS_FILE, GRAPH_FILE):
            if _file_checksum(folder / name) != content["checksums"][name]:
                raise BrokenFile(
                    f"{folder / name} must have the checksum of {METADATA_FILE}, but it was altered or truncated; fit "
                    "the model again."
                )
        return _read_bundle(folder, content)
    except (MissingFile, BrokenFile):
        raise
    except ApgcnError as error:
        raise BrokenFile(f"{folder} cannot be loaded by apgcn {__version__}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise BrokenFile(
            f"{folder} must be a model that apgcn {__version__} can load, but it is not ({error!r})."
        ) from error


def fingerprint(graph: Graph) -> str:
    """A hash that is equal for two graphs with the same nodes, edges, features and labels."""
    features = graph.features
    feature_arrays = (
        (features,) if isinstance(features, np.ndarray) else (features.data, features.indices, features.indptr)
    )
    arrays = (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr, *feature_arrays, graph.labels)
    names = graph.class_names, graph.node_names
    return fingerprint_arrays((np.ascontiguousarray(array) for array in arrays), *names, features.shape)


def fingerprint_arrays(
    chunks: Iterable[np.ndarray],
    class_names: Sequence[str],
    node_names: Sequence[str] | None,
    shape: Sequence[int],
) -> str:
    """`fingerprint` from the arrays of a graph, each in one or more chunks."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk.tobytes())
    digest.update(json.dumps([class_names, node_names, list(shape)]).encode())
    return digest.hexdigest()


def _read_metadata(folder: Path) -> dict[str, Any]:
    """The content of model.json, if its format and checksum are right."""
    path = folder / METADATA_FILE
    if not path.is_file():
        is_benchmark = (folder / "summary.json").is_file()
        reason = "it has results of benchmark runs" if is_benchmark else f"there is no {METADATA_FILE} in it"
        raise MissingFile(f"{folder} must be the folder of a model that `apgcn fit` wrote, but {reason}.")
    try:
        content = json.loads(_read_bytes(path))
        checksum = content.pop("checksum")
        version, file_format = content["apgcn"], content["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise BrokenFile(f"{path} must describe a trained model, but cannot be read ({error!r}).") from error
    if file_format != FORMAT:
        is_older = isinstance(file_format, int) and file_format < FORMAT
        advice = f"fit it again with apgcn {__version__}" if is_older else "install that version"
        raise BrokenFile(f"{folder}: this model was saved by apgcn {version}; {advice}.")
    if _json_checksum(content) != checksum:
        raise BrokenFile(f"{path} must have its own checksum, but it was altered; fit the model again.")
    return content


def _read_bundle(folder: Path, content: Mapping[str, Any]) -> ModelBundle:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        weights = load(_read_bytes(folder / WEIGHTS_FILE))
    except SafetensorError as error:
        raise BrokenFile(f"{folder / WEIGHTS_FILE} must be a safetensors file, but is not ({error}).") from error
    dtypes = {str(weight.dtype) for weight in weights.values()}
    config = _build_config(config_class(content["model"]), content["hyperparameters"])
    if dtypes != ({"torch.float32"} if config.has_weights else set()):
        raise BrokenFile(
            f"{folder / WEIGHTS_FILE} must hold {'float32' if config.has_weights else 'no'} weights, got "
            f"{', '.join(sorted(dtypes)) or 'none'}."
        )
    graph = read_npz(folder / GRAPH_FILE, name=str(content["graph"]["name"]))
    if fingerprint(graph) != content["graph"]["fingerprint"]:
        raise BrokenFile(f"{folder / GRAPH_FILE} must be the graph that the model was trained on, but it is another.")
    sets = {name: np.array(content["split"].get(name, []), dtype=np.int64) for name in SETS}  # 0.2: no validation
    metrics, smoothing = content["metrics"], content.get("correct_and_smooth")
    model = TrainedModel(
        config=config,
        training=_build_config(TrainingConfig, content["training"]),
        weights=weights,
        class_names=tuple(content["classes"]),
        num_features=graph.num_features,
        temperature=float(content["temperature"]),
        split=Split(seed=int(content["split"]["seed"]), **sets),
        metrics={**metrics, "epochs": [int(epochs) for epochs in metrics["epochs"]]},
        correct_and_smooth=_build_config(CorrectAndSmooth, smoothing) if smoothing else None,
    )
    _check_consistency(model, graph)
    _check_comparison(model)
    encoding, schema, structure = content["encoding"], content["schema"], content.get("structure")
    return ModelBundle(
        model=model,
        graph=graph,
        encoding=FeatureEncoding.from_json(encoding) if encoding else None,
        schema=TableSchema(**schema) if schema else None,
        feature_names=tuple(str(name) for name in content["feature_names"]),
        notes=tuple(str(note) for note in content.get("notes", [])),  # 0.2: none
        structure=StructureEncoding.from_json(structure) if structure else None,
        integer_ids=bool(content.get("integer_ids")),  # 0.2: none
    )


def _check_consistency(model: TrainedModel, graph: Graph) -> None:
    """Check that the model belongs to the graph and the weights to the model."""
    if not 0 < model.temperature < float("inf"):
        raise InvalidInput(f"temperature must be a number above 0, got {model.temperature}.")
    if model.class_names != graph.class_names:
        raise InvalidInput("the classes of the model must be those of its graph.")
    for name in SETS:
        nodes = getattr(model.split, name)
        if nodes.ndim != 1 or (len(nodes) and not 0 <= nodes.min() <= nodes.max() < graph.num_nodes):
            raise InvalidInput(f"the split's {name} nodes must be nodes of the graph.")
    if model.config.has_weights:
        model.build_without_graph()  # raises an error where the shapes of the weights are wrong


def _check_comparison(model: TrainedModel) -> None:
    """Check what `fit` has measured: accuracy on held-out nodes and, where models were compared, the leaderboard."""
    metrics = model.metrics
    judges = "test" if len(model.split.test) else "stopping"
    float(metrics[judges]["accuracy"]), int(metrics[judges]["nodes"])
    for name in ("advice", "warnings"):
        if not all(isinstance(text, str) for text in metrics.get(name, [])):
            raise InvalidInput(f"{name} must be a list of sentences.")
    for row in metrics.get("leaderboard", []):
        if len([float(bound) for bound in row["interval"]]) != 2 or not isinstance(row["title"], str):
            raise InvalidInput(f"the rows of the leaderboard must have a title and an interval, got {row}.")
        float(row["accuracy"])


def _build_config(cls: Any, values: Mapping[str, Any]) -> Any:
    unknown = set(values) - {field.name for field in fields(cls)}
    if unknown:
        raise InvalidInput(f"hyperparameters {', '.join(sorted(unknown))} are not known to this version.")
    return cls(**values)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _missing(path, error) from error


def _file_checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _missing(path, error) from error


def _missing(path: Path, error: OSError) -> MissingFile:
    return MissingFile(f"{path} must be a file of a trained model, but cannot be read ({error.strerror}).")


def _json_checksum(content: Mapping[str, Any]) -> str:
    """A checksum of the values, whatever the white space between them."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
