"""`apgcn export`: a trained model for another runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli.predict import MODEL


def export(
    model: MODEL,
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
) -> None:
    """Write the model as ONNX: x, edge_index and edge_weight in, probabilities and steps out, for any graph."""
    from apgcn.io.whole import file_to_write
    from apgcn.own.onnx_files import write_onnx
    from apgcn.own.saved import load_model

    place = file_to_write(onnx, option="--onnx", example="model.onnx")
    saved = load_model(model)
    names = saved.encoding.feature_names if saved.encoding else ()
    write_onnx(place, saved.fitted, feature_names=names)
    print(f"{saved.fitted.features:,} features in, {len(saved.fitted.class_names)} classes and steps out: {onnx}")
