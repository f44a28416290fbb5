"""The right-heavy grammar as plain values and arrays: symbols, trees, lengths, and the compiled kernels.

No torch: whatever runs a model, in torch or on onnxruntime, decodes with what is here.
"""
