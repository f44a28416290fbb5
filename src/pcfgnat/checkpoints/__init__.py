"""Trained networks on disk."""
