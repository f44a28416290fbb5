"""A job is resumed only if everything that its output depends on is the same, in all three commands."""

import shutil
import sys
from pathlib import Path

import pytest
from benchmarks.synthetic import random_shortlist

from pcfgnat.cli import main
from pcfgnat.export.onnx import ExportSettings, export_onnx, record_shortlist
from pcfgnat.runtimes.onnx import ShortlistFacts
from tests.cli.conftest import World
from tests.cli.test_commands import LINES, Capture, error, written

COMMANDS = ("translate", "distill", "cluster-translate")
FREE = ShortlistFacts(bleu_lost=0.0, sentences=1, tokens=1.0)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a cluster's job end after its shards are planned."""
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.fixture(scope="module")
def quick(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar that runs on onnxruntime, in 8 bits, with a shortlist that is used by default."""
    place = tmp_path_factory.mktemp("quick") / "model"
    shutil.copytree(world.grammar, place)
    export(place, int8=True)
    return place


def export(model: Path, int8: bool, seed: int = 1) -> None:
    shutil.rmtree(model / "onnx", ignore_errors=True)
    export_onnx(model, model / "onnx", ExportSettings(int8, random_shortlist(150, seed)))
    record_shortlist(model / "onnx", FREE)


class Job:
    """A command that is interrupted: after five lines, as the sixth is not text, or without a cluster."""

    def __init__(self, capsys: Capture, command: str, model: Path, place: Path) -> None:
        self._capsys = capsys
        self._source = written(place / "source.txt", *LINES)
        files = ["--input", str(self._source), "--output", str(place / "output")]
        self.arguments = [command, "--model", str(model), *files]

    def interrupt(self, *options: str) -> None:
        if self.arguments[0] == "cluster-translate":
            assert "a cluster needs Ray" in error(self._capsys, *self.arguments, *options)
            return
        content = self._source.read_bytes()
        self._source.write_bytes(content + b"\xff\n")
        assert "line 6 must be UTF-8" in error(self._capsys, *self.arguments, *options)
        self._source.write_bytes(content)

    def refused(self, *options: str) -> str:
        """Try to resume; return what changed."""
        message = error(self._capsys, *self.arguments, *options)
        assert message.startswith("cannot resume: ")
        assert message.endswith(" to start over")
        return message.removeprefix("cannot resume: ").split(";")[0]

    def resumed(self, *options: str) -> bool:
        code = main([*self.arguments, *options])
        said = self._capsys.readouterr().err
        return "a cluster needs Ray" in said if "cluster" in self.arguments[0] else code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_other_decoding_is_refused(command: str, quick: Path, tmp_path: Path, capsys: Capture) -> None:
    job = Job(capsys, command, quick, tmp_path)
    job.interrupt()
    for options, change in (
        (["--decode", "greedy"], "strategy changed from viterbi to greedy"),
        (["--beta", "0.7"], "length_penalty changed from 1.0 to 0.7"),
        (["--exact"], "exact changed from False to True"),
        (["--batch", "2"], "batch changed from 32 sentences, 2048 tokens to 2 sentences, 2048 tokens"),
    ):
        assert job.refused(*options) == change
    assert job.resumed("--threads", "1", "--seed", "7")  # neither of which changes a translation


@pytest.mark.parametrize("command", COMMANDS)
def test_another_model_or_runtime_is_refused(
    command: str, quick: Path, world: World, tmp_path: Path, capsys: Capture
) -> None:
    model = tmp_path / "model"
    shutil.copytree(quick, model)
    job = Job(capsys, command, model, tmp_path)
    job.interrupt()
    export(model, int8=True, seed=2)
    assert job.refused().startswith("exported changed from ")
    export(model, int8=False)
    assert job.refused() == "precision changed from int8 to float32"
    shutil.rmtree(model / "onnx")
    assert job.refused() == "runtime changed from onnx to torch"
    shutil.rmtree(model)
    shutil.copytree(world.teacher, model)
    assert job.refused().startswith("model changed from ")
    shutil.rmtree(model)
    shutil.copytree(quick, model)
    assert job.resumed()


@pytest.mark.parametrize("command", COMMANDS)
def test_samples_need_the_same_seed(command: str, world: World, tmp_path: Path, capsys: Capture) -> None:
    job = Job(capsys, command, world.teacher, tmp_path)
    job.interrupt("--decode", "sample")
    assert job.refused("--decode", "sample", "--seed", "2") == "seed changed from 1 to 2"
    assert job.refused("--decode", "beam:size=3").startswith("strategy changed from sample to beam:size=3")
    assert job.resumed("--decode", "sample", "--batch", "3")  # what is drawn depends on the sentence alone


@pytest.mark.parametrize("command", COMMANDS)
def test_batches_do_not_matter_where_they_change_nothing(
    command: str, world: World, tmp_path: Path, capsys: Capture
) -> None:
    job = Job(capsys, command, world.teacher, tmp_path)
    job.interrupt("--decode", "greedy")
    assert job.resumed("--decode", "greedy", "--batch", "3", "--exact")  # torch is exact anyway


def test_what_only_one_command_has(quick: Path, tmp_path: Path, capsys: Capture) -> None:
    places = [tmp_path / name for name in COMMANDS]
    for place in places:
        place.mkdir()
    text, pairs, shards = (
        Job(capsys, name, quick, place) for name, place in zip(COMMANDS, places, strict=True)
    )
    for job in (text, pairs, shards):
        job.interrupt()
    assert text.refused("--nbest", "2") == "results changed from 1 to 2"
    assert text.refused("--json") == "form changed from text to json"
    assert pairs.refused("--chunk", "2") == "window changed from 512 of 512 lines to 2 of 2 lines"
    assert shards.refused("--pieces") == "pieces changed from False to True"


def test_trees_in_a_file_have_one_width(
    world: World, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    job = Job(capsys, "translate", world.grammar, tmp_path)
    job.interrupt("--tree")
    monkeypatch.setenv("COLUMNS", "120")
    assert job.refused("--tree") == "width changed from 90 to 120"


def test_another_input_is_refused(world: World, tmp_path: Path, capsys: Capture) -> None:
    for command in COMMANDS:
        place = tmp_path / command
        place.mkdir()
        job = Job(capsys, command, world.teacher, place)
        job.interrupt()
        given = job.arguments.index("--input") + 1
        job.arguments[given] = str(written(tmp_path / "other.txt", "Ein anderer Text."))
        assert job.refused().startswith("input changed from ")
