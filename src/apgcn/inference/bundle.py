"""What is a trained model on disk? A folder that can be moved, loaded on another device, and that nobody altered.

    model.json            settings, features, classes, version, and the checksums of the others and of itself
    weights.safetensors   the initialisations, run axis first
    graph.npz             the graph it was trained on

Nothing in it is ever unpickled.
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
from apgcn._utils.atomic import new_folder
from apgcn.data.graph import Graph
from apgcn.data.npz import read_npz, write_npz
from apgcn.data.splits import Split
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput, MissingFile
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.build_graph import TableSchema
from apgcn.io.feature_encoding import FeatureEncoding
from apgcn.models.registry import config_class
from apgcn.training.config import TrainingConfig

FORMAT = 1
PAGE, WEIGHTS, GRAPH = "model.json", "weights.safetensors", "graph.npz"


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A trained model, the graph it was trained on, and how its features are made of a table.

    `encoding` and `schema` are None where features came as an array.
    """

    fitted: TrainedModel
    graph: Graph
    encoding: FeatureEncoding | None = None
    schema: TableSchema | None = None


def save_model(folder: Path, saved: SavedModel) -> None:
    """Write a new folder, whole or not at all."""
    with new_folder(Path(folder)) as partial:
        fill(partial, saved)


def fill(folder: Path, saved: SavedModel) -> None:
    """Write into an existing folder."""
    write_npz(folder / GRAPH, saved.graph)
    describe(
        folder,
        saved.fitted,
        name=saved.graph.name,
        graph=fingerprint(saved.graph),
        encoding=saved.encoding,
        schema=saved.schema,
    )


def describe(
    folder: Path,
    fitted: TrainedModel,
    *,
    name: str,
    graph: str,
    encoding: FeatureEncoding | None = None,
    schema: TableSchema | None = None,
) -> None:
    """Write the weights and what they mean into a folder that has the graph, of that name and fingerprint."""
    from safetensors.torch import save as as_bytes

    (folder / WEIGHTS).write_bytes(as_bytes({part: weight.contiguous() for part, weight in fitted.weights.items()}))
    content = {
        "format": FORMAT,
        "apgcn": __version__,
        "model": fitted.model.name,
        "settings": vars(fitted.model),
        "training": vars(fitted.training),
        "classes": list(fitted.class_names),
        "features": fitted.features,
        "temperature": fitted.temperature,
        "encoding": encoding.as_json() if encoding else None,
        "reading": asdict(schema) if schema else None,
        "graph": {"name": name, "fingerprint": graph},
        "split": {"seed": fitted.split.seed} | {part: getattr(fitted.split, part).tolist() for part in SETS},
        "notes": fitted.notes,
        "checksums": {part: _checksum_of_file(folder / part) for part in (WEIGHTS, GRAPH)},
    }
    content["checksum"] = _checksum_of(content)
    (folder / PAGE).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


SETS = ("train", "stopping", "test")


