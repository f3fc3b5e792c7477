"""Benchmark files: found, downloaded, checked. The network is a server on this machine."""

import hashlib
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources

import numpy as np
import pytest
from scipy import sparse

from apgcn.datasets import describe
from apgcn.datasets.files import fetch, find
from apgcn.errors import BrokenFile, MissingFile, UnknownName
from apgcn.io.npz import read_npz


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def published(tmp_path):
    """A folder that is served, and its address."""
    folder = tmp_path / "published"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv("APGCN_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def dataset(address: str, content: bytes):
    return replace(describe("citeseer"), address=address, sha256=hashlib.sha256(content).hexdigest())


def test_a_download_is_checked_and_put_in_place(published, data):
    folder, address = published
    (folder / "g.npz").write_bytes(b"graph")
    path = fetch(dataset(address + "g.npz", b"graph"))
    assert path == data / "g.npz"
    assert path.read_bytes() == b"graph"
    assert [file.name for file in data.iterdir()] == ["g.npz"]


def test_a_second_call_needs_no_network(published, data):
    folder, address = published
    (folder / "g.npz").write_bytes(b"graph")
    wanted = dataset(address + "g.npz", b"graph")
    first = fetch(wanted)
    (folder / "g.npz").unlink()
    assert fetch(wanted) == first


def test_the_cache_folder_is_looked_into_after_the_named_one(data, tmp_path):
    wanted = dataset("http://127.0.0.1:9/g.npz", b"graph")
    assert find(wanted) is None
    (tmp_path / "cache" / "apgcn").mkdir(parents=True)
    (tmp_path / "cache" / "apgcn" / "g.npz").write_bytes(b"graph")
    assert fetch(wanted) == tmp_path / "cache" / "apgcn" / "g.npz"
    data.mkdir()
    (data / "g.npz").write_bytes(b"graph")
    assert fetch(wanted) == data / "g.npz"


def test_a_wrong_download_leaves_nothing_behind(published, data):
    folder, address = published
    (folder / "g.npz").write_bytes(b"another graph")
    with pytest.raises(BrokenFile, match=r"g\.npz is not the published .* nothing was kept"):
        fetch(dataset(address + "g.npz", b"graph"))
    assert list(data.iterdir()) == []


def test_a_wrong_file_is_named_and_left_alone(data):
    data.mkdir()
    (data / "g.npz").write_bytes(b"my notes")
    with pytest.raises(BrokenFile, match=r"g\.npz must have SHA-256 .* move it away"):
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    assert (data / "g.npz").read_bytes() == b"my notes"


def test_without_network_the_file_the_folder_and_the_address_are_named(data):
    with pytest.raises(MissingFile) as caught:
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    for part in ("g.npz", str(data), "http://127.0.0.1:9/g.npz", "APGCN_DATA"):
        assert part in str(caught.value)
    assert not list(data.glob("*"))


def test_the_embedded_file_is_the_one_in_the_catalogue():
    content = resources.files("apgcn.datasets").joinpath("cora.npz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == describe("cora").sha256


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(UnknownName, match="unknown dataset 'Cora-ML'; did you mean 'cora_ml'"):
        describe("Cora-ML")
    with pytest.raises(UnknownName, match="known: cora, citeseer"):
        describe("zzz")


@pytest.mark.parametrize("stem", ["{}_", "{}_matrix."])
def test_both_spellings_are_read_and_pickles_are_left_alone(tmp_path, stem):
    swap = sparse.csr_matrix([[0, 1.0], [1, 0]])
    arrays = {
        stem.format(prefix) + part: getattr(swap, part)
        for prefix in ("adj", "attr")
        for part in ("data", "indices", "indptr", "shape")
    }
    names = np.array(["x", "y"], dtype=object)  # stored as a pickle
    np.savez(tmp_path / "g.npz", labels=np.array([0, 1], np.int8), class_names=names, **arrays)
    graph = read_npz(tmp_path / "g.npz")
    assert (graph.name, graph.num_nodes, graph.num_directed_edges, graph.class_names) == ("g", 2, 2, ("0", "1"))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 torn"])
def test_a_broken_archive_is_told_in_words(tmp_path, content):
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"g\.npz is not a graph archive"):
        read_npz(tmp_path / "g.npz")


def test_an_archive_without_a_graph_is_told_in_words(tmp_path):
    np.savez(tmp_path / "g.npz", labels=np.zeros(3))
    with pytest.raises(BrokenFile, match="must hold adj_data"):
        read_npz(tmp_path / "g.npz")
