"""How does the content become one file that asks the network for nothing?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apgcn._utils.atomic import write_whole

HERE = Path(__file__).parent


def page(content: Mapping[str, Any]) -> str:
    """The page as HTML. What users wrote stays inside a JSON text, from which no markup can break out."""
    told = json.dumps(content, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")
    text = (HERE / "page.html").read_text(encoding="utf-8")
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    for mark, part in (("/*STYLE*/", style), ("/*SCRIPT*/", script), ("/*DATA*/", told)):
        before, after = text.split(mark)
        text = before + part + after
    return text


def write_page(path: Path, content: Mapping[str, Any]) -> None:
    """Write the page whole or not at all; a page that is there is replaced."""
    text = page(content)
    write_whole(Path(path), lambda file: file.write(text.encode()))
