"""The CTC recursion on a GPU."""
