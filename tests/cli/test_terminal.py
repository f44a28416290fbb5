"""What a person at a terminal sees: a prompt, progress, more or less of it, and completion."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.progress import VERBOSITY, Verbosity
from pcfgnat.translator import Translator
from tests.cli.conftest import World

Capture = pytest.CaptureFixture[str]
PCFGNAT = [sys.executable, "-m", "pcfgnat"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb"}
PATIENCE = 120
SENTENCES = ("Der Bär läuft.", "Das Mädchen schläft.")


class Terminal:
    """A process whose stdin and stderr are a terminal; stdout may be another place. It ends with this."""

    def __init__(self, *arguments: str | Path, stdout: int | None = None) -> None:
        self._own, other = pty.openpty()
        termios.tcsetwinsize(other, (24, 120))
        self._process = subprocess.Popen(
            [*PCFGNAT, *map(str, arguments)],
            stdin=other,
            stdout=other if stdout is None else stdout,
            stderr=other,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        os.close(other)
        self._end = time.monotonic() + PATIENCE
        self._seen = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._own)

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until a text is seen that was not seen before."""
        while text not in self._seen:
            assert self._read(), f"ended without {text!r}: {self._seen!r}"
        self._seen = self._seen.split(text, 1)[1]

    def finish(self) -> str:
        """Read what is left, and return it; the process must have succeeded."""
        while self._read():
            pass
        assert self._process.wait(PATIENCE) == 0, self._seen
        return self._seen

    def _read(self) -> bool:
        """Read what there is; return whether more may come."""
        assert time.monotonic() < self._end, f"nothing more after {self._seen!r}"
        if not select.select([self._own], [], [], 1.0)[0]:
            return True
        try:
            content = os.read(self._own, 1 << 16)
        except OSError:  # which is how a terminal ends on Linux
            return False
        self._seen += content.decode(errors="replace")
        return bool(content)


def translations(model: Path) -> list[str]:
    return [translation.text for translation in Translator.load(model)(list(SENTENCES))]


def test_a_person_is_asked_line_by_line(world: World) -> None:
    with Terminal("translate", "--model", world.teacher) as terminal:
        terminal.wait_for("pcfgnat: de → zh; one sentence per line, Ctrl-D ends")
        for sentence, translation in zip(SENTENCES, translations(world.teacher), strict=True):
            terminal.wait_for("> ")
            terminal.type(f"{sentence}\n")
            terminal.wait_for(f"\n{translation}\r\n")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.finish().strip() == ""


@pytest.mark.parametrize("quiet", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_prompt_does_not_go_into_a_file_and_quiet_has_none(
    world: World, tmp_path: Path, quiet: bool
) -> None:
    arguments = ["translate", "--model", str(world.teacher), *(["-q"] if quiet else [])]
    with (tmp_path / "out").open("wb") as file, Terminal(*arguments, stdout=file.fileno()) as terminal:
        terminal.type(f"{SENTENCES[0]}\n\x04")
        seen = terminal.finish()
    assert (tmp_path / "out").read_text(encoding="utf-8") == f"{translations(world.teacher)[0]}\n"
    assert seen.count("> ") == (0 if quiet else 2)
    assert ("Ctrl-D" in seen) is not quiet
    assert "lines" not in seen  # no bar between the lines


@pytest.mark.parametrize("quiet", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_prepare_shows_rate_and_time_left(world: World, tmp_path: Path, quiet: bool) -> None:
    pairs = ("--train", world.root / "train", "--source", "de", "--target", "zh", "--vocabulary-size", "150")
    quietly = ["-q"] if quiet else []
    with Terminal("prepare", *pairs, "--shortlist", *quietly, "--output", tmp_path / "p") as terminal:
        seen = terminal.finish()
    for label in ("reading train", "encoding train", "learning the shortlist"):
        assert bool(re.search(rf"{label}: +\d+%.*\d/\d.*\[.*<.*/s\]", seen)) is not quiet
    assert "60 pairs read" in seen


def test_more_or_less_is_said(world: World, tmp_path: Path, capsys: Capture) -> None:
    model = ["--model", str(world.teacher)]
    asked = ["translate", *model, "--tree", SENTENCES[0]]
    assert main(asked) == 0
    normal = capsys.readouterr()
    assert normal.err == "pcfgnat: this model builds no trees\n"
    assert main([*asked, "-q"]) == 0
    assert capsys.readouterr() == (normal.out, "")
    assert main(["-v", *asked]) == 0
    verbose = capsys.readouterr()
    assert verbose.out == normal.out
    assert re.search(rf"loaded {world.teacher} in [\d.]+ s: \w+, beam", verbose.err)
    assert re.search(r"took [\d.]+ s\n$", verbose.err)
    assert VERBOSITY.get() is Verbosity.NORMAL  # afterwards
    missing = ["info", str(tmp_path / "x")]
    assert main([*missing, "-q"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main([*missing, "-v"]) == 2
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*missing, "-q", "-v"])


def completions(line: str, directory: Path) -> list[str]:
    """What a shell is told about a line, as argcomplete's script asks for it."""
    answer = directory / "answer"
    asking = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
        "COMP_TYPE": "",
    }
    code = "import sys; from pcfgnat.cli import main; sys.argv[0] = 'pcfgnat'; main()"
    subprocess.run([sys.executable, "-c", code], env={**ENVIRONMENT, **asking}, cwd=directory, check=True)
    return [text.strip() for text in answer.read_text().split("\n")]


def test_a_shell_completes_commands_recipes_and_settings(tmp_path: Path) -> None:
    assert completions("pcfgnat tra", tmp_path) == ["train", "translate"]
    (tmp_path / "cat.toml").touch()
    assert completions("pcfgnat train c", tmp_path) == ["cmlm", "cmlmc", "ctc", "ctc_glancing", "cat.toml"]
    assert completions("pcfgnat train pcfg optimiser.w", tmp_path) == ["optimiser.warm_up="]
    assert "--vocabulary-size" in completions("pcfgnat prepare --vo", tmp_path)
    assert completions("pcfgnat translate --decode m", tmp_path) == ["mbr", "mask-predict"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    assert "pcfgnat" in capsys.readouterr().out


def test_translator_is_imported_when_asked_for() -> None:
    code = (
        "import sys, pcfgnat\nassert 'pcfgnat.translator' not in sys.modules\n"
        "from pcfgnat import Translator\nfrom pcfgnat.translator import Translator as same\n"
        "assert Translator is same\n"
        "try:\n    pcfgnat.nonsense\nexcept AttributeError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "module 'pcfgnat' has no attribute 'nonsense'\n"
