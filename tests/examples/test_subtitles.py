"""examples/translate_subtitles.py, as people would call it."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "translate_subtitles.py"))
TIMES = ["00:00:01,000 --> 00:00:02,500", "00:00:03,000 --> 00:00:05,000 X1:40", "0:00:06.0 --> 0:00:07.0"]
FILM = f"""\ufeff1
{TIMES[0]}
The weather
is <i>nice</i> today.

2
{TIMES[1]}
- How are you?
- I like Tom & Mary.

{TIMES[2]}
42

"""


def test_times_numbers_and_lines_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "film.en.srt", tmp_path / "film.de.srt"
    source.write_text(FILM.replace("\n", "\r\n"), encoding="utf-8", newline="")
    EXAMPLE["main"](str(source), str(output))
    assert capsys.readouterr().out == f"3 cues written to {output}\n"
    first, second, third = EXAMPLE["read_cues"](output.read_text(encoding="utf-8"))
    assert [first.head, second.head, third.head] == [("1", TIMES[0]), ("2", TIMES[1]), (TIMES[2],)]
    assert len(first.lines) == 2
    assert re.sub(r"</?i>", "", " ".join(first.lines)) == "Das Wetter ist heute nett."
    assert re.search(r"<i>\w+</i>", " ".join(first.lines))
    assert [line[:2] for line in second.lines] == ["- ", "- "]
    assert second.lines[1].endswith(".")
    assert "&amp;" not in second.lines[1]
    assert third.lines == ("42",)


def test_a_blank_line_belongs_to_its_cue() -> None:
    text = f"1\n{TIMES[0]}\none\n\ntwo\n\n2\n{TIMES[1]}\n"
    cues = EXAMPLE["read_cues"](text)
    assert [cue.lines for cue in cues] == [("one", "", "two"), ()]
    assert EXAMPLE["read_cues"](EXAMPLE["write_cues"](cues)) == cues


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="must begin with a number and a time, got 'Hello'"):
        EXAMPLE["read_cues"]("Hello\nworld")
