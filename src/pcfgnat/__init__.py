"""Parallel translation with right-heavy probabilistic context-free grammars."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcfgnat.translator import Translator

__version__ = "0.2.0"
__all__ = ["Translator", "__version__"]

# Dependencies that report to their vendors read these when they are imported, which happens later.
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
for _name, _value in NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)


def __getattr__(name: str) -> Any:
    """Import `Translator` when it is asked for: `import pcfgnat` alone stays fast."""
    if name != "Translator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pcfgnat.translator import Translator

    return Translator
