"""Translations of a whole file, which resume after any interruption; also a teacher's as training targets."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from pcfgnat.storage.growing import GrowingFiles, Progress
from pcfgnat.storage.toml import load_config
from pcfgnat.text import Prepared
from pcfgnat.translator.translation import Translation
from pcfgnat.translator.translator import Translator, windows

# The source lines of a chunk, their translations and the number of the first one, to a text for each file.
Render = Callable[[Sequence[str], Sequence[Translation], int], Sequence[str]]


def translate_into(
    translator: Translator,
    lines: Iterable[str],
    output: GrowingFiles,
    render: Render,
    chunk_lines: int = 1024,
) -> Iterator[list[Translation]]:
    """Translate the missing lines and yield them as they are written; then finish the files.

    A crash costs the work of `chunk_lines` lines at most.
    """
    iterator, hashed = iter(lines), hashlib.sha256()
    _skip(iterator, output.progress, hashed)
    for chunk in windows(iterator, chunk_lines):
        done = output.progress.lines
        found = translator(chunk)
        hashed.update("".join(f"{line}\n" for line in chunk).encode())
        output.append(render(chunk, found, done + 1), len(chunk), hashed.hexdigest())
        yield found
    output.finish()


def pair_files(prefix: Path, suffixes: tuple[str, str], job: Mapping[str, str]) -> GrowingFiles:
    """Return the two files that `distill` writes: `prefix.SOURCE` and `prefix.TARGET`."""
    paths = [prefix.with_name(f"{prefix.name}.{suffix}") for suffix in suffixes]
    return GrowingFiles(paths, _record(prefix), job)


def recorded_runtime(prefix: Path) -> str | None:
    """Return what ran the teacher when a job was started; None if there is no job to resume."""
    record = _record(prefix)
    return load_config(Progress, record).job.get("runtime") if record.exists() else None


def _record(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.distill.toml")


def distill(
    translator: Translator, lines: Iterable[str], output: GrowingFiles, chunk_lines: int = 512
) -> Iterator[list[Translation]]:
    """Write lines and their translations to two files; text split beforehand stays so on both sides."""
    translator = translator.for_corpus_text()
    marked = translator.tokenizer.kind == "subwords"

    def pairs(sources: Sequence[str], found: Sequence[Translation], first: int) -> list[str]:
        targets = [" ".join(result.pieces) if marked else result.text for result in found]
        return ["".join(f"{line}\n" for line in side) for side in (sources, targets)]

    return translate_into(translator, lines, output, pairs, chunk_lines)


def training_sources(prepared: Prepared, say: Callable[[str], None]) -> Iterator[str]:
    """Yield the sources of prepared training data as text; what was split beforehand stays split."""
    unknown = prepared.report.train.source.unknown
    tokenizer, marked = prepared.tokenizer, prepared.tokenizer.kind == "subwords"
    if unknown and not marked:
        say(f"{unknown} unknown characters are missing in the prepared data; --input would have them")
    for ids, _ in prepared.corpus("train"):
        yield " ".join(tokenizer.pieces(ids[1:-1])) if marked else tokenizer.decode(ids)


def _skip(lines: Iterator[str], progress: Progress, hashed: "hashlib._Hash") -> None:
    """Read past what is translated already; raise an error if it is another text."""
    for line in islice(lines, progress.lines):
        hashed.update(f"{line}\n".encode())
    if hashed.hexdigest() != progress.read_sha256:
        changed = f"the first {progress.lines} lines of the source differ from those that were translated"
        raise ValueError(f"cannot resume: {changed}")
