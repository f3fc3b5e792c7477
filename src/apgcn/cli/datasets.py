"""`apgcn datasets`: list the catalogue."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from apgcn.cli import render


def datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """List the benchmark graphs: counts after cleaning, citation, and where each file is or would come from."""
    from apgcn.data.download import find
    from apgcn.data.registry import CATALOGUE
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.models.presets import preset_values

    found = {name: "embedded" if dataset.embedded else str(find(dataset) or "") for name, dataset in CATALOGUE.items()}
    if as_json:
        listed = [
            {
                **asdict(dataset),
                "file_name": dataset.file_name,
                "found": found[name] or None,
                "paper": {key: one.value for key, one in preset_values(APGCNConfig, name, "paper").items()},
            }
            for name, dataset in CATALOGUE.items()
        ]
        print(json.dumps({"datasets": listed}))
    else:
        render.catalogue(CATALOGUE, found)
