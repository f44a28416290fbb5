"""Change the structures here and there, and see whether a test fails: `python -m tests.mutation.run`.

Needs cosmic-ray, whose operators it uses. Works in a copy of the project, one mutant after another, each in a
fork that has torch loaded already. Tests must fail by what they assert: the shape checks of conftest.py are
left out. Kernels are interpreted, as numba would compile them for a minute each time. The same seed draws the
same mutants, as long as a file stays as it is.
"""

import argparse
import importlib
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

PROJECT = Path(__file__).parents[2]
STRUCTURES = Path("src/pcfgnat/structures")
PRELOADED = ("hypothesis", "pytest")
PLAIN = ("lengths", "parse_tree", "search", "rhpcfg/prefix_plan", "rhpcfg/support_tree")  # no torch
CPU_SECONDS, MEMORY = 300, 8 << 30  # what a fork may take
ENOUGH = 0.8

GATHERED = tuple(
    f"test_numba.py::test_gathered_tokens_{name}"
    for name in (
        "and_their_gradient_match_torch",
        "take_strided_ids_and_short_lengths",
        "can_be_derived_twice",
    )
)
KERNELS = tuple(
    f"test_numba.py::test_{name}"
    for name in (
        "vectorised_exponentials_are_as_exact_as_they_say",
        "vectorised_logarithms_are_as_exact_as_they_say",
        "odd_shapes_and_ragged_lengths",
        "targets_that_fill_the_tree",
        "lengths_around_whole_vectors",
        "unused_rules_may_hold_anything",
        "results_do_not_depend_on_memory_left_by_others",
        "nan_scores_give_nan_and_not_a_number_that_looks_right",
        "rows_far_below_the_largest_span_keep_their_value",
        "float32_loses_no_term_that_matters",
    )
)
# by the start of a file's path: the tests that have to notice
TESTS: dict[str, tuple[str, ...]] = {
    "backend": ("test_numba.py", "test_ctc.py"),
    "by_length": ("test_dag.py", "test_rhpcfg_decoding.py", "test_ngrams.py"),
    "ctc/": ("test_ctc.py", "test_laws.py::TestCTCLaws"),
    "dag": ("test_dag.py", "test_laws.py::TestDAGLaws"),
    "distribution": ("test_laws.py", *GATHERED, "test_ctc.py", "test_rhpcfg.py"),
    "independent": ("test_independent.py", "test_laws.py::TestIndependentLaws"),
    "kernels": GATHERED,
    "lattice": ("test_lattice.py",),
    "lengths": ("test_search.py",),
    "parse_tree": ("test_parse_tree.py",),
    "rhpcfg/": (
        "test_support_tree.py",
        "test_rhpcfg.py",
        "test_rhpcfg_decoding.py",
        "test_laws.py::TestRHPCFGLaws",
        "test_numba.py",
    ),
    "rhpcfg/kernels/": (*KERNELS, "test_rhpcfg.py"),
    "rhpcfg/prefix_plan": ("test_support_tree.py",),
    "rhpcfg/support_tree": ("test_support_tree.py",),
    "search": ("test_search.py",),
    "semiring": ("test_semiring.py", "test_laws.py::TestCTCLaws"),
}


