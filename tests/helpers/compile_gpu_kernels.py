"""Compile every kernel that a training step, an evaluation and a prediction launch, on a machine without a GPU.

Nothing is computed: the kernels' outputs hold whatever their memory held. `tests/ops/test_gpu_compilation.py` runs it.
"""

import inspect
from dataclasses import replace

import numpy as np
import torch
import triton
from scipy import sparse
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import apgcn.ops.kernels.gpu as gpu
from apgcn import Run, Split, TrainingConfig
from apgcn.models.registry import MODELS
from apgcn.ops import dispatch
from apgcn.ops.binary import BinaryForm
from apgcn.ops.device_graph import Adjacency, DeviceGraph, features_to_device
from apgcn.training.trainer import BatchedTrainer
from helpers.graphs import random_graph

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.uint8: "*u8",
}
compiled = set()


def compile_kernel(kernel, *args, grid, warmup, **kwargs):
    """Compile for these arguments what `kernel[grid](...)` would launch."""
    options = {name: kwargs.pop(name) for name in ("num_warps", "num_stages") if name in kwargs}
    arguments = inspect.signature(kernel.fn).bind(*args, **kwargs).arguments
    constants = {parameter.name: arguments[parameter.name] for parameter in kernel.params if parameter.is_constexpr}
    signature = {name: "constexpr" if name in constants else argument_type(value) for name, value in arguments.items()}
    key = kernel.fn.__name__, tuple(signature.items()), tuple((name, str(value)) for name, value in constants.items())
    if key not in compiled:
        compiled.add(key)
        triton.compile(ASTSource(kernel, signature, constants), target=TARGET, options=options)


def argument_type(value):
    """The type of an argument, as Triton writes it."""
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def train(graph, name, **options):
    """One step, one evaluation and the outputs of a model."""
    split = Split(*np.split(np.arange(30), [9, 18, 24]), seed=0)
    trainer = BatchedTrainer(graph, [Run(split)] * 2, MODELS[name](**options), TrainingConfig())
    trainer.begin_epoch()
    trainer.step()
    trainer.evaluate_and_snapshot()
    trainer.best_outputs()


def main():
    """Compile the kernels of all models, and those of AP-GCN's other settings and other graphs."""
    JITFunction.run = compile_kernel
    dispatch._load_kernels = lambda device: gpu
    graph = random_graph(30, edges=60)
    dense = DeviceGraph.from_graph(graph)
    features = sparse.csr_matrix((graph.features > 0).astype(np.float32))
    sparse_features = replace(dense, features=features_to_device(features, device="cpu"))
    form = BinaryForm.from_matrix(features, device="cpu")
    binary_features = replace(sparse_features, features=replace(sparse_features.features, binary_form=form))
    weighted = replace(dense, adjacency=Adjacency(graph.adjacency * 2, device="cpu", dtype=torch.float32))
    for name, config in MODELS.items():
        if config.has_weights:
            train(sparse_features, name)
    for name in ("apgcn", "gcn"):
        train(binary_features, name)
        train(dense, name)
    train(dense, "apgcn", freeze_halted=True, edge_dropout=0.3)
    train(weighted, "apgcn")
    print(*sorted({name for name, *_ in compiled}))


if __name__ == "__main__":
    main()
