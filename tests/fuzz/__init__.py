"""Whatever a file says: it is read, or one clear error comes. See `run.py` for long runs."""
