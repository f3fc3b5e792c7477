"""How does a rank read its rows of an archive that is larger than its memory? Piece by piece, keeping what is its own.

Archives are those of `io.npz.write_npz`. Labels and row pointers are read whole: a few bytes for every node.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from apgcn.distributed.graph_shard import Part, Rows, heard_by
from apgcn.distributed.partition import by_metis, in_blocks
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput, MissingFile
from apgcn.inference.bundle import GRAPH, describe, fingerprint_of
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.build_graph import TableSchema

ARRAYS = {"adj_indices", "adj_data", "attr_dense", "attr_indptr", "attr_indices", "attr_data", "node_names"}
PIECE = 2**22  # entries that are looked at together


class Archive:
    """A graph in a file, of which nobody holds more than a part.

    Unless it is directed, every edge must be there in both directions.

    Attributes
    ----------
    nodes, edges, features : int
    labels : array of shape (nodes,)
    class_names : tuple of str
    digest : str
        The same for two files with the same members.
    """

    def __init__(self, path: Path, *, directed: bool = False):
        self.path, self.directed = Path(path), directed
        with self._broken(), self._open() as archive:
            members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
            self.digest = "".join(f"{name} {one.CRC:08x} {one.file_size}\n" for name, one in sorted(members.items()))
            self._members = set(members)
            shapes = {name: _Member(archive, name).shape for name in members if name in ARRAYS}
            self.labels = self._whole(archive, "labels")
            self._pointers = self._whole(archive, "adj_indptr")
            _check_pointers(self._pointers)
            names = self._whole(archive, "class_names")
            if names.ndim != 1 or names.dtype.kind != "U":
                raise ValueError("class_names must be texts")
            if "node_names" in members and _Member(archive, "node_names").kind != "U":
                raise ValueError("node_names must be texts")
            self._rows, self.features = map(int, self._shape(archive))
        self.nodes, self.edges = len(self._pointers) - 1, int(self._pointers[-1])
        self.notes: list[str] = []
        self.class_names = tuple(map(str, names))
        with self._broken():
            self._look(shapes)

    def _look(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Whether arrays fit together, as far as can be seen without reading them."""
        entries = (int(self._pointers[-1]),)
        for name, expected in (
            ("adj_indices", entries),
            ("adj_data", entries),
            ("attr_dense", (self.nodes, self.features)),
            ("attr_indptr", (self.nodes + 1,)),
            ("attr_data", shapes.get("attr_indices")),
            ("node_names", (self.nodes,)),
        ):
            if name in shapes and shapes[name] != expected:
                raise ValueError(f"{name} must have shape {expected}, got {shapes[name]}")
        if "attr_shape" in self._members and self._rows != self.nodes:
            raise ValueError(f"there must be features of {self.nodes} nodes, got {self._rows}")
        if self.labels.dtype != np.int64 or self.labels.shape != (self.nodes,) or not self.nodes:
            raise ValueError(f"labels must be an int64 for each of {self.nodes} nodes")
        if not -1 <= self.labels.min() <= self.labels.max() < len(self.class_names):
            raise ValueError(f"labels must be from -1 to {len(self.class_names) - 1}")
        if self.features < 1:
            raise ValueError("nodes must have features")

    def owners(self, parts: int, way: str) -> np.ndarray:
        """The owner of every node, (nodes,)."""
        if way == "blocks":
            return in_blocks(self._pointers, parts)
        with self._broken(), self._open() as archive:
            columns = self._whole(archive, "adj_indices")
            if columns.size and not 0 <= columns.min() <= columns.max() < self.nodes:
                raise ValueError(f"places must be from 0 to {self.nodes - 1}")
            ones = np.ones(len(columns), np.int8)
            matrix = sparse.csr_matrix((ones, columns, self._pointers), shape=(self.nodes, self.nodes))
        return by_metis(matrix, parts)

    def part(self, owner: np.ndarray, rank: int) -> Part:
        """What a rank holds."""
        own = np.flatnonzero(owner == rank)
        with self._broken(), self._open() as archive:
            heard, ghosts = heard_by(self._edges(archive), owner, rank)
            features = self._features(archive, owner == rank)
        return Part(own, ghosts, heard, features, self.labels[own])

    def _edges(self, archive: zipfile.ZipFile) -> Rows:
        members = _Member(archive, "adj_indices"), _Member(archive, "adj_data")
        there = back = 0
        for first, last in _pieces(self._pointers):
            count = int(self._pointers[last] - self._pointers[first])
            columns, values = (member.read(count) for member in members)
            self._check(columns, values, self._pointers[first : last + 1], width=self.nodes)
            if (values < 0).any():
                raise ValueError("edge weights must be > 0")
            rows = np.repeat(np.arange(first, last), np.diff(self._pointers[first : last + 1]))
            there += _trace(rows, columns, values)
            back += _trace(columns, rows, values)
            yield rows, columns, values
        if (there - back) % 2**64 and not self.directed:
            raise InvalidInput(
                f"{self.path} must hold every edge in both directions with one weight, but does not; say --directed, "
                "or write it again after apgcn.data.transforms.undirected."
            )

    def _features(self, archive: zipfile.ZipFile, ours: np.ndarray) -> sparse.csr_matrix | np.ndarray:
        if "attr_dense" in self._members:
            member = _Member(archive, "attr_dense")
            rows = max(1, PIECE // self.features)
            pieces = [
                member.read(self.features * len(ours[first : first + rows])).reshape(-1, self.features)[
                    ours[first : first + rows]
                ]
                for first in range(0, self.nodes, rows)
            ]
            dense = np.concatenate(pieces)
            if dense.dtype != np.float32 or not np.isfinite(dense).all():
                raise ValueError("features must be finite float32")
            return dense
        pointers = self._whole(archive, "attr_indptr")
        _check_pointers(pointers)
        members = _Member(archive, "attr_indices"), _Member(archive, "attr_data")
        kept: list[sparse.csr_matrix] = []
        for first, last in _pieces(pointers):
            count = int(pointers[last] - pointers[first])
            columns, values = (member.read(count) for member in members)
            self._check(columns, values, pointers[first : last + 1], width=self.features)
            start = pointers[first : last + 1] - pointers[first]
            piece = sparse.csr_matrix((values, columns, start), shape=(last - first, self.features))
            kept.append(piece[ours[first:last]])
        return sparse.csr_matrix(sparse.vstack(kept, format="csr"), dtype=np.float32)

    def fingerprint(self) -> str:
        """As `own.saved.fingerprint` of the graph that the file holds."""
        dense = "attr_dense" in self._members
        parts = ["attr_dense"] if dense else ["attr_data", "attr_indices", "attr_indptr"]
        with self._broken(), self._open() as archive:
            arrays = (
                piece
                for name in ("adj_data", "adj_indices", "adj_indptr", *parts, "labels")
                for piece in _Member(archive, name).pieces()
            )
            names = self.names(np.arange(self.nodes)) if "node_names" in self._members else None
            return fingerprint_of(arrays, self.class_names, names, (self.nodes, self.features))

    def names(self, nodes: np.ndarray) -> list[str]:
        """What some nodes, in order, are called."""
        if "node_names" not in self._members:
            return [str(node) for node in nodes]
        with self._broken(), self._open() as archive:
            found, first = [], 0
            for piece in _Member(archive, "node_names").pieces():
                here = nodes[(nodes >= first) & (nodes < first + len(piece))] - first
                found += [str(name) for name in piece[here]]
                first += len(piece)
            return found

    def save(self, folder: Path, fitted: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn train --out` does, with a copy of the archive."""
        shutil.copyfile(self.path, folder / GRAPH)
        describe(folder, fitted, name=name, graph=self.fingerprint(), schema=TableSchema(directed=self.directed))

    def _check(self, columns: np.ndarray, values: np.ndarray, pointers: np.ndarray, *, width: int) -> None:
        """Whether rows are as `write_npz` writes them: in order, nothing twice, no zero."""
        if values.dtype != np.float32 or columns.dtype != np.int32 or pointers.dtype != np.int32:
            raise ValueError("matrices must hold float32, their places int32")
        if not len(columns):
            return
        if not 0 <= columns.min() <= columns.max() < width:
            raise ValueError(f"places must be from 0 to {width - 1}")
        rising = np.diff(columns) > 0
        starts = pointers[1:-1] - pointers[0]
        rising[starts[(starts > 0) & (starts < len(columns))] - 1] = True
        if not rising.all() or not np.isfinite(values).all() or (values == 0).any():
            raise ValueError("rows must be in order, without zeros, and finite")

    def _shape(self, archive: zipfile.ZipFile) -> Any:
        if "attr_dense" in self._members:
            return _Member(archive, "attr_dense").shape
        return self._whole(archive, "attr_shape")

    def _whole(self, archive: zipfile.ZipFile, name: str) -> np.ndarray:
        member = _Member(archive, name)
        return member.read(int(np.prod(member.shape))).reshape(member.shape)

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        try:
            file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise MissingFile(f"{self.path} must be a graph archive, but cannot be read ({error.strerror}).") from error
        with file, zipfile.ZipFile(file) as archive:
            yield archive

    @contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except (ApgcnError, OSError, MemoryError):
            raise
        except Exception as error:  # a damaged archive can fail in a dozen ways: zip, zlib, header, shapes
            raise BrokenFile(
                f"{self.path} is not an archive that `write_npz` wrote ({type(error).__name__}: {error})."
            ) from error


class _Member:
    """An array of an archive, read from the front; nothing is unpickled."""

    def __init__(self, archive: zipfile.ZipFile, name: str):
        self._file = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self._file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, by_columns, self._dtype = read(self._file)
        self.kind = self._dtype.kind
        if self._dtype.hasobject or (by_columns and len(self.shape) > 1) or min(self.shape, default=0) < 0:
            raise ValueError(f"{name} must hold plain numbers, row by row")

    def pieces(self) -> Iterator[np.ndarray]:
        """All values, in pieces."""
        left = int(np.prod(self.shape))
        while left:
            piece = self.read(min(left, PIECE))
            left -= len(piece)
            yield piece

    def read(self, count: int) -> np.ndarray:
        """The next values."""
        size = count * self._dtype.itemsize
        content = self._file.read(size)
        if len(content) < size:
            raise EOFError("the file ends too early")
        return np.frombuffer(content, self._dtype)


def _check_pointers(pointers: np.ndarray) -> None:
    if pointers.ndim != 1 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
        raise ValueError("row pointers must rise from 0")


def _trace(first: np.ndarray, second: np.ndarray, values: np.ndarray) -> int:
    """A sum over edges from first to second that, turned round, is another one, but for a chance of 2^-64."""
    with np.errstate(over="ignore"):
        words = first.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + second.astype(np.uint64)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words ^= words >> np.uint64(27)
        return int((words * (values.view(np.uint32).astype(np.uint64) | np.uint64(1))).sum(dtype=np.uint64))


def _pieces(pointers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Rows from first to last, in pieces of about as many entries."""
    rows, first = len(pointers) - 1, 0
    while first < rows:
        last = int(np.searchsorted(pointers, pointers[first] + PIECE, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last
