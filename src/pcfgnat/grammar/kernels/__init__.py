"""Kernels that numba compiles on the user's machine: arrays in, arrays out, one sentence after another.

The tables of all kernels are float64 logs, so that float32 inputs lose nothing over hundreds of positions.
"""