def load_model(folder: Path) -> SavedModel:
    """Read a folder that `save_model` wrote.

    Raises
    ------
    MissingFile
        If there is none, or a file of it is missing.
    BrokenFile
        If a file was altered or cut off, or was written by a version that this one does not know.
    """
    folder = Path(folder)
    content = _page(folder)
    try:
        for name in (WEIGHTS, GRAPH):
            if _checksum_of_file(folder / name) != content["checksums"][name]:
                raise BrokenFile(
                    f"{folder / name} must be as it was saved, but it was altered or cut off; train again."
                )
        return _loaded(folder, content)
    except (MissingFile, BrokenFile):
        raise
    except ApgcnError as error:
        raise BrokenFile(f"{folder} cannot be loaded by apgcn {__version__}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise BrokenFile(f"{folder} is no model that apgcn {__version__} knows ({error!r}).") from error


def fingerprint(graph: Graph) -> str:
    """The same for two graphs with the same nodes, edges, features and labels."""
    features = graph.features
    parts = (features,) if isinstance(features, np.ndarray) else (features.data, features.indices, features.indptr)
    arrays = (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr, *parts, graph.labels)
    names = graph.class_names, graph.node_names
    return fingerprint_of((np.ascontiguousarray(array) for array in arrays), *names, features.shape)


def fingerprint_of(
    pieces: Iterable[np.ndarray],
    class_names: Sequence[str],
    node_names: Sequence[str] | None,
    shape: Sequence[int],
) -> str:
    """The same from the arrays of a graph, each in one or more pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.tobytes())
    digest.update(json.dumps([class_names, node_names, list(shape)]).encode())
    return digest.hexdigest()


def _page(folder: Path) -> dict[str, Any]:
    """What model.json says, if it says what it said when it was written."""
    if not (folder / PAGE).is_file():
        benchmark = (folder / "summary.json").is_file()
        why = "it has runs of a benchmark, which are kept to be read" if benchmark else f"there is no {PAGE} in it"
        raise MissingFile(f"{folder} must be the folder of a model of one's own graph, but {why}.")
    try:
        content = json.loads(_bytes(folder / PAGE))
        told = content.pop("checksum")
        version, known = content["apgcn"], content["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise BrokenFile(f"{folder / PAGE} must describe a trained model, but cannot be read ({error!r}).") from error
    if known != FORMAT:
        raise BrokenFile(
            f"{folder} was saved by apgcn {version} in a form that {__version__} does not know; use that version."
        )
    if _checksum_of(content) != told:
        raise BrokenFile(f"{folder / PAGE} must be as it was saved, but it was altered; train again.")
    return content


def _loaded(folder: Path, content: Mapping[str, Any]) -> SavedModel:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        weights = load(_bytes(folder / WEIGHTS))
    except SafetensorError as error:
        raise BrokenFile(f"{folder / WEIGHTS} is not a file of weights ({error}).") from error
    graph = read_npz(folder / GRAPH, name=str(content["graph"]["name"]))
    if fingerprint(graph) != content["graph"]["fingerprint"]:
        raise BrokenFile(f"{folder / GRAPH} is not the graph that the model was trained on.")
    sets = {name: np.array(content["split"][name], dtype=np.int64) for name in SETS}
    fitted = TrainedModel(
        model=_settings(config_class(content["model"]), content["settings"]),
        training=_settings(TrainingConfig, content["training"]),
        weights=weights,
        class_names=tuple(content["classes"]),
        features=graph.num_features,
        temperature=float(content["temperature"]),
        split=Split(seed=int(content["split"]["seed"]), **sets),
        notes={**content["notes"], "epochs": [int(epochs) for epochs in content["notes"]["epochs"]]},
    )
    _check(fitted, graph)
    encoding, schema = content["encoding"], content["reading"]
    return SavedModel(
        fitted=fitted,
        graph=graph,
        encoding=FeatureEncoding.from_json(encoding) if encoding else None,
        schema=TableSchema(**schema) if schema else None,
    )


def _check(fitted: TrainedModel, graph: Graph) -> None:
    """Whether the parts of a folder are about the same model and graph."""
    if not 0 < fitted.temperature < float("inf"):
        raise InvalidInput(f"temperature must be a number above 0, got {fitted.temperature}.")
    if fitted.class_names != graph.class_names:
        raise InvalidInput("the classes of the model must be those of its graph.")
    for name in SETS:
        nodes = getattr(fitted.split, name)
        if nodes.ndim != 1 or (len(nodes) and not 0 <= nodes.min() <= nodes.max() < graph.num_nodes):
            raise InvalidInput(f"the split's {name} nodes must be nodes of the graph.")
    alone = Graph(np.zeros((1, 1)), np.zeros((1, graph.num_features)), name=graph.name, class_names=graph.class_names)
    fitted.built(alone)  # do the weights fit? which a graph of one node shows as well


def _settings(kind: Any, given: Mapping[str, Any]) -> Any:
    unknown = set(given) - {one.name for one in fields(kind)}
    if unknown:
        raise InvalidInput(f"settings {', '.join(sorted(unknown))} are not known to this version.")
    return kind(**given)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingFile(
            f"{path} must be a file of a trained model, but cannot be read ({error.strerror})."
        ) from error


def _checksum_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise MissingFile(
            f"{path} must be a file of a trained model, but cannot be read ({error.strerror})."
        ) from error


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum_of(content: Mapping[str, Any]) -> str:
    """Of what is said, whatever the spaces between."""
    return _checksum(json.dumps(content, sort_keys=True).encode())
