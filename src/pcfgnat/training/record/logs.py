"""Figures of a run as tables that grow: CSV files, and TensorBoard if it is installed."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pcfgnat.storage.files import sync, write_atomically
from pcfgnat.training.config import TrainingError

Value = int | float | str


class CsvLog:
    """A table with a row for some steps; rows beyond the step at which the run resumes are dropped.

    New columns may come with any row; the file is then written anew. Without a path nothing is written.
    """

    def __init__(self, path: Path | None, step: int) -> None:
        self.path = path
        self.columns: list[str] = []
        self.rows: list[dict[str, str]] = []
        if path is not None and path.exists():
            self._read(path, step)
            self._rewrite(path)

    def add(self, row: Mapping[str, Value]) -> None:
        """Append a row."""
        plain = {name: repr(value) if isinstance(value, float) else str(value) for name, value in row.items()}
        self.rows.append(plain)
        if self.path is None:
            return
        new = [name for name in row if name not in self.columns]
        if new:
            self.columns += new
            self._rewrite(self.path)
            return
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._text([plain]))

    def column(self, name: str) -> tuple[list[float], list[float]]:
        """Return the steps that have a number in a column, and the numbers."""
        pairs = [(float(row["step"]), float(row[name])) for row in self.rows if row.get(name)]
        return [step for step, _ in pairs], [number for _, number in pairs]

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        if self.path is not None and self.path.exists():
            sync(self.path)

    def _read(self, path: Path, step: int) -> None:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file, quoting=csv.QUOTE_NONE)
            try:
                self.columns = list(reader.fieldnames or [])
                self.rows = [row for row in reader if _whole(row) and int(row["step"]) <= step]
            except csv.Error as error:
                raise TrainingError(f"{path} is damaged: {error}; move it away to resume") from error
        if self.columns and "step" not in self.columns:
            raise TrainingError(f"{path} is damaged: it must have a column step; move it away to resume")

    def _text(self, rows: list[dict[str, str]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self.columns, restval="", lineterminator="\n").writerows(rows)
        return text.getvalue()

    def _rewrite(self, path: Path) -> None:
        header = ",".join(self.columns) + "\n"
        write_atomically(path, (header + self._text(self.rows)).encode())


class TensorBoard:
    """Figures for TensorBoard; nothing without a directory, and a notice if it is not installed."""

    def __init__(self, directory: Path | None, step: int, say: Callable[[str], None]) -> None:
        self._writer: Any = None
        if directory is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            say("no TensorBoard log: pip install 'pcfgnat[train]'")
            return
        self._writer = SummaryWriter(str(directory), purge_step=step + 1)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, group: str, row: Mapping[str, Value]) -> None:
        """Add the numbers of a row, which has a `step`."""
        if self._writer is not None:
            for name, value in row.items():
                if name != "step" and not isinstance(value, str):
                    self._writer.add_scalar(f"{group}/{name}", value, int(row["step"]))

    def flush(self) -> None:
        """Write what is waiting."""
        if self._writer is not None:
            self._writer.flush()


def _whole(row: Mapping[Any, Any]) -> bool:
    """Whether a row has a number, or nothing, in each column: one may have been cut off or altered."""
    try:
        numbers = [float(value) for value in row.values() if value != ""]
    except (TypeError, ValueError):
        return False
    return bool(numbers) and None not in row and row.get("step", "").isdecimal()
