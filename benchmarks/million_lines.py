"""Translate a file of a million lines, and watch the memory: `python -m benchmarks.million_lines`.

The command runs in a process of its own. Peak memory and speed are told at twenty points. One line in a
hundred is empty, at random, and in the end each must have an empty one in its place. With --kill-every the
command is killed now and then, and resumes.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pcfgnat.config import ConfigError
from pcfgnat.storage.toml import load_toml

WORDS = (
    "the",
    "a",
    "my",
    "your",
    "old",
    "new",
    "train",
    "station",
    "house",
    "dog",
    "tree",
    "is",
    "was",
    "in",
)
POLL = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--model", type=Path, help="a checkpoint (default: the bundled model)")
    parser.add_argument("--kill-every", type=float, metavar="SECONDS", help="kill -9 now and then")
    parser.add_argument("--words", type=int, default=6, help="most words in a line")
    parser.add_argument("--minutes", type=float, help="stop after so long, complete or not")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place, "source.txt"), Path(place, "target.txt")
        write_source(source, options.lines, options.words)
        command = [
            sys.executable,
            "-m",
            "pcfgnat",
            "translate",
            "--input",
            str(source),
            "--output",
            str(target),
        ]
        command += ["--decode", "greedy", "--threads", "1"]
        command += ["--model", str(options.model)] if options.model is not None else []
        if watched(command, target, options):
            compare(source, target, options.lines)


def write_source(path: Path, lines: int, words: int) -> None:
    """Write lines of a few words, the same ones each time."""
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            count = 0 if chance.random() < 0.01 else chance.randint(1, words)
            file.write(" ".join(chance.choices(WORDS, k=count)) + "\n")


def watched(command: list[str], target: Path, options: argparse.Namespace) -> bool:
    """Run to the end, or as long as there is time; false if that was too short."""
    record, begin, told, kills = target.with_name(f"{target.name}.progress.toml"), time.monotonic(), 0, 0
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    started = time.monotonic()
    while process.poll() is None or process.returncode == -signal.SIGKILL:
        now = time.monotonic()
        if process.returncode is not None:
            process, started = subprocess.Popen(command, stderr=subprocess.DEVNULL), now
        elif options.kill_every is not None and now - started > options.kill_every:
            process.kill()
            process.wait()
            kills += 1
        elif options.minutes is not None and now - begin > 60 * options.minutes:
            process.terminate()
            process.wait()
            print(f"stopped at {done(record)} lines after {options.minutes:g} minutes, {kills} kills")
            return False
        elif (lines := done(record)) >= told + options.lines / 20:
            told = lines
            rate, memory = lines / (now - begin), peak(process.pid)
            print(f"{lines:9d} lines  {rate:7.1f} lines/s  peak {memory:6.0f} MB", flush=True)
        time.sleep(POLL)
    if process.returncode:
        raise SystemExit(f"it failed with exit code {process.returncode}")
    print(f"complete: {options.lines / (time.monotonic() - begin):.1f} lines/s, {kills} kills")
    return True


def done(record: Path) -> int:
    """How many lines the command has vouched for."""
    try:
        return int(load_toml(record)["lines"])
    except ConfigError:  # not there yet, or no longer
        return 0


def peak(process: int) -> float:
    """Most memory that a process has had, in megabytes."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0.0)


def compare(source: Path, target: Path, lines: int) -> None:
    """Count the lines, and look whether the empty ones are where they should be."""
    count = empty = 0
    with source.open(encoding="utf-8") as left, target.open(encoding="utf-8") as right:
        for count, (asked, found) in enumerate(zip(left, right, strict=True), start=1):
            empty += asked == "\n"
            if asked == "\n" != found:
                raise SystemExit(f"line {count} must be empty, got {found!r}")
    if count != lines:
        raise SystemExit(f"there must be {lines} lines, got {count}")
    print(f"{count} lines in step, the {empty} empty ones in their places")


if __name__ == "__main__":
    main()
