"""Fused kernels for operations that PyTorch has no single call for.

* `autograd`: autograd functions that run the kernels of a device, forward and backward. Start here.
* `cpu`: kernels compiled by numba.
* `gpu`: kernels compiled by Triton.

`apgcn.ops.dispatch` chooses between the two and the PyTorch reference. Both packages have the same functions; the
docstring of each module names the reference of its kernels and the test that compares them, in
`tests/ops/test_kernels.py` where nothing else is stated.
"""

from apgcn.ops.kernels.autograd import FusedAdaptivePropagation, HaltingParameters, PropagationMatrices, SparseLinear

__all__ = ["FusedAdaptivePropagation", "HaltingParameters", "PropagationMatrices", "SparseLinear"]
