"""Fuzz everything for a long time: `python -m tests.fuzz.run --minutes 60`.

Contents are tried in child processes, whose memory is bounded, so that a crash or a flood of memory is a
finding as well. Each is written to `tests/fuzz/corpus/TARGET/`, where the tests try it from then on.
"""

import argparse
import hashlib
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
BATCH, MEMORY, LONGEST = 100, 2 << 30, 60  # contents a child tries, bytes it may take more, its CPU seconds


def tried(target: Target, content: bytes) -> str | None:
    """Say what is wrong with how a content is read, if anything is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target.check(content)
    except ValueError:
        return None
    except BaseException as error:
        return "".join(traceback.format_exception(error, limit=-3))
    return None


def main() -> int:
    """Take the targets in turn until the time is over; return how many findings there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target", help="only this one")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    targets = [kind() for kind in TARGETS if options.target in (None, kind.__name__.lower())]
    seeds = {target: [*target.seeds(), *corpus(target)] for target in targets}
    end, tries, findings = time.monotonic() + 60 * options.minutes, 0, 0
    while time.monotonic() < end:
        for target in targets:
            found = batch(target, seeds[target], chance.getrandbits(64))
            tries += BATCH
            findings += found
    for target in targets:
        target.close()
    print(f"{tries} contents, {findings} findings")
    return int(findings > 0)


def corpus(target: Target) -> list[bytes]:
    """Return earlier findings."""
    return [path.read_bytes() for path in sorted((CORPUS / name(target)).glob("*"))]


def name(target: Target) -> str:
    return type(target).__name__.lower()


def batch(target: Target, seeds: list[bytes], seed: int) -> bool:
    """Try some contents in a child; the last one is to blame if it does not come to its end."""
    current = target.place / "current"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = child_batch(target, seeds, random.Random(seed), current)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return False
    content = current.read_bytes()
    path = CORPUS / name(target) / hashlib.sha256(content).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    end = f"signal {signal.Signals(-code).name}" if code < 0 else "an error"
    print(f"{name(target)}: {end}; kept as {path}", file=sys.stderr, flush=True)
    return True


def child_batch(target: Target, seeds: list[bytes], chance: random.Random, current: Path) -> int:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    for _ in range(BATCH):
        content = mutated(chance.choice(seeds), chance)
        current.write_bytes(content)
        if finding := tried(target, content):
            print(finding, file=sys.stderr, flush=True)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
