"""Compiled kernels of whole networks in 8 bits."""
