"""Graphs as NumPy archives (.npz) that hold the arrays of CSR matrices, as the benchmark graphs are published.

Two naming schemes are in use: `adj_data, adj_indices, ...` (gnn-benchmark) and `adj_matrix.data, ...` (PPNP). Some
archives also hold pickled members; those are never opened. `write_npz` stores names as UTF-8 bytes and offsets, because
an array of strings pads each to the longest. Archives of apgcn 0.2 and earlier, with arrays of strings, stay readable.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn._utils.atomic import atomic_write
from apgcn._utils.limits import check_decompressed_size
from apgcn.data.graph import Graph, check_csr
from apgcn.errors import BrokenFile, InvalidInput, MissingFile


def read_npz(path: Path, *, name: str | None = None) -> Graph:
    """Read a graph as stored, without preprocessing; the weights of an edge that is stored twice are added.

    A graph may have no features; it then has a matrix of features with no columns.

    Raises
    ------
    BrokenFile
        If it is not a NumPy archive, or lacks the arrays of a graph.
    MissingFile
        If it does not exist.
    """
    return read_npz_and_edges(path, name=name)[0]


def read_npz_and_edges(path: Path, *, name: str | None = None) -> tuple[Graph, sparse.csr_matrix | np.ndarray]:
    """`read_npz`, and the matrix of edges as stored: an edge may occur twice in it."""
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            check_archive_size(path, archive.zip)
            edges = _matrix(archive, "adj")
            has_features = any(name.startswith("attr_") for name in archive.files)
            graph = Graph(
                adjacency=edges,
                features=_matrix(archive, "attr") if has_features else np.zeros((edges.shape[0], 0)),
                labels=archive["labels"],
                name=name or path.stem,
                class_names=_names(archive, "class_names"),
                node_names=_names(archive, "node_names") or None,
            )
            return graph, edges
    except FileNotFoundError as error:
        raise MissingFile(f"{path} must be a graph archive, but there is no such file.") from error
    except InvalidInput as error:
        raise BrokenFile(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive can fail in many ways: zip, zlib, header, shapes
        raise BrokenFile(f"{path} is not a graph archive ({type(error).__name__}: {error}).") from error


def check_archive_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise `InvalidInput` unless the arrays of an archive, which may be highly compressed, fit into memory."""
    check_decompressed_size(path, sum(member.file_size for member in archive.infolist()))


def write_npz(path: Path, graph: Graph) -> None:
    """Write a graph that `read_npz` reads back; the write is atomic."""
    members = {"labels": graph.labels, **_name_arrays("class_names", graph.class_names)}
    if graph.node_names is not None:
        members |= _name_arrays("node_names", graph.node_names)
    for prefix, matrix in (("adj", graph.adjacency), ("attr", graph.features)):
        if isinstance(matrix, np.ndarray):
            members[f"{prefix}_dense"] = matrix
        else:
            arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
            members |= {f"{prefix}_{part}": np.asarray(array) for part, array in arrays.items()}
    atomic_write(Path(path), lambda file: np.savez_compressed(file, allow_pickle=False, **members))


def _matrix(archive, prefix: str) -> sparse.csr_matrix | np.ndarray:
    if f"{prefix}_dense" in archive.files:
        return archive[f"{prefix}_dense"]
    for stem in (f"{prefix}_matrix.", f"{prefix}_"):
        if f"{stem}data" in archive.files:
            data, indices, indptr = (archive[f"{stem}{part}"] for part in ("data", "indices", "indptr"))
            if not indices.dtype.kind == indptr.dtype.kind == "i":
                raise InvalidInput(f"{stem}indices and {stem}indptr must be integers.")
            matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(archive[f"{stem}shape"].tolist()))
            check_csr(matrix)
            return matrix
    raise InvalidInput(f"the archive must hold {prefix}_data or {prefix}_matrix.data, got {', '.join(archive.files)}.")


def check_offsets(offsets: np.ndarray) -> None:
    """Raise ValueError unless these can be the offsets of names: integers that rise from 0."""
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or not len(offsets) or offsets[0] != 0:
        raise ValueError("offsets of names must be integers from 0")
    if (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets of names must rise")


def decode_names(content: bytes, offsets: Sequence[int]) -> list[str]:
    """The names in UTF-8 bytes; name i has those from offset i to offset i + 1."""
    return [content[start:end].decode(errors="surrogatepass") for start, end in pairwise(offsets)]


def _name_arrays(member: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    encoded = [name.encode(errors="surrogatepass") for name in names]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{member}_offsets": offsets, f"{member}_bytes": np.frombuffer(b"".join(encoded), np.uint8)}


def _names(archive, member: str) -> tuple[str, ...]:
    """The names of nodes or classes; none if they are missing, pickled or not text."""
    if f"{member}_offsets" in archive.files:
        offsets, content = archive[f"{member}_offsets"], archive[f"{member}_bytes"]
        check_offsets(offsets)
        if content.dtype != np.uint8 or content.shape != (offsets[-1],):
            raise InvalidInput(f"{member}_bytes must have {offsets[-1]} bytes, got {content.dtype} {content.shape}.")
        return tuple(decode_names(content.tobytes(), offsets.tolist()))
    if member not in archive.files:
        return ()
    try:
        values = archive[member]
    except ValueError:  # pickled
        return ()
    if values.dtype.kind == "S":
        return tuple(value.decode() for value in values.tolist())
    return tuple(str(value) for value in values) if values.dtype.kind == "U" else ()
