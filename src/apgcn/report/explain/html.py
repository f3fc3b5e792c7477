"""The page about a trained model, from its payload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apgcn._utils.atomic import atomic_write
from apgcn.report.page import render_page

FOLDER = Path(__file__).parent
PAGE_SUFFIXES = (".html", ".htm")


def render_explanation(payload: Mapping[str, Any]) -> str:
    """The page as HTML, from what `build_payload` returns."""
    body = (FOLDER / "page.html").read_text(encoding="utf-8")
    return render_page(FOLDER, title="Propagation steps per node", body=body, payload=payload)


def write_explanation(path: Path, payload: Mapping[str, Any]) -> None:
    """Write the page to a file, completely or not at all; an existing file is replaced."""
    text = render_explanation(payload)
    atomic_write(Path(path), lambda file: file.write(text.encode()))
