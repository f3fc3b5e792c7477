"""`apgcn export`: a trained model for another runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli.input_files import AS_JSON
from apgcn.cli.predict import MODEL


def export(
    model: MODEL,
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    as_json: AS_JSON = False,
) -> None:
    """Write the model as ONNX: x, edge_index and edge_weight in, probabilities and steps out, for any graph."""
    from apgcn._utils.atomic import file_to_write
    from apgcn.inference.bundle import load_model
    from apgcn.inference.onnx import write_onnx

    place = file_to_write(onnx, option="--onnx", example="model.onnx", spare=[model])
    saved = load_model(model)
    write_onnx(place, saved.fitted, encoding=saved.encoding)
    summary = {"features": saved.fitted.features, "classes": len(saved.fitted.class_names), "out": str(onnx)}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['features']:,} features in, {summary['classes']} classes and steps out: {onnx}")
