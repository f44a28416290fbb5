"""Parallel translation with right-heavy probabilistic context-free grammars."""

__version__ = "0.1.0"
