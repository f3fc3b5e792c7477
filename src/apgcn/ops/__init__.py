"""Tensor operations over the run axis: sparse products, random streams, kernels."""
