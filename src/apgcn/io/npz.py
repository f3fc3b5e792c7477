"""How are the benchmark graphs stored? As the arrays of CSR matrices in one NumPy archive.

Two spellings are in use: `adj_data, adj_indices, ...` (gnn-benchmark) and `adj_matrix.data, ...` (PPNP). Some archives
also hold pickled members; those are never opened.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from apgcn.errors import BrokenFile, InvalidInput
from apgcn.graph import Graph


def read_npz(path: Path, *, name: str | None = None) -> Graph:
    """Read a graph, as it lies in the file, without cleaning it.

    Raises
    ------
    BrokenFile
        If it is not a NumPy archive, or lacks the arrays of a graph.
    """
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return Graph(
                adjacency=_matrix(archive, "adj", path),
                features=_matrix(archive, "attr", path),
                labels=archive["labels"].astype(np.int64),
                name=name or path.stem,
                class_names=_strings(archive, "class_names"),
                node_names=_strings(archive, "node_names") or None,
            )
    except FileNotFoundError:
        raise
    except InvalidInput as error:
        raise BrokenFile(f"{path}: {error}") from error
    except (KeyError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BrokenFile(f"{path} is not a graph archive ({error}).") from error


def _matrix(archive, prefix: str, path: Path) -> sparse.csr_matrix:
    for stem in (f"{prefix}_matrix.", f"{prefix}_"):
        if f"{stem}data" in archive.files:
            parts = tuple(archive[f"{stem}{part}"] for part in ("data", "indices", "indptr"))
            return sparse.csr_matrix(parts, shape=tuple(archive[f"{stem}shape"]))
    raise InvalidInput(f"the archive must hold {prefix}_data or {prefix}_matrix.data, got {', '.join(archive.files)}.")


def _strings(archive, member: str) -> tuple[str, ...]:
    """The names in a member; none where it is missing, pickled or no text."""
    if member not in archive.files:
        return ()
    try:
        values = archive[member]
    except ValueError:  # pickled: left alone
        return ()
    return tuple(str(value).strip() for value in values) if values.dtype.kind == "U" else ()
