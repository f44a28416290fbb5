"""The right-heavy probabilistic context-free grammar; README.md in this folder explains it."""
