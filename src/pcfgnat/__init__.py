"""Parallel translation with right-heavy probabilistic context-free grammars."""

import os

__version__ = "0.1.0"

# Dependencies that report to their vendors read these when they are imported, which happens later.
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
for _name, _value in NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)
