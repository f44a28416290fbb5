"""Whether the tests notice when the code is changed. See `run.py`."""
