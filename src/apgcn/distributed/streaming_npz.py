"""Shards of an .npz archive that may be larger than the memory of a rank: it is read in chunks.

Archives are those of `apgcn.data.npz.write_npz`. Labels, row pointers and offsets of names are read
completely: a few bytes per node.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from apgcn._utils.limits import check_decompressed_size
from apgcn.data.npz import check_offsets, decode_names
from apgcn.distributed.graph_shard import EdgeChunks, GraphShard, shard_adjacency
from apgcn.distributed.partition import partition_blocks, partition_metis
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput, MissingFile
from apgcn.inference.bundle import GRAPH_FILE, fingerprint_arrays, write_model
from apgcn.inference.trained_model import TrainedModel
from apgcn.io.schema import TableSchema

ARRAYS = {
    "adj_indices",
    "adj_data",
    "attr_dense",
    "attr_indptr",
    "attr_indices",
    "attr_data",
    "node_names",
    "node_names_offsets",
}
CHUNK_SIZE = 2**22  # entries of an array that are read at once


class NpzSource:
    """A graph in an .npz archive, of which every rank reads its shard.

    Unless it is directed, the archive must have every edge in both directions.

    Attributes
    ----------
    num_nodes, num_directed_edges, num_features : int
    labels : array of shape (nodes,)
    class_names : tuple of str
    digest : str
        Equal for two files with the same arrays.
    """

    def __init__(self, path: Path, *, directed: bool = False):
        self.path, self.directed = Path(path), directed
        with self._reading(), self._open() as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            self.digest = "".join(
                f"{name} {member.CRC:08x} {member.file_size}\n" for name, member in sorted(members.items())
            )
            self._arrays = set(members)
            shapes = {name: _ArrayReader(archive, name).shape for name in members if name in ARRAYS}
            self.labels = self._read(archive, "labels")
            self._indptr = self._read(archive, "adj_indptr")
            _check_indptr(self._indptr)
            self.class_names = tuple(self._names(archive, "class_names"))
            if "node_names" in members and _ArrayReader(archive, "node_names").kind != "U":
                raise ValueError("node_names must be strings")
            self._rows, self.num_features = map(int, self._features_shape(archive))
        self.num_nodes, self.num_directed_edges = len(self._indptr) - 1, int(self._indptr[-1])
        self.notes: list[str] = []
        with self._reading():
            self._check_shapes(shapes)

    def _check_shapes(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise unless the arrays fit together, as far as their headers show it."""
        nnz = (int(self._indptr[-1]),)
        for name, expected in (
            ("adj_indices", nnz),
            ("adj_data", nnz),
            ("attr_dense", (self.num_nodes, self.num_features)),
            ("attr_indptr", (self.num_nodes + 1,)),
            ("attr_data", shapes.get("attr_indices")),
            ("node_names", (self.num_nodes,)),
            ("node_names_offsets", (self.num_nodes + 1,)),
        ):
            if name in shapes and shapes[name] != expected:
                raise ValueError(f"{name} must have shape {expected}, got {shapes[name]}")
        if "attr_shape" in self._arrays and self._rows != self.num_nodes:
            raise ValueError(f"there must be features of {self.num_nodes} nodes, got {self._rows}")
        if self.labels.dtype != np.int64 or self.labels.shape != (self.num_nodes,) or not self.num_nodes:
            raise ValueError(f"labels must be an int64 for each of {self.num_nodes} nodes")
        if not -1 <= self.labels.min() <= self.labels.max() < len(self.class_names):
            raise ValueError(f"labels must be from -1 to {len(self.class_names) - 1}")
        if self.num_features < 1:
            raise ValueError("nodes must have features")

    def partition(self, num_parts: int, method: str) -> np.ndarray:
        """The part of every node, (nodes,)."""
        if method == "blocks":
            return partition_blocks(self._indptr, num_parts)
        with self._reading(), self._open() as archive:
            indices = self._read(archive, "adj_indices")
            if indices.size and not 0 <= indices.min() <= indices.max() < self.num_nodes:
                raise ValueError(f"indices must be from 0 to {self.num_nodes - 1}")
            ones = np.ones(len(indices), np.int8)
            matrix = sparse.csr_matrix((ones, indices, self._indptr), shape=(self.num_nodes, self.num_nodes))
        return partition_metis(matrix, num_parts)

    def shard(self, partition: np.ndarray, rank: int) -> GraphShard:
        """The rows of a rank."""
        nodes = np.flatnonzero(partition == rank)
        with self._reading(), self._open() as archive:
            adjacency, halo_nodes = shard_adjacency(self._edges(archive), partition, rank)
            features = self._features(archive, partition == rank)
        return GraphShard(nodes, halo_nodes, adjacency, features, self.labels[nodes])

    def _edges(self, archive: zipfile.ZipFile) -> EdgeChunks:
        """All edges in chunks; raises at the end if an undirected graph lacks edges of one direction."""
        readers = _ArrayReader(archive, "adj_indices"), _ArrayReader(archive, "adj_data")
        forward = backward = 0
        for first, last in _row_chunks(self._indptr):
            indptr = self._indptr[first : last + 1]
            targets, weights = (reader.read(int(indptr[-1] - indptr[0])) for reader in readers)
            _check_rows(targets, weights, indptr, width=self.num_nodes)
            if (weights < 0).any():
                raise ValueError("edge weights must be > 0")
            sources = np.repeat(np.arange(first, last), np.diff(indptr))
            forward += _hash_edges(sources, targets, weights)
            backward += _hash_edges(targets, sources, weights)
            yield sources, targets, weights
        if (forward - backward) % 2**64 and not self.directed:
            raise InvalidInput(
                f"{self.path} must hold every edge in both directions with the same weight, but does not; pass "
                "--directed, or write it again after apgcn.data.transforms.to_undirected."
            )

    def _features(self, archive: zipfile.ZipFile, is_local: np.ndarray) -> sparse.csr_matrix | np.ndarray:
        """The feature rows of a rank; `is_local` (nodes,) marks its nodes."""
        if "attr_dense" in self._arrays:
            reader = _ArrayReader(archive, "attr_dense")
            rows = max(1, CHUNK_SIZE // self.num_features)
            dense_chunks = []
            for first in range(0, self.num_nodes, rows):
                mask = is_local[first : first + rows]
                dense_chunks.append(reader.read(self.num_features * len(mask)).reshape(-1, self.num_features)[mask])
            dense = np.concatenate(dense_chunks)
            if dense.dtype != np.float32 or not np.isfinite(dense).all():
                raise ValueError("features must be finite float32")
            return dense
        indptr = self._read(archive, "attr_indptr")
        _check_indptr(indptr)
        readers = _ArrayReader(archive, "attr_indices"), _ArrayReader(archive, "attr_data")
        chunks: list[sparse.csr_matrix] = []
        for first, last in _row_chunks(indptr):
            chunk_indptr = indptr[first : last + 1]
            indices, values = (reader.read(int(chunk_indptr[-1] - chunk_indptr[0])) for reader in readers)
            _check_rows(indices, values, chunk_indptr, width=self.num_features)
            chunk = sparse.csr_matrix(
                (values, indices, chunk_indptr - chunk_indptr[0]), shape=(last - first, self.num_features)
            )
            chunks.append(chunk[is_local[first:last]])
        return sparse.csr_matrix(sparse.vstack(chunks, format="csr"), dtype=np.float32)

    def fingerprint(self) -> str:
        """The fingerprint of the graph in the archive, equal to `apgcn.inference.bundle.fingerprint` of it."""
        is_dense = "attr_dense" in self._arrays
        feature_arrays = ["attr_dense"] if is_dense else ["attr_data", "attr_indices", "attr_indptr"]
        with self._reading(), self._open() as archive:
            arrays = (
                chunk
                for name in ("adj_data", "adj_indices", "adj_indptr", *feature_arrays, "labels")
                for chunk in _ArrayReader(archive, name).chunks()
            )
            node_names = self.node_ids(np.arange(self.num_nodes)) if self._has_node_names else None
            return fingerprint_arrays(arrays, self.class_names, node_names, (self.num_nodes, self.num_features))

    def node_ids(self, nodes: np.ndarray) -> list[str]:
        """The ids of nodes, given by ascending indices."""
        if not self._has_node_names:
            return [str(node) for node in nodes]
        with self._reading(), self._open() as archive:
            is_requested = np.zeros(self.num_nodes, dtype=bool)
            is_requested[nodes] = True
            return list(compress(self._names(archive, "node_names"), is_requested))

    @property
    def _has_node_names(self) -> bool:
        return not self._arrays.isdisjoint({"node_names", "node_names_offsets"})

    def _names(self, archive: zipfile.ZipFile, member: str) -> Iterator[str]:
        """All names of nodes or classes, read in chunks."""
        if f"{member}_offsets" in self._arrays:
            offsets, reader = self._read(archive, f"{member}_offsets"), _ArrayReader(archive, f"{member}_bytes")
            check_offsets(offsets)
            for first, last in _row_chunks(offsets):
                chunk = offsets[first : last + 1] - offsets[first]
                yield from decode_names(reader.read(int(chunk[-1])).tobytes(), chunk.tolist())
            return
        reader = _ArrayReader(archive, member)
        if len(reader.shape) != 1 or reader.kind != "U":
            raise ValueError(f"{member} must be strings")
        for strings in reader.chunks():
            yield from map(str, strings)

    def save(self, folder: Path, model: TrainedModel, *, name: str) -> None:
        """Write a model of this graph as `apgcn fit --out` does, with a copy of the archive."""
        shutil.copyfile(self.path, folder / GRAPH_FILE)
        schema = TableSchema(directed=self.directed)
        write_model(
            folder, model, graph_name=name, graph_fingerprint=self.fingerprint(), schema=schema, notes=self.notes
        )

    def _features_shape(self, archive: zipfile.ZipFile) -> Any:
        if "attr_dense" in self._arrays:
            return _ArrayReader(archive, "attr_dense").shape
        return self._read(archive, "attr_shape")

    def _read(self, archive: zipfile.ZipFile, name: str) -> np.ndarray:
        """A complete array; one that does not fit into memory is refused before it is read."""
        check_decompressed_size(self.path, archive.getinfo(f"{name}.npy").file_size)
        reader = _ArrayReader(archive, name)
        return reader.read(int(np.prod(reader.shape))).reshape(reader.shape)

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        try:
            file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise MissingFile(f"{self.path} must be a graph archive, but cannot be read ({error.strerror}).") from error
        with file, zipfile.ZipFile(file) as archive:
            yield archive

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn any failure to read the archive into `BrokenFile`."""
        try:
            yield
        except (ApgcnError, OSError, MemoryError):
            raise
        except Exception as error:  # a damaged archive can fail in a dozen ways: zip, zlib, header, shapes
            raise BrokenFile(
                f"{self.path} is not an archive that `write_npz` wrote ({type(error).__name__}: {error})."
            ) from error


class _ArrayReader:
    """Reads an array of an archive from front to back; nothing is unpickled."""

    def __init__(self, archive: zipfile.ZipFile, name: str):
        self._file = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self._file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, fortran_order, self._dtype = read_header(self._file)
        self.kind = self._dtype.kind
        if self._dtype.hasobject or (fortran_order and len(self.shape) > 1) or min(self.shape, default=0) < 0:
            raise ValueError(f"{name} must be an array of numbers or strings in C order")

    def chunks(self) -> Iterator[np.ndarray]:
        """All values in chunks."""
        left = int(np.prod(self.shape))
        while left:
            chunk = self.read(min(left, CHUNK_SIZE))
            left -= len(chunk)
            yield chunk

    def read(self, count: int) -> np.ndarray:
        """The next `count` values."""
        size = count * self._dtype.itemsize
        content = self._file.read(size)
        if len(content) < size:
            raise EOFError("the file ends too early")
        return np.frombuffer(content, self._dtype)


def _check_indptr(indptr: np.ndarray) -> None:
    if indptr.ndim != 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError("row pointers must rise from 0")


def _check_rows(indices: np.ndarray, values: np.ndarray, indptr: np.ndarray, *, width: int) -> None:
    """Raise unless CSR rows are as `write_npz` writes them: sorted, without duplicates and without zeros."""
    if values.dtype != np.float32 or indices.dtype != np.int32 or indptr.dtype != np.int32:
        raise ValueError("matrices must hold float32, their indices int32")
    if not len(indices):
        return
    if not 0 <= indices.min() <= indices.max() < width:
        raise ValueError(f"indices must be from 0 to {width - 1}")
    ascending = np.diff(indices) > 0
    starts = indptr[1:-1] - indptr[0]
    ascending[starts[(starts > 0) & (starts < len(indices))] - 1] = True  # a new row may begin with a smaller index
    if not ascending.all() or not np.isfinite(values).all() or (values == 0).any():
        raise ValueError("rows must be sorted, without zeros, and finite")


def _hash_edges(sources: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> int:
    """A sum of hashes over edges; that of the reversed edges differs, but for a probability of 2^-64."""
    with np.errstate(over="ignore"):
        bits = sources.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + targets.astype(np.uint64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits ^= bits >> np.uint64(27)
        return int((bits * (weights.view(np.uint32).astype(np.uint64) | np.uint64(1))).sum(dtype=np.uint64))


def _row_chunks(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last row of chunks with about `CHUNK_SIZE` entries each."""
    rows, first = len(indptr) - 1, 0
    while first < rows:
        last = int(np.searchsorted(indptr, indptr[first] + CHUNK_SIZE, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last
