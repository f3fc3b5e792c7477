"""Benchmark files: search, download, checksums, archives. The network is a local server."""

import hashlib
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources

import numpy as np
import pytest
from scipy import sparse

from apgcn.data import dataset_info, download
from apgcn.data.download import fetch, find_file
from apgcn.data.npz import read_npz
from apgcn.errors import BrokenFile, MissingFile, MissingPackage, UnknownName


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def served(tmp_path):
    """A folder that is served over HTTP, and its URL."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=folder)) as server:
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


def dataset(url: str, content: bytes):
    return replace(dataset_info("citeseer"), url=url, sha256=hashlib.sha256(content).hexdigest())


def test_a_download_is_verified_and_moved_into_the_folder(served, data):
    folder, url = served
    (folder / "g.npz").write_bytes(b"graph")
    path = fetch(dataset(url + "g.npz", b"graph"))
    assert path == data / "g.npz"
    assert path.read_bytes() == b"graph"
    assert [file.name for file in data.iterdir()] == ["g.npz"]


class EndlessHandler(SilentHandler):
    """Sends a byte every 50 ms or, for /large, a megabyte at once, without end."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # the client is gone
            while not self.server.is_stopping.wait(0 if self.path == "/large" else 0.05):
                self.wfile.write(bytes(2**20 if self.path == "/large" else 1))


@pytest.mark.parametrize(("name", "reason"), [("large", "there is more"), ("slow", "it takes longer")])
def test_a_download_without_end_is_refused(data, monkeypatch, name, reason):
    monkeypatch.setattr(download, "MAX_SECONDS", 30.0 if name == "large" else 0.5)
    monkeypatch.setattr(download, "MAX_BYTES", 2**22)
    with ThreadingHTTPServer(("127.0.0.1", 0), EndlessHandler) as server:
        server.is_stopping = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        requested = dataset(f"http://127.0.0.1:{server.server_port}/{name}", b"graph")
        timer = threading.Timer(10, server.is_stopping.set)  # for a client without limits
        timer.start()
        with pytest.raises(MissingFile, match=f"must have at most 4,194,304 bytes and end within .* but {reason}"):
            fetch(requested)
        timer.cancel()
        server.is_stopping.set()
        server.shutdown()
    assert list(data.iterdir()) == []


def test_a_second_call_needs_no_network(served, data):
    folder, url = served
    (folder / "g.npz").write_bytes(b"graph")
    requested = dataset(url + "g.npz", b"graph")
    first = fetch(requested)
    (folder / "g.npz").unlink()
    assert fetch(requested) == first


def test_the_cache_folder_is_searched_after_apgcn_data(data, tmp_path):
    requested = dataset("http://127.0.0.1:9/g.npz", b"graph")
    assert find_file(requested) is None
    (tmp_path / "cache" / "apgcn").mkdir(parents=True)
    (tmp_path / "cache" / "apgcn" / "g.npz").write_bytes(b"graph")
    assert fetch(requested) == tmp_path / "cache" / "apgcn" / "g.npz"
    data.mkdir()
    (data / "g.npz").write_bytes(b"graph")
    assert fetch(requested) == data / "g.npz"


def test_a_download_with_a_wrong_checksum_is_removed(served, data):
    folder, url = served
    (folder / "g.npz").write_bytes(b"another graph")
    with pytest.raises(BrokenFile, match=r"g\.npz is not the published .* nothing was kept"):
        fetch(dataset(url + "g.npz", b"graph"))
    assert list(data.iterdir()) == []


def test_a_file_with_a_wrong_checksum_is_reported_and_kept(data):
    data.mkdir()
    (data / "g.npz").write_bytes(b"my notes")
    with pytest.raises(BrokenFile, match=r"g\.npz must have SHA-256 .* move it away"):
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    assert (data / "g.npz").read_bytes() == b"my notes"


