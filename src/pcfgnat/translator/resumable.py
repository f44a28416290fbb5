"""A file translated to a file, which resumes after any interruption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pcfgnat.progress import is_shown, progress_bar
from pcfgnat.storage.growing import GrowingFiles
from pcfgnat.storage.lines import count_lines
from pcfgnat.text import open_lines
from pcfgnat.translator.distillation import translate_into
from pcfgnat.translator.form import Form, Notices
from pcfgnat.translator.job import job_record
from pcfgnat.translator.translation import Translation
from pcfgnat.translator.translator import Translator


@dataclass(frozen=True)
class FileJob:
    """A text to translate into a file; `model` is the directory of the translator's model."""

    source: Path
    output: Path
    model: Path
    form: Form

    @property
    def record_path(self) -> Path:
        """The file beside the output that vouches for what is done."""
        return self.output.with_name(f"{self.output.name}.progress.toml")

    def record(self, translator: Translator) -> dict[str, str]:
        """Return everything that the output depends on, but for the text itself."""
        facts = job_record(translator, self.model, translator.options.window)
        return {**facts, **self.form.record(), "input": str(self.source)}


def translate_file(translator: Translator, job: FileJob, say: Callable[[str], None]) -> None:
    """Translate what is not translated yet; progress goes to stderr."""

    def render(sources: Sequence[str], found: Sequence[Translation], first: int) -> list[str]:
        lines = (job.form.lines(translation, number) for number, translation in enumerate(found, first))
        return ["".join(f"{line}\n" for line in chain.from_iterable(lines))]

    record, notices = job.record_path, Notices(job.form, translator.strategy.name, say)
    with (
        open_lines(job.source) as lines,
        GrowingFiles([job.output], record, job.record(translator), replacing=True) as output,
    ):
        if output.progress.complete:
            say(f"complete already: {output.progress.lines} lines in {job.output}")
            return
        if done := output.progress.lines:
            say(f"resuming after {done} lines; to start over, delete {record}")
        total = count_lines(job.source) if is_shown() else None
        with progress_bar("", "lines", total, done) as bar:
            window = translator.options.window
            for chunk in translate_into(translator, lines, output, render, window):
                for number, translation in enumerate(chunk, done + 1):
                    notices.report(translation, number)
                done += len(chunk)
                bar.update(len(chunk))
