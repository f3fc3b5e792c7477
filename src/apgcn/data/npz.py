"""How are the benchmark graphs stored, and ours? As the arrays of CSR matrices in one NumPy archive.

Two spellings are in use: `adj_data, adj_indices, ...` (gnn-benchmark) and `adj_matrix.data, ...` (PPNP). Some archives
also hold pickled members; those are never opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn._utils.atomic import write_whole
from apgcn.data.graph import Graph, check_csr
from apgcn.errors import BrokenFile, InvalidInput, MissingFile


def read_npz(path: Path, *, name: str | None = None) -> Graph:
    """Read a graph, as it lies in the file, without cleaning it.

    Raises
    ------
    BrokenFile
        If it is not a NumPy archive, or lacks the arrays of a graph.
    MissingFile
        If it is not there.
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
    except Exception as error:  # a damaged archive can fail in a dozen ways: zip, zlib, header, shapes
        raise BrokenFile(f"{path} is not a graph archive ({type(error).__name__}: {error}).") from error


def write_npz(path: Path, graph: Graph) -> None:
    """Write a graph, so that `read_npz` reads the same; whole or not at all."""
    members: dict[str, np.ndarray] = {"labels": graph.labels, "class_names": np.array(graph.class_names, dtype=np.str_)}
    if graph.node_names is not None:
        members["node_names"] = np.array(graph.node_names, dtype=np.str_)
    for prefix, matrix in (("adj", graph.adjacency), ("attr", graph.features)):
        if isinstance(matrix, np.ndarray):
            members[f"{prefix}_dense"] = matrix
        else:
            arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
            members |= {f"{prefix}_{part}": np.asarray(array) for part, array in arrays.items()}
    write_whole(Path(path), lambda file: np.savez_compressed(file, allow_pickle=False, **members))


def _matrix(archive, prefix: str) -> sparse.csr_matrix | np.ndarray:
    if f"{prefix}_dense" in archive.files:
        return archive[f"{prefix}_dense"]
    for stem in (f"{prefix}_matrix.", f"{prefix}_"):
        if f"{stem}data" in archive.files:
            data, indices, pointers = (archive[f"{stem}{part}"] for part in ("data", "indices", "indptr"))
            if not indices.dtype.kind == pointers.dtype.kind == "i":
                raise InvalidInput(f"{stem}indices and {stem}indptr must be whole numbers.")
            matrix = sparse.csr_matrix((data, indices, pointers), shape=tuple(archive[f"{stem}shape"].tolist()))
            check_csr(matrix)
            return matrix
    raise InvalidInput(f"the archive must hold {prefix}_data or {prefix}_matrix.data, got {', '.join(archive.files)}.")


def _strings(archive, member: str) -> tuple[str, ...]:
    """The names in a member; none where it is missing, pickled or no text."""
    if member not in archive.files:
        return ()
    try:
        values = archive[member]
    except ValueError:  # pickled: left alone
        return ()
    return tuple(str(value) for value in values) if values.dtype.kind == "U" else ()
