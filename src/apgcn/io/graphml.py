"""How are GraphML files read and written? By networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from apgcn.errors import InvalidInput, MissingFile
from apgcn.graph import Graph
from apgcn.io.assembling import ReadGraph, Reading
from apgcn.io.networkx_graphs import from_networkx, networkx_package, to_networkx
from apgcn.io.whole import write_whole


def read_graphml(path: Path, reading: Reading = Reading(), **trained: Any) -> ReadGraph:
    """Read a graph with the attributes of its nodes and edges; `trained` is as in `assemble`."""
    nx = networkx_package()
    path = Path(path)
    if path.is_dir():
        raise InvalidInput(f"{path} must be a GraphML file, but it is a folder; name a file in it.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{path} must be a GraphML file, but there is no such file.") from None
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise InvalidInput(f"{path} must not define entities of its own; take them out.")
    try:
        graph = nx.parse_graphml(content, force_multigraph=False)
    except ElementTree.ParseError as error:
        raise InvalidInput(f"{path}, line {error.position[0]} must be XML, but is not ({error}).") from None
    except Exception as error:  # networkx tells of a strange file in many ways
        raise InvalidInput(f"{path} must be a GraphML file, but cannot be read as one ({error!r}).") from error
    return from_networkx(graph, reading, name=str(path), **trained)


def write_graphml(path: Path, graph: Graph) -> None:
    """Write a graph, whole or not at all."""
    nx = networkx_package()
    write_whole(Path(path), lambda file: nx.write_graphml(to_networkx(graph), file))
