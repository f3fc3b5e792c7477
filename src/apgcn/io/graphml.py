"""How are GraphML files read and written? By networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from apgcn._utils.atomic import write_whole
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.build_graph import ReadGraph, TableSchema
from apgcn.io.networkx import from_networkx, networkx_package, to_networkx


def read_graphml(path: Path, schema: TableSchema = TableSchema(), **trained: Any) -> ReadGraph:
    """Read a graph with the attributes of its nodes and edges; `trained` is as in `build_graph`."""
    nx = networkx_package()
    path = Path(path)
    if path.is_dir():
        raise InvalidInput(f"{path} must be a GraphML file, but it is a folder; name a file in it.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a GraphML file, but there is no such file.") from None
    except OSError as error:
        raise InvalidInput(f"{path} must be readable, but it is not ({error.strerror}).") from error
    _Door(path).check(content)
    try:
        graph = nx.parse_graphml(content, force_multigraph=False)
    except Exception as error:  # networkx tells of a strange file in many ways
        raise InvalidInput(f"{path} must be a GraphML file, but cannot be read as one ({error!r}).") from error
    return from_networkx(graph, schema, name=str(path), **trained)


class _Door:
    """Looks at a file before networkx does, which would add nodes that nobody declared and merge those of one name."""

    def __init__(self, path: Path):
        self._path = path
        self._graphs = 0
        self._nodes: dict[str, int] = {}
        self._ends: list[tuple[str, int]] = []
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._element

    def check(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise InvalidInput(f"{self._path}, line {error.lineno} must be XML, but is not ({error}).") from None
        except InvalidInput:
            raise
        except (LookupError, ValueError) as error:
            raise InvalidInput(
                f"{self._path} must be in an encoding that is known ({error}); save it as UTF-8."
            ) from None
        if self._graphs != 1:
            raise InvalidInput(f"{self._path} must hold one graph, but holds {self._graphs}.")
        for end, line in self._ends:
            if end not in self._nodes:
                raise InvalidInput(
                    f"{self._path}, line {line} must have a declared node at each end, got {end!r}; add a <node>."
                )

    def _doctype(self, *_: object) -> None:
        raise InvalidInput(f"{self._path} must not define entities of its own; take the DOCTYPE out.")

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        kind = name.rpartition(":")[2]
        self._graphs += kind == "graph"
        if kind == "node":
            own = attributes.get("id", "")
            if own in self._nodes:
                raise InvalidInput(
                    f"{self._path}, line {line} must have an id of its own, but {own!r} is also in line "
                    f"{self._nodes[own]}."
                )
            self._nodes[own] = line
        elif kind == "edge":
            self._ends += [(attributes.get(end, ""), line) for end in ("source", "target")]


def write_graphml(path: Path, graph: Graph) -> None:
    """Write a graph, whole or not at all."""
    nx = networkx_package()
    write_whole(Path(path), lambda file: nx.write_graphml(to_networkx(graph), file))
