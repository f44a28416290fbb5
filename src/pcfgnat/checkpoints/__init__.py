"""Trained networks as directories of plain files; what needs no torch is in `metadata` and `formats`."""