def main() -> int:
    """Try mutants until all are tried or the time is over; 1 if too many survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=14, help="mutants of each file (14)")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no mutant after these (600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="*", default=[""], help="only those that begin like one of these")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    outcomes: dict[str, Counter[bool]] = {}
    sound: set[tuple[tuple[str, ...], bool]] = set()  # tests that pass as long as nothing is changed
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        for name, mutant in drawn(tuple(options.files), options.count, options.seed):
            if time.monotonic() > end:
                break
            if (begun := (tests_of(name), interpreted(name))) not in sound:
                if failing := failing_test(copy, name):
                    raise RuntimeError(f"the tests of {name} must pass before it is changed, got {failing}")
                sound.add(begun)
            killer = tried(copy, name, mutant)
            outcomes.setdefault(name, Counter())[killer is not None] += 1
            fate = f"killed by {killer}" if killer else "SURVIVED"
            print(f"{name}:{mutant.line}: {mutant.before} -> {mutant.after}: {fate}", flush=True)
    for name, count in sorted(outcomes.items()):
        print(f"{name:28} {count.total():4} tried {count[True]:4} killed {count[False]:4} survived")
    killed = sum(count[True] for count in outcomes.values())
    tries = sum(count.total() for count in outcomes.values())
    print(f"{killed} of {tries} mutants killed")
    return int(killed < ENOUGH * tries)


def drawn(starts: tuple[str, ...], count: int, seed: int) -> Iterator[tuple[str, Mutant]]:
    """Draw mutants of all files, taking the files by turns."""
    sources: dict[str, Iterator[Mutant]] = {}
    for path in sorted((PROJECT / STRUCTURES).glob("**/*.py")):
        name = path.relative_to(PROJECT / STRUCTURES).as_posix()
        if name.startswith(starts) and path.stem != "__init__":
            sources[name] = mutants(path.read_text(encoding="utf-8"), random.Random(f"{seed} {name}"))
    for _ in range(count):
        for name, own in sources.items():
            if (mutant := next(own, None)) is not None:
                yield name, mutant


def copied(folder: Path) -> Path:
    """Copy what the tests need, with what numba has compiled."""
    shutil.copy2(PROJECT / "pyproject.toml", folder)
    for name in ("src", "tests"):
        shutil.copytree(PROJECT / name, folder / name)
    return folder


def tried(copy: Path, name: str, mutant: Mutant) -> str | None:
    """Put a mutant into the copy for as long as the tests run; say which test fails, if one does."""
    path = copy / STRUCTURES / name
    original = path.read_text(encoding="utf-8")
    replace(path, mutant.text)
    try:
        return failing_test(copy, name)
    finally:
        replace(path, original)


def replace(path: Path, text: str) -> None:
    """Change a file but not its time, as compiled kernels must not look older; so its bytecode has to go."""
    times = path.stat()
    for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        bytecode.unlink()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def tests_of(name: str) -> tuple[str, ...]:
    """Return the tests that have to notice a change of this file."""
    return TESTS[max((start for start in TESTS if name.startswith(start)), key=len)]


def interpreted(name: str) -> bool:
    """Whether a file holds kernels, which are not compiled then."""
    return "kernels" in name


def failing_test(copy: Path, name: str) -> str | None:
    """Run the tests of a file in a fork; return the first that fails, or how the fork ended."""
    for module in PRELOADED if name.startswith(PLAIN) else (*PRELOADED, "numba", "torch.testing"):
        importlib.import_module(module)
    log = copy / "log"
    child = os.fork()
    if child == 0:
        try:
            run_tests(copy, name, log)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return None
    said = log.read_text(errors="replace")
    failures = [line.split()[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR tests/"))]
    if failures:  # also a module that cannot be imported any more
        return failures[0].rpartition("/")[2]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (4, 5, 99):  # wrong options, no tests, no pytest
        raise RuntimeError(f"pytest must run, but ended with {status}:\n{said}")
    return f"status {status}"


def run_tests(copy: Path, name: str, log: Path) -> None:
    """Become pytest in the copy; never returns."""
    import pytest
    from hypothesis import Phase, settings

    # the first failure is enough, whatever the smallest one is
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutation", deadline=None, derandomize=True, database=None, phases=phases)
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy / "src")
    sys.path[:0] = [str(copy), str(copy / "src")]
    for module in [module for module in sys.modules if module.partition(".")[0] == "tests"]:
        del sys.modules[module]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if "numba" in sys.modules:
        sys.modules["numba"].config.DISABLE_JIT = interpreted(name)
        sys.modules["torch"].set_num_threads(1)
    plugins = ("no:cacheprovider", "pytest_timeout", "_hypothesis_pytestplugin")
    options = ["-x", "-q", "--noconftest", "-o", "timeout=0", "-W", "ignore::RuntimeWarning"]
    options += [f"-p{plugin}" for plugin in plugins] + ["--hypothesis-profile=mutation"]
    code = pytest.main([*options, *(f"tests/structures/{test}" for test in tests_of(name))])
    sys.stdout.flush()
    os._exit(int(code))


if __name__ == "__main__":
    sys.exit(main())
