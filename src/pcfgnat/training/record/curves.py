"""The curves of a run as a picture."""

from collections.abc import Callable
from pathlib import Path

from pcfgnat.report.figure import COLOURS, FigureError, new_figure, png
from pcfgnat.storage.files import write_atomically
from pcfgnat.training.record.logs import CsvLog

PANELS = (("loss", "loss"), ("BLEU", "bleu"), ("learning rate", "rate"))


def draw_curves(path: Path, log: CsvLog, valid: CsvLog, say: Callable[[str], None]) -> bool:
    """Draw loss, BLEU and learning rate over the steps; false, and a notice, if there is no matplotlib."""
    try:
        figure = new_figure(12.0, 3.6, constrained=False)
    except FigureError:
        say("no picture of the curves: pip install 'pcfgnat[train]'")
        return False
    figure.subplots_adjust(left=0.05, right=0.98, bottom=0.14, top=0.9, wspace=0.26)
    for axes, (title, name) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        steps, values = (valid if name == "bleu" else log).column(name)
        axes.plot(steps, values, color=COLOURS[0], marker="o" if len(steps) < 60 else "", markersize=3)
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
    write_atomically(path, png(figure, dpi=110))
    return True
