"""The grammar's dynamic programs on a GPU: kernels apart from the host code that calls them."""
