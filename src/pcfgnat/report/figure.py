"""Figures by matplotlib, which is imported only when one is drawn."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = ("#1f5fa8", "#d1693a", "#3a8f5d", "#8a5fbf", "#b3912f", "#6b6b6b")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p")
MISSING = "figures need matplotlib: pip install 'pcfgnat[analysis]'"


class FigureError(ValueError):
    """A figure that cannot be drawn because matplotlib is not installed."""


def new_figure(width: float, height: float, constrained: bool = True) -> "Figure":
    """Return an empty figure of this size in inches; matplotlib places its parts if it is `constrained`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FigureError(MISSING) from error
    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None)
    FigureCanvasAgg(figure)
    return figure


def png(figure: "Figure", dpi: int = 130, tight: bool = False) -> bytes:
    """Return a PNG; equal figures give equal bytes. `tight` keeps what is drawn around the axes."""
    content = io.BytesIO()
    box = "tight" if tight else None
    figure.savefig(content, format="png", dpi=dpi, bbox_inches=box, metadata={"Software": None})
    return content.getvalue()


def plain_logarithm(axis: "Axis") -> None:
    """Label a logarithmic axis with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())
