"""Loops that PyTorch has no single call for, written out: by numba for a processor, by Triton for a GPU.

`loops` says whether there are any for a device; `tests/test_kernels.py` compares each with its plain twin.
"""
