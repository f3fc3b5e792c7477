"""`apgcn datasets`: list the benchmark graphs."""

from __future__ import annotations

import json
from dataclasses import asdict

from apgcn.cli import render
from apgcn.cli.options import AsJSON


def datasets(as_json: AsJSON = False) -> None:
    """List the benchmark graphs: counts after cleaning, citation, and the file or the address it is downloaded from."""
    from apgcn.data.download import find_file
    from apgcn.data.registry import DATASETS
    from apgcn.models.presets import preset_values

    places = {
        name: "embedded" if dataset.embedded else str(find_file(dataset) or "") for name, dataset in DATASETS.items()
    }
    if not as_json:
        render.dataset_list(DATASETS, places)
        return
    entries = [
        {
            **asdict(dataset),
            "file_name": dataset.file_name,
            "path": places[name] or None,
            "paper": {key: sourced.value for key, sourced in preset_values("apgcn", name, "paper").items()},
        }
        for name, dataset in DATASETS.items()
    ]
    print(json.dumps({"datasets": entries}))
