"""Self-contained HTML pages: style, scripts and data in one file, which loads nothing from the network."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

POLICY = (  # no connections at all; plotly draws images from data and blob addresses
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)

HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
"""


def render_page(folder: Path, *, title: str, body: str, payload: Any, libraries: Sequence[str] = ()) -> str:
    """Page with a body, a JSON payload, and the `page.css` and `page.js` of a folder.

    Parameters
    ----------
    folder : Path
        Has the style and the script of the page. The script finds the payload in the element with the id "data".
    title : str
        Plain text; it is escaped.
    body : str
        HTML, with everything in it escaped.
    payload : JSON values
        Text of users in it cannot become markup.
    libraries : sequence of str
        JavaScript to run before the page's own.
    """
    style, script = (folder / name for name in ("page.css", "page.js"))
    scripts = [code.replace("\r\n", "\n") for code in (*libraries, script.read_text(encoding="utf-8"))]
    policy = POLICY.format(scripts=" ".join(map(_hash_source, scripts)))
    return "".join(
        [
            HEAD.format(policy=policy, title=escape(title), style=style.read_text(encoding="utf-8")),
            f"<body>\n{body}\n",
            f'<script type="application/json" id="data">{embed_json(payload)}</script>\n',
            *(f"<script>{code}</script>\n" for code in scripts),
            "</body>\n</html>\n",
        ]
    )


def _hash_source(code: str) -> str:
    """Source expression that allows this script, and no other, in a Content Security Policy."""
    return f"'sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def embed_json(value: Any) -> str:
    """JSON for the inside of a script element: no character in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")
