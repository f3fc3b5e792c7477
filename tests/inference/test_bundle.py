"""Model bundles: what was saved is loaded, and folders that were damaged, altered or written by 0.1 are refused."""

import json
import shutil

import networkx
import numpy as np
import pytest
from safetensors.torch import save

from apgcn import __version__
from apgcn.errors import BrokenFile, InvalidInput, MissingFile
from apgcn.inference import bundle as bundle_module
from apgcn.inference.bundle import ModelBundle, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.splits import stratified_split
from apgcn.io.csv import write_csv
from apgcn.io.graph_builder import build_graph
from apgcn.io.networkx import from_networkx
from apgcn.io.registry import read_table
from apgcn.io.schema import TableSchema
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a small model that was trained on tables."""
    folder = tmp_path_factory.mktemp("bundle")
    write_csv(folder / "edges.csv", ["source", "target"], [(node, (node + 1) % 30) for node in range(30)])
    rows = [(node, "ab"[node % 2] if node % 3 else "", 1990 + node, node % 2) for node in range(30)]
    write_csv(folder / "nodes.csv", ["id", "topic", "year", "size"], rows)
    tables = (read_table(folder / f"{name}.csv") for name in ("edges", "nodes"))
    loaded = build_graph(*tables, TableSchema(label="topic"), name="ring")
    split = stratified_split(loaded.graph.labels, test_size=0.2)
    trained = fit(loaded.graph, split, APGCNConfig(), TrainingConfig(max_epochs=5), ensemble_size=2)
    save_model(folder / "model", ModelBundle(trained, loaded.graph, loaded.encoding, loaded.schema))
    return folder / "model"


def test_structural_features_are_restored(tmp_path):
    """With their standardisation; a model of before has none."""
    club = networkx.karate_club_graph()
    loaded = from_networkx(club, TableSchema(label="club"), structure=["degree", "random_walk"])
    split = stratified_split(loaded.graph.labels)
    trained = fit(loaded.graph, split, APGCNConfig(), TrainingConfig(max_epochs=2))
    bundle = ModelBundle(trained, loaded.graph, loaded.encoding, loaded.schema, structure=loaded.structure)
    save_model(tmp_path / "model", bundle)
    restored = load_model(tmp_path / "model")
    assert restored.structure == loaded.structure
    np.testing.assert_array_equal(restored.structure.encode(restored.graph.adjacency), loaded.graph.features)
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    del content["structure"], content["checksum"]
    content["checksum"] = bundle_module._json_checksum(content)
    (tmp_path / "model" / "model.json").write_text(json.dumps(content))
    assert load_model(tmp_path / "model").structure is None


def damage(folder, name, change):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(change(content))


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "graph.npz"])
@pytest.mark.parametrize(
    "change",
    [lambda old: old[: len(old) // 2], lambda old: old[:99] + b"?" + old[100:], lambda old: b""],
    ids=["truncated", "altered", "emptied"],
)
def test_damaged_model_is_refused(model, tmp_path, name, change):
    shutil.copytree(model, tmp_path / "model")
    damage(tmp_path / "model", name, change)
    with pytest.raises(BrokenFile):
        load_model(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(MissingFile):
        load_model(tmp_path / "model")


def test_model_of_version_0_1_is_refused_with_one_message(model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    content = json.loads((model / "model.json").read_text()) | {"format": 1, "apgcn": "0.1.0"}
    (tmp_path / "model" / "model.json").write_text(json.dumps(content))
    message = rf"this model was saved by apgcn 0\.1\.0; fit it again with apgcn {__version__}\.$"
    with pytest.raises(BrokenFile, match=message):
        load_model(tmp_path / "model")


def test_model_of_a_later_format_names_the_version_to_install(model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    content = json.loads((model / "model.json").read_text()) | {"format": 3, "apgcn": "9.0"}
    (tmp_path / "model" / "model.json").write_text(json.dumps(content))
    with pytest.raises(BrokenFile, match=r"this model was saved by apgcn 9\.0; install that version\.$"):
        load_model(tmp_path / "model")


def test_loaded_model_predicts_the_same(cora, tmp_path):
    labels = np.where(np.arange(cora.num_nodes) % 5 == 0, cora.labels, -1)
    trained = fit(cora, stratified_split(labels), APGCNConfig(), TrainingConfig(max_epochs=20), ensemble_size=2)
    save_model(tmp_path / "model", ModelBundle(trained, cora))
    loaded = load_model(tmp_path / "model")
    before, after = trained.predict(cora), loaded.model.predict(loaded.graph)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    assert loaded.model.config == trained.config
    assert loaded.model.metrics == trained.metrics
    assert [len(getattr(loaded.model.split, name)) for name in ("train", "stopping", "test")] == [
        len(getattr(trained.split, name)) for name in ("train", "stopping", "test")
    ]
    with pytest.raises(InvalidInput, match="must have the 1433 features"):
        trained.predict(type(cora)(cora.adjacency, features=np.zeros((cora.num_nodes, 3)), labels=cora.labels))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("checksums",), 0.5, "must be a model that apgcn"),
        (("checksums",), {"../../etc/passwd": "x"}, "must be a model that apgcn"),
        (("temperature",), -1, "temperature must be a number above 0"),
        (("classes",), ["a"], "the classes of the model must be those of its graph"),
        (("split", "test"), [10**6], "the split's test nodes must be nodes of the graph"),
        (("hyperparameters", "hidden_channels"), 3, "must be a model that apgcn"),
        (("hyperparameters", "strange"), 3, "hyperparameters strange are not known"),
        (("schema", "label"), 7, "label must be the name of a column"),
        (("encoding", "columns", 0, "scale"), 0, "a scale that is not 0"),
        (("encoding", "columns", 0, "kind"), "odd", "a column must have a name, a kind"),
    ],
)
def test_altered_metadata_with_right_checksums_is_refused(model, tmp_path, place, value, message):
    shutil.copytree(model, tmp_path / "m")
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    del content["checksum"]
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    content["checksum"] = bundle_module._json_checksum(content)
    (tmp_path / "m" / "model.json").write_text(json.dumps(content))
    with pytest.raises(BrokenFile, match=message):
        load_model(tmp_path / "m")


def test_model_of_version_0_2_has_no_notes_and_keeps_all_classes(model, tmp_path):
    shutil.copytree(model, tmp_path / "m")
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    for inner, name in (
        (content, "checksum"),
        (content, "notes"),
        *((content["schema"], field) for field in ("min_class", "dropped_classes")),
    ):
        del inner[name]
    content["checksum"] = bundle_module._json_checksum(content)
    (tmp_path / "m" / "model.json").write_text(json.dumps(content))
    loaded = load_model(tmp_path / "m")
    assert (loaded.notes, loaded.schema) == ((), load_model(model).schema)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda weights: {}, "none"),
        (lambda weights: {name: weight.bfloat16() for name, weight in weights.items()}, "torch.bfloat16"),
        (lambda weights: {name: weight.long() for name, weight in weights.items()}, "torch.int64"),
    ],
    ids=["empty", "bfloat16", "int64"],
)
def test_weights_of_another_type_with_right_checksums_are_refused(model, tmp_path, change, found):
    shutil.copytree(model, tmp_path / "m")
    weights = load_model(model).model.weights
    (tmp_path / "m" / "weights.safetensors").write_bytes(save(change(weights)))
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    del content["checksum"]
    content["checksums"]["weights.safetensors"] = bundle_module._file_checksum(tmp_path / "m" / "weights.safetensors")
    content["checksum"] = bundle_module._json_checksum(content)
    (tmp_path / "m" / "model.json").write_text(json.dumps(content))
    with pytest.raises(BrokenFile, match=f"must hold float32 weights, got {found}"):
        load_model(tmp_path / "m")


def test_save_that_fails_leaves_no_files(model, tmp_path, monkeypatch):
    bundle = load_model(model)
    monkeypatch.setattr(bundle_module, "write_npz", lambda path, graph: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_model(tmp_path / "inner" / "m", bundle)
    assert not list(tmp_path.iterdir())