def test_without_network_the_message_names_file_folder_and_url(data):
    with pytest.raises(MissingFile) as caught:
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    for part in ("g.npz", str(data), "http://127.0.0.1:9/g.npz", "APGCN_DATA"):
        assert part in str(caught.value)
    assert not list(data.glob("*"))


def test_a_tilde_in_apgcn_data_is_expanded_and_files_there_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("APGCN_DATA", "~/data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "g.npz").write_bytes(b"precious")
    with pytest.raises(BrokenFile, match="must have SHA-256"):
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    assert (tmp_path / "data" / "g.npz").read_bytes() == b"precious"


def test_a_folder_in_place_of_the_file_is_kept(data):
    (data / "g.npz").mkdir(parents=True)
    with pytest.raises(BrokenFile, match="must be a file that can be read"):
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))
    assert (data / "g.npz").is_dir()


def test_without_pooch_the_message_names_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingPackage, match="needs pooch: pip install pooch"):
        fetch(dataset("http://127.0.0.1:9/g.npz", b"graph"))


def test_the_embedded_file_has_the_checksum_of_the_registry():
    content = resources.files("apgcn.data").joinpath("cora.npz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == dataset_info("cora").sha256


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(UnknownName, match="unknown dataset 'Cora-ML'; did you mean 'cora_ml'"):
        dataset_info("Cora-ML")
    with pytest.raises(UnknownName, match="known: cora, citeseer"):
        dataset_info("zzz")


@pytest.mark.parametrize("stem", ["{}_", "{}_matrix."])
def test_both_naming_schemes_are_read_and_pickles_are_ignored(tmp_path, stem):
    matrix = sparse.csr_matrix([[0, 1.0], [1, 0]])
    arrays = {
        stem.format(prefix) + part: getattr(matrix, part)
        for prefix in ("adj", "attr")
        for part in ("data", "indices", "indptr", "shape")
    }
    names = np.array(["x", "y"], dtype=object)  # stored as a pickle
    np.savez(tmp_path / "g.npz", labels=np.array([0, 1], np.int8), class_names=names, **arrays)
    graph = read_npz(tmp_path / "g.npz")
    assert (graph.name, graph.num_nodes, graph.num_directed_edges, graph.class_names) == ("g", 2, 2, ("0", "1"))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 torn"])
def test_a_damaged_archive_is_refused(tmp_path, content):
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"g\.npz is not a graph archive"):
        read_npz(tmp_path / "g.npz")


@pytest.mark.parametrize(
    "damage",
    [
        {"adj_indices": np.array([1, 10**8])},
        {"adj_indices": np.array([1, -1])},
        {"adj_indptr": np.array([0, 10**8, 2])},
        {"adj_indptr": np.array([0, -5, 2])},
        {"adj_indices": np.array([1.5, 0.0])},
        {"adj_shape": np.array(2)},
        {"labels": np.array([0.5, 1.0])},
        {"labels": np.array([{}, {}], dtype=object)},
        {"attr_data": np.array([np.nan, 1.0])},
    ],
    ids=str,
)
def test_an_archive_with_invalid_arrays_is_refused(tmp_path, damage):
    matrix = sparse.csr_matrix([[0, 1.0], [1, 0]])
    arrays = {
        f"{prefix}_{part}": np.asarray(getattr(matrix, part))
        for prefix in ("adj", "attr")
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(tmp_path / "g.npz", **{**arrays, "labels": np.array([0, 1]), **damage})
    with pytest.raises(BrokenFile, match=r"g\.npz"):
        read_npz(tmp_path / "g.npz")


def test_a_missing_archive_is_named_in_the_message(tmp_path):
    with pytest.raises(MissingFile, match=r"g\.npz must be a graph archive"):
        read_npz(tmp_path / "g.npz")


def test_an_archive_without_a_graph_is_refused(tmp_path):
    np.savez(tmp_path / "g.npz", labels=np.zeros(3))
    with pytest.raises(BrokenFile, match="must hold adj_data"):
        read_npz(tmp_path / "g.npz")
