"""Graphs as NumPy archives (.npz) that hold the arrays of CSR matrices, as the benchmark graphs are published.

Two naming schemes are in use: `adj_data, adj_indices, ...` (gnn-benchmark) and `adj_matrix.data, ...` (PPNP). Some
archives also hold pickled members; those are never opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn._utils.atomic import atomic_write
from apgcn.data.graph import Graph, check_csr
from apgcn.errors import BrokenFile, InvalidInput, MissingFile


def read_npz(path: Path, *, name: str | None = None) -> Graph:
    """Read a graph as stored, without preprocessing.

    Raises
    ------
    BrokenFile
        If it is not a NumPy archive, or lacks the arrays of a graph.
    MissingFile
        If it does not exist.
    """
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return Graph(
                adjacency=_matrix(archive, "adj"),
                features=_matrix(archive, "attr"),
                labels=archive["labels"],
                name=name or path.stem,
                class_names=_strings(archive, "class_names"),
                node_names=_strings(archive, "node_names") or None,
            )
    except FileNotFoundError as error:
        raise MissingFile(f"{path} must be a graph archive, but there is no such file.") from error
    except InvalidInput as error:
        raise BrokenFile(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive can fail in many ways: zip, zlib, header, shapes
        raise BrokenFile(f"{path} is not a graph archive ({type(error).__name__}: {error}).") from error


def write_npz(path: Path, graph: Graph) -> None:
    """Write a graph that `read_npz` reads back; the write is atomic."""
    members: dict[str, np.ndarray] = {"labels": graph.labels, "class_names": np.array(graph.class_names, dtype=np.str_)}
    if graph.node_names is not None:
        members["node_names"] = np.array(graph.node_names, dtype=np.str_)
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


def _strings(archive, member: str) -> tuple[str, ...]:
    """The strings of a member; none if it is missing, pickled or not text."""
    if member not in archive.files:
        return ()
    try:
        values = archive[member]
    except ValueError:  # pickled
        return ()
    return tuple(str(value) for value in values) if values.dtype.kind == "U" else ()
