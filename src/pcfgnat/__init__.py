"""Parallel translation with right-heavy probabilistic context-free grammars."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcfgnat.translator import Translator

__version__ = "0.1.0"
__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `Translator` when it is asked for: `import pcfgnat` alone stays fast."""
    if name != "Translator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pcfgnat.translator import Translator

    return Translator
