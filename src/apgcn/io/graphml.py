"""GraphML files, read and written with networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from apgcn._utils.atomic import atomic_write
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, MissingFile
from apgcn.io.graph_builder import LoadedGraph
from apgcn.io.networkx import from_networkx, import_networkx, to_networkx
from apgcn.io.schema import TableSchema


def read_graphml(path: Path, schema: TableSchema = TableSchema(), **build_options: Any) -> LoadedGraph:
    """Read a graph with the attributes of its nodes and edges; `build_options` as in `read_graph`."""
    nx = import_networkx()
    path = Path(path)
    if path.is_dir():
        raise InvalidInput(f"{path} must be a GraphML file, but it is a folder; name a file in it.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a GraphML file, but there is no such file.") from None
    except OSError as error:
        raise InvalidInput(f"{path} must be readable, but it is not ({error.strerror}).") from error
    validator = _GraphMLValidator(path)
    validator.validate(content)
    start = validator.root_without_namespace
    if start is not None and content.startswith(b"<graphml", start):  # networkx needs the namespace
        content = content[:start] + content[start:].replace(b"<graphml", b"<graphml " + XMLNS, 1)
    try:
        graph = nx.parse_graphml(content, force_multigraph=False)
    except Exception as error:  # networkx raises many kinds of errors for an invalid file
        raise InvalidInput(f"{path} must be a GraphML file, but cannot be read as one ({error!r}).") from error
    return from_networkx(graph, schema, name=str(path), **build_options)


XMLNS = b'xmlns="http://graphml.graphdrawing.org/xmlns"'


class _GraphMLValidator:
    """Checks a file before networkx, which would add undeclared nodes and merge nodes with the same id."""

    def __init__(self, path: Path):
        self._path = path
        self.root_without_namespace: int | None = None  # place in the file
        self._num_graphs = 0
        self._node_lines: dict[str, int] = {}
        self._endpoints: list[tuple[str, int]] = []
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._reject_doctype
        self._parser.StartElementHandler = self._start_element

    def validate(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise InvalidInput(f"{self._path}, line {error.lineno} must be XML, but is not ({error}).") from None
        except InvalidInput:
            raise
        except (LookupError, ValueError) as error:
            raise InvalidInput(f"{self._path} must be in a known encoding ({error}); save it as UTF-8.") from None
        if self._num_graphs != 1:
            raise InvalidInput(f"{self._path} must contain one graph, but contains {self._num_graphs}.")
        for node_id, line in self._endpoints:
            if node_id not in self._node_lines:
                raise InvalidInput(
                    f"{self._path}, line {line} must have declared nodes as endpoints, got {node_id!r}; add a <node>."
                )

    def _reject_doctype(self, *_: object) -> None:
        raise InvalidInput(f"{self._path} must not define entities; remove the DOCTYPE.")

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        element = name.rpartition(":")[2]
        if name == "graphml" and "xmlns" not in attributes:
            self.root_without_namespace = self._parser.CurrentByteIndex
        self._num_graphs += element == "graph"
        if element == "node":
            node_id = attributes.get("id", "")
            if not node_id:
                raise InvalidInput(f"{self._path}, line {line} must have a node with an id, but it has none.")
            if node_id in self._node_lines:
                raise InvalidInput(
                    f"{self._path}, line {line} must have a unique node id, but {node_id!r} is also in line "
                    f"{self._node_lines[node_id]}."
                )
            self._node_lines[node_id] = line
        elif element == "edge":
            self._endpoints += [(attributes.get(end, ""), line) for end in ("source", "target")]


def write_graphml(path: Path, graph: Graph) -> None:
    """Write a graph atomically."""
    nx = import_networkx()
    atomic_write(Path(path), lambda file: nx.write_graphml(to_networkx(graph), file))
