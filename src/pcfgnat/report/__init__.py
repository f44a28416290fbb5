"""Results for people and programs: tables, figures, statistics, and documents made of them."""

from pcfgnat.report.document import Report
from pcfgnat.report.table import NOTHING, Table, number, percent

__all__ = ["NOTHING", "Report", "Table", "number", "percent"]
