"""`apgcn export`: a trained model for another runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli.options import OUTPUT, AsJSON
from apgcn.cli.predict import ModelFolder


def export(
    model_folder: ModelFolder,
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.", rich_help_panel=OUTPUT)],
    as_json: AsJSON = False,
) -> None:
    """Write the model as ONNX: inputs x, edge_index and edge_weight of any graph, outputs probabilities and steps."""
    from apgcn._utils.atomic import resolve_output_file
    from apgcn.inference.bundle import load_model
    from apgcn.inference.onnx import write_onnx

    path = resolve_output_file(
        onnx, option="--onnx", example="model.onnx", protected=[model_folder], suffixes=[".onnx"]
    )
    bundle = load_model(model_folder)
    write_onnx(path, bundle.model, encoding=bundle.encoding, structure=bundle.structure)
    summary = {"features": bundle.model.num_features, "classes": len(bundle.model.class_names), "out": str(onnx)}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['features']:,} features in, {summary['classes']} classes and steps out: {onnx}")
