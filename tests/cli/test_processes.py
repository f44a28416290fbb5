"""What only shows in a process of its own: signals, pipes, full disks, imports."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcfgnat.cli import main
from tests.cli.conftest import World, short_sentences
from tests.support.forked import forked
from tests.text.bilingual import write_lines

PCFGNAT = [sys.executable, "-m", "pcfgnat"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom pcfgnat.cli import main\ntry:\n    main(['translate', '--help'])\n"
        "except SystemExit:\n    pass\nassert not {'torch', 'numpy', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=ENVIRONMENT)


def test_a_reader_that_goes_away_is_no_error(world: World) -> None:
    command = [*PCFGNAT, "translate", "--model", str(world.teacher), "--decode", "greedy", "--batch", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("Der Bär.\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")  # each line is answered at once
        process.stdout.close()
        process.stdin.write("Der Bär.\n".encode() * 5)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_an_error(world: World) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*PCFGNAT, "translate", "-q", "--model", str(world.teacher), "x"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert result.returncode == 1
    assert result.stderr == b"pcfgnat: error: No space left on device\n"


def killed(
    arguments: list[str], outputs: tuple[str, ...], place: Path, kills: int, seed: int
) -> tuple[int, int]:
    """Kill a command at random moments; what it leaves in the end is what it leaves without a kill.

    Return how often it went on and how often it came to its end.
    """
    chance, done, finished = random.Random(seed), 0, 0
    with forked(place / "said.txt") as process:
        longest = process.seconds([*arguments, "--output", str(place / "whole")])
        while done <= kills:
            wait = chance.uniform(0, longest) if done < kills else None
            code = process.run([*arguments, "--output", str(place / "cut")], wait)
            if code == -signal.SIGKILL:
                done += 1
                continue
            assert code == 0, process.said()
            for name in outputs:
                assert (place / f"cut{name}").read_bytes() == (place / f"whole{name}").read_bytes()
            left = {path.name.removeprefix("cut") for path in place.glob("*cut*")}
            assert left - {".distill.toml"} == set(outputs)
            for path in place.glob("cut*"):
                path.unlink()
            finished += 1
            done += done == kills
        said = process.said()
    assert "Traceback" not in said
    return said.count("resuming after"), finished


JOBS = {
    "translate": ("", ["translate", "--json", "--batch", "1"]),
    "distill": (".de .zh", ["distill", "--decode", "greedy", "--chunk", "4"]),
}


def kill_often(world: World, place: Path, command: str, kills: int, lines: int) -> tuple[int, int]:
    source = write_lines(place / "source.de", [text for text, _ in short_sentences(lines)])
    suffixes, options = JOBS[command]
    arguments = [*options, "--model", str(world.teacher), "--input", str(source), "--threads", "1"]
    return killed(arguments, tuple(suffixes.split(" ")), place, kills, seed=len(command))


def test_a_kill(world: World, tmp_path: Path) -> None:
    kill_often(world, tmp_path, "translate", 1, 6)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("command", JOBS)
def test_twenty_kills(world: World, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    resumed, finished = kill_often(world, tmp_path, command, 20, 80)
    with capsys.disabled():
        print(f"{command}, 20 kills: {resumed} starts went on, {finished} came to their end")
    assert resumed  # by chance a kill may come too early or too late, but not always


def interrupted(command: list[str], record: Path) -> int:
    """Interrupt a command as soon as it has written its record; return how it ended."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT)
    finally:
        signal.signal(signal.SIGINT, previous)
    with process:
        assert process.stderr is not None
        while process.poll() is None and not record.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        code = process.wait()
        assert b"Traceback" not in process.stderr.read()
    return code


def test_interrupted_distilling_goes_on(world: World, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "source.de", [text for text, _ in short_sentences(20)] * 20)
    options = ["--decode", "greedy", "--chunk", "2", "--model", str(world.teacher), "--input", str(source)]
    options += ["--runtime", "torch"]  # the slowest: CTranslate2 may be done before the signal comes
    for attempt in range(3):  # on a busy machine the signal may come too late
        cut = tmp_path / f"cut{attempt}"
        record = tmp_path / f"cut{attempt}.distill.toml"
        if (code := interrupted([*PCFGNAT, "distill", *options, "--output", str(cut)], record)) != 0:
            break
    assert code == 130
    assert "complete = false" in record.read_text()
    for path in (cut, tmp_path / "whole"):
        assert main(["distill", *options, "--output", str(path)]) == 0
    for suffix in ("de", "zh"):
        assert cut.with_suffix(f".{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
