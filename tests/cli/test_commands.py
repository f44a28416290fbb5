"""The commands in this process, where their results can be compared with the library's."""

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pcfgnat import __version__
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.cli import main
from pcfgnat.evaluation import measures_for
from pcfgnat.text import LearnSettings, Prepared
from pcfgnat.text.cleaning import CleaningSettings
from pcfgnat.translator import TranslateOptions, Translator
from tests.cli.conftest import World
from tests.text.bilingual import tree

Capture = pytest.CaptureFixture[str]
LINES = ["Der Bär läuft.", "", "Frau Müller übt ☃ heute.", "  ", "Das Mädchen schläft."]


def out(capsys: Capture, *arguments: str | Path, code: int = 0) -> str:
    assert main([str(argument) for argument in arguments]) == code, capsys.readouterr().err
    return capsys.readouterr().out


def error(capsys: Capture, *arguments: str | Path, code: int = 2) -> str:
    assert main([str(argument) for argument in arguments]) == code
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("pcfgnat: error: ")
    return line.removeprefix("pcfgnat: error: ")


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)


def written(path: Path, *lines: str) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def test_help_of_every_command_reads_well(capsys: Capture) -> None:
    for command in ("prepare", "train", "translate", "evaluate", "distill", "average", "info"):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        text = capsys.readouterr().out
        assert f"usage: pcfgnat {command}" in text
        assert max(map(len, text.splitlines())) <= 112
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"pcfgnat {__version__}\n"


def test_help_tells_the_defaults_that_there_are(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["prepare", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    learn, clean = LearnSettings(), CleaningSettings()
    for name, default in (
        ("vocabulary-size N", learn.vocabulary_size),
        ("character-coverage SHARE", learn.character_coverage),
        ("sample-size N", learn.sample_size),
        ("max-length N", clean.max_length),
        ("max-ratio R", f"{clean.max_ratio:g}"),
    ):
        option = text[text.rindex(f"--{name}") :]
        assert f"(default: {default})" in option[: option.index(")") + 1]


def test_prepare(world: World, tmp_path: Path, capsys: Capture) -> None:
    names = {split: str(world.root / split) for split in ("train", "valid", "test")}
    text = out(
        capsys, "prepare", "--train", names["train"], f"{names['valid']}.de,{names['valid']}.zh",
        "--valid", names["valid"], "--test", names["test"], "--source", "de", "--target", "zh",
        "--vocabulary-size", "150", "--max-length", "38", "--drop-duplicates", "--output", tmp_path / "p",
    )  # fmt: skip
    report = Prepared.open(tmp_path / "p").report
    assert str(report) in text
    assert report.train.read == 66
    assert report.train.dropped.get("too_long", 0) > 0
    assert report.settings["cleaning"]["drop_duplicates"] is True
    assert report.settings["target_language"] == "zh"


def test_prepare_takes_text_that_is_split(world: World, tmp_path: Path, capsys: Capture) -> None:
    pair = f"{world.root}/train.de,{world.root}/train.zh"
    types = world.root / "types.txt"
    out(capsys, "prepare", "--train", pair, "--subword-vocabulary", types, "--output", tmp_path / "p")
    assert Prepared.open(tmp_path / "p").tokenizer.kind == "subwords"


def test_prepare_names_what_is_wrong(world: World, tmp_path: Path, capsys: Capture) -> None:
    train = world.root / "train"
    assert "must be FILE,FILE" in error(capsys, "prepare", "--train", train, "--output", tmp_path / "p")
    missing = ("--source", "de", "--target", "fr", "--output", tmp_path / "p")
    assert "cannot read" in error(capsys, "prepare", "--train", train, *missing)
    short = written(tmp_path / "short.zh", "x")
    found = error(capsys, "prepare", "--train", f"{train}.de,{short}", "--output", tmp_path / "p")
    assert "must have the same number of lines, got 60 and 1" in found
    assert not (tmp_path / "p").exists()


def test_translate_gives_what_the_library_gives(
    world: World, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = TranslateOptions(keep=True)  # ☃ is unknown to the model
    expected = [result.text for result in Translator.load(world.teacher, options=kept)(LINES)]
    assert "☃" in expected[2]
    assert expected[1] == expected[3] == ""
    assert expected[0]
    lines = "".join(f"{line}\n" for line in expected)
    assert out(capsys, "translate", "--model", world.teacher, *LINES) == lines
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress("\r\n".join(LINES).encode()))
    result = tmp_path / "out.txt"
    assert out(capsys, "translate", "--model", world.teacher, "--input", packed, "--output", result) == ""
    assert result.read_text() == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.gz", "out.txt"]
    for batch in ("1", "2"):
        feed(monkeypatch, "\n".join(["\ufeff" + LINES[0], *LINES[1:]]).encode())
        assert out(capsys, "translate", "--model", world.teacher, "--batch", batch) == lines
    feed(monkeypatch, b"")
    assert out(capsys, "translate", "--model", world.teacher) == ""


def test_translate_with_options(world: World, capsys: Capture) -> None:
    options = TranslateOptions(strategy="beam:size=4", results=3, length_penalty=0.5)
    expected = Translator.load(world.teacher, options=options)(LINES[0])
    arguments = (
        "translate",
        "--model",
        world.teacher,
        "--nbest",
        "3",
        "--decode",
        "beam:size=4",
        "--beta",
        "0.5",
        LINES[0],
    )
    rows = [line.split("\t") for line in out(capsys, *arguments).splitlines()]
    assert rows == [["1", f"{c.score:.4f}", c.text] for c in expected.candidates]
    assert json.loads(out(capsys, *arguments, "--json")) == expected.to_dict()
    sample: list[str | Path] = [
        "translate",
        "--model",
        world.teacher,
        "--decode",
        "sample",
        "--nbest",
        "2",
        *LINES,
    ]
    first = out(capsys, *sample, "--seed", "5")
    assert out(capsys, *sample, "--seed", "5") == first
    assert out(capsys, *sample, "--seed", "6") != first
    found = error(capsys, "translate", "--model", world.teacher, "--decode", "viterbi", "x")
    assert found == "the strategy must be one of beam, greedy, sample for this model, got 'viterbi'"


def test_trees_are_drawn_and_written(world: World, capsys: Capture) -> None:
    text = LINES[0]
    result = Translator.load(world.grammar)(text)
    assert result.tree is not None
    data = json.loads(out(capsys, "translate", "--model", world.grammar, "--json", text))
    assert data == result.to_dict()
    assert [row["word"] for row in data["tree"]["nodes"]] == list(result.tree.words or ())
    drawn = out(capsys, "translate", "--model", world.grammar, "--tree", text)
    assert drawn.startswith(f"{result.text}\n\n")
    assert "<s>──" in drawn
    main(["translate", "--model", str(world.teacher), "--tree", text, text])
    captured = capsys.readouterr()
    assert captured.err == "pcfgnat: this model builds no trees\n"
    assert len(captured.out.splitlines()) == 2


def test_long_lines_are_split_with_a_notice(world: World, capsys: Capture) -> None:
    text = " ".join(["Der Bär läuft."] * 30)
    command = ["translate", "--model", str(world.grammar), "--decode", "greedy", "--no-split"]
    assert main([*command, "x", text]) == 0
    captured = capsys.readouterr()
    assert "pcfgnat: line 2: split into 30 pieces: " in captured.err
    assert len(captured.out.splitlines()) == 2


def test_broken_text_is_located_and_nothing_lost(
    world: World, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, "Der Bär.\nläuft\n".encode() + b"ab\xff\n")
    assert main(["translate", "--model", str(world.teacher)]) == 2
    captured = capsys.readouterr()
    assert captured.err == "pcfgnat: error: stdin line 3 must be UTF-8, got byte 0xff at position 3\n"
    assert len(captured.out.splitlines()) == 2
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\n\xe4\n")
    result = tmp_path / "result.txt"
    found = error(capsys, "translate", "--model", world.teacher, "--input", bad, "--output", result)
    assert found == f"{bad} line 2 must be UTF-8, got byte 0xe4 at position 1"
    assert not result.exists()
    assert len((tmp_path / "result.txt.partial").read_text().splitlines()) == 1
    bad.with_suffix(".gz").write_bytes(gzip.compress(b"good\n" * 99)[:-12])
    assert "cannot read" in error(
        capsys, "translate", "--model", world.teacher, "--input", bad.with_suffix(".gz")
    )


def test_translate_names_what_is_wrong(world: World, tmp_path: Path, capsys: Capture) -> None:
    model = ("translate", "--model", world.teacher)
    assert error(capsys, *model, "--input", "f", "x") == "either texts or --input may be given, got both"
    missing = tmp_path / "missing"
    assert error(capsys, *model, "--input", missing) == f"cannot read {missing}: No such file or directory"
    output = ("--output", tmp_path / "output")
    assert error(capsys, *model, "--input", missing, *output).startswith(f"cannot read {missing}: No such")
    assert not list(tmp_path.iterdir())
    unwritable = missing / "x"
    assert error(capsys, *model, "x", "--output", unwritable, code=1).endswith("No such file or directory")
    assert "is a directory" in error(capsys, *model, "x", "--output", tmp_path)
    assert "must be a checkpoint" in error(capsys, "translate", "--model", missing, "x")
    assert error(capsys, *model, "x", "--device", "abacus").startswith("--device must be cpu")
    assert "text 1 must be UTF-8" in error(capsys, *model, "a\udcff")
    with pytest.raises(SystemExit, match="2"):
        main(["translate", "--batch", "0", "x"])
    assert "must be a positive integer, got '0'" in capsys.readouterr().err


def test_translating_a_file_goes_on_where_it_was(world: World, tmp_path: Path, capsys: Capture) -> None:
    source, result = written(tmp_path / "in.txt", *LINES), tmp_path / "out.txt"
    record, partial = tmp_path / "out.txt.progress.toml", tmp_path / "out.txt.partial"
    arguments = (
        "translate",
        "--model",
        world.grammar,
        "--input",
        source,
        "--output",
        result,
        "--batch",
        "1",
        "--nbest",
        "2",
    )
    written(result, "an old one")
    out(capsys, *arguments)
    whole = result.read_bytes()
    assert not record.exists()
    source.write_bytes(source.read_bytes() + b"\xff\n")
    assert "line 6 must be UTF-8" in error(capsys, *arguments)
    assert result.read_bytes() == whole  # until the new one is complete
    assert partial.read_bytes() == whole
    assert "cannot resume: strategy changed from viterbi to greedy" in error(
        capsys, *arguments, "--decode", "greedy"
    )
    damaged = partial.read_bytes()
    partial.write_bytes(damaged[:-1] + b"?")
    assert f"{partial} is damaged: the sha256 of its first" in error(capsys, *arguments)
    partial.write_bytes(damaged + b"half a li")
    written(source, *LINES, *LINES)
    assert main([str(argument) for argument in arguments]) == 0
    assert f"resuming after 5 lines; to start over, delete {record}" in capsys.readouterr().err
    lines = result.read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == sorted((line.split("\t")[0] for line in lines), key=int)
    half = len(lines) // 2
    assert [line.split("\t")[1:] for line in lines[:half]] == [line.split("\t")[1:] for line in lines[half:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_another_source_is_noticed(world: World, tmp_path: Path, capsys: Capture) -> None:
    source = written(tmp_path / "in.txt", *LINES)
    source.write_bytes(source.read_bytes() + b"\xff\n")
    arguments = ("translate", "--model", world.teacher, "--input", source, "--output", tmp_path / "out.txt")
    assert "line 6 must be UTF-8" in error(capsys, *arguments)
    written(source, "Something else.", *LINES[1:], "and more")
    main([str(argument) for argument in arguments])
    assert "the first 5 lines of the source differ from those that were translated" in capsys.readouterr().err


def test_output_to_a_device_does_not_replace_it(world: World, capsys: Capture) -> None:
    out(capsys, "translate", "--model", world.teacher, "x", "--output", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_evaluate(world: World, tmp_path: Path, capsys: Capture) -> None:
    prepared = Prepared.open(world.prepared)
    source, reference = prepared.raw("test")
    perfect = written(tmp_path / "perfect.txt", *reference)
    result = tmp_path / "result.json"
    text = out(
        capsys, "evaluate", f"ours={world.teacher}", f"them={perfect}", "--data", world.prepared,
        "--json", result, "--save", tmp_path / "saved",
    )  # fmt: skip
    translations = [found.text for found in Translator.load(world.teacher)(source)]
    data = json.loads(result.read_text())
    ours, them = data["systems"]
    assert ours["scores"]["bleu"] == measures_for("zh").score(translations, reference).bleu
    assert "tok:zh" in ours["scores"]["bleu_signature"]
    assert (ours["strategy"], ours["length_penalty"]) == ("beam", 1.0)
    assert ours["sentences_per_second"] > 0
    assert them["scores"]["bleu"] == pytest.approx(100)
    assert them["significance"]["bleu_p"] < 0.05
    assert (tmp_path / "saved" / "ours.txt").read_text().splitlines() == translations
    assert "them" in text
    assert ours["scores"]["chrf_signature"] in text


def test_evaluate_sweeps_and_tunes(world: World, tmp_path: Path, capsys: Capture) -> None:
    result = tmp_path / "result.json"
    arguments = ("evaluate", world.grammar, "--data", world.prepared, "--json", result)
    text = out(capsys, *arguments, "--sweep", "0.5:1.5:0.5")
    points = json.loads(result.read_text())["systems"][0]["sweep"]
    assert [point["length_penalty"] for point in points] == [0.5, 1.0, 1.5]
    source, reference = Prepared.open(world.prepared).raw("test")
    for point in points:
        translator = Translator.load(
            world.grammar, options=TranslateOptions(length_penalty=point["length_penalty"])
        )
        lines = [found.text for found in translator(source)]
        assert measures_for("zh").bleu(lines, reference) == (point["bleu"], point["length_ratio"])
    assert "β varied on test" in text
    out(capsys, *arguments, "--tune-on", "valid", "--sweep", "0.5,1.5")
    (system,) = json.loads(result.read_text())["systems"]
    assert system["length_penalty"] == max(system["sweep"], key=lambda point: point["bleu"])["length_penalty"]
    source, reference = Prepared.open(world.prepared).raw("valid")
    valid = Translator.load(world.grammar, options=TranslateOptions(length_penalty=0.5))(source)
    assert (
        measures_for("zh").bleu([str(found) for found in valid], reference)[0] == system["sweep"][0]["bleu"]
    )


def test_evaluate_text_that_is_split(world: World, tmp_path: Path, capsys: Capture) -> None:
    result = tmp_path / "result.json"
    out(capsys, "evaluate", world.marked, "--data", world.prepared_marked, "--json", result, "--limit", "3")
    (system,) = json.loads(result.read_text())["systems"]
    assert "tok:none" in system["scores"]["tokenised_bleu_signature"]
    assert system["scores"]["sentences"] == 3


def test_evaluate_names_what_is_wrong(world: World, tmp_path: Path, capsys: Capture) -> None:
    two, three = written(tmp_path / "two", "a", "b"), written(tmp_path / "three", "a", "b", "c")
    empty = written(tmp_path / "empty")
    assert (
        error(capsys, "evaluate", two, "--reference", three)
        == f"{two} must have 3 lines, one per reference, got 2"
    )
    assert "must have the same number of lines, got 2 and 3" in error(
        capsys, "evaluate", two, "--source", two, "--reference", three
    )
    assert "at least one reference" in error(capsys, "evaluate", empty, "--reference", empty)
    assert "models need source text to translate" in error(
        capsys, "evaluate", world.teacher, "--reference", two
    )
    assert "does not exist" in error(capsys, "evaluate", tmp_path / "x", "--reference", two)
    assert "twice" in error(capsys, "evaluate", two, two, "--reference", two)
    assert "must be either --data" in error(capsys, "evaluate", two)
    assert "must look like" in error(capsys, "evaluate", two, "--reference", two, "--sweep", "a:b")
    assert "tokenize must be one of" in error(capsys, "evaluate", two, "--reference", two, "--tokenize", "x")


def test_distill(world: World, tmp_path: Path, capsys: Capture) -> None:
    source = (world.root / "test.de").read_text().splitlines()
    arguments = ("distill", "--model", world.teacher, "--output", tmp_path / "d", "--decode", "greedy")
    files = ("--input", world.root / "test.de", world.root / "test.de")
    out(capsys, *arguments, *files)
    expected = [
        result.text
        for result in Translator.load(world.teacher, options=TranslateOptions(strategy="greedy"))(source)
    ]
    assert (tmp_path / "d.de").read_text().splitlines() == source * 2
    assert (tmp_path / "d.zh").read_text().splitlines() == expected * 2
    assert out(capsys, *arguments, *files).startswith("complete already: 16 lines")
    assert "cannot resume: strategy changed from greedy to beam" in error(
        capsys, *arguments[:-1], "beam", *files
    )
    empty = written(tmp_path / "empty")
    assert "at least one line" in error(
        capsys, "distill", "--model", world.teacher, "--output", tmp_path / "e", "--input", empty
    )
    out(
        capsys, "prepare", "--train", tmp_path / "d", "--source", "de", "--target", "zh",
        "--tokenizer", world.teacher / "tokenizer", "--max-ratio", "inf", "--output", tmp_path / "p",
    )  # fmt: skip


@pytest.mark.parametrize("marked", [False, True])
def test_distill_prepared_text(world: World, tmp_path: Path, capsys: Capture, marked: bool) -> None:
    model, data = (world.marked, world.prepared_marked) if marked else (world.teacher, world.prepared)
    out(
        capsys, "distill", "--model", model, "--data", data, "--decode", "greedy",
        "--output", tmp_path / "d", "--suffixes", "a", "b",
    )  # fmt: skip
    corpus, tokenizer = Prepared.open(data).corpus("train"), Checkpoint.open(model).tokenizer
    sources = (tmp_path / "d.a").read_text().splitlines()
    assert len(sources) == len((tmp_path / "d.b").read_text().splitlines()) == len(corpus)
    assert tokenizer.encode_all(sources) == [ids.tolist() for ids, _ in corpus]


def test_average_and_info(world: World, tmp_path: Path, capsys: Capture) -> None:
    out(capsys, "average", world.teacher, world.other, "--output", tmp_path / "mean")
    means = Checkpoint.open(tmp_path / "mean").weights()
    one, two = Checkpoint.open(world.teacher).weights(), Checkpoint.open(world.other).weights()
    assert all(bool((means[name] - (one[name] + two[name]) / 2).abs().max() < 1e-6) for name in means)
    out(capsys, "average", world.teacher, "--half", "--length-penalty", "1.25", "--output", tmp_path / "half")
    assert Checkpoint.open(tmp_path / "half").metadata.decoding.length_penalty == 1.25
    halves = Checkpoint.open(tmp_path / "half").weights()
    assert all(bool((halves[name] == one[name].half()).all()) for name in one)
    assert "average_of" not in Checkpoint.open(tmp_path / "half").metadata.training
    assert "must be of one network" in error(
        capsys, "average", world.teacher, world.grammar, "--output", tmp_path / "x"
    )
    facts = json.loads(out(capsys, "info", world.grammar, "--json"))
    assert (facts["network"], facts["tokenizer"], facts["vocabulary"]) == ("pcfg", "sentencepiece", 150)
    assert facts["parameters"] == sum(
        weight.numel() for weight in Checkpoint.open(world.grammar).network().parameters()
    )
    assert facts["strategies"][0] == "viterbi"
    text = out(capsys, "info", world.grammar)
    assert "upsampling" in text
    assert "source  de" in text
    assert "vocabulary size   150" in out(capsys, "info", world.prepared)


def test_damaged_checkpoints_are_named(world: World, tmp_path: Path, capsys: Capture) -> None:
    for name, content in tree(world.teacher).items():
        path = tmp_path / "broken" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[: len(content) // 2] if name == "model.safetensors" else content)
    for arguments in (("info",), ("translate", "x", "--model")):
        assert "is damaged" in error(capsys, *arguments, tmp_path / "broken")
    (tmp_path / "broken" / "checkpoint.toml").unlink()
    assert "has no checkpoint.toml" in error(capsys, "info", tmp_path / "broken")


def test_train(world: World, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f'data = "{world.prepared}"\noutput = "{tmp_path / "run"}"\nsteps = 9\n'
        '[network]\nname = "autoregressive"\n[objective]\nname = "cross_entropy"\n'
        "[network.transformer]\nlayers_encoder = 1\nlayers_decoder = 1\nwidth = 8\nffn = 8\nheads = 1\n"
        "max_positions = 200\n[batches]\nsentences = 8\n[validation]\nsentences = 1\n"
    )
    text = out(capsys, "train", config, "steps=1", "optimiser.warm_up=1", "threads=1")
    assert f"the model is in {tmp_path / 'run' / 'final'}" in text
    assert Checkpoint.open(tmp_path / "run" / "final").metadata.training["steps"] == 1
    assert "unknown key 'stepps'" in error(capsys, "train", config, "stepps=3")
    assert "cannot read" in error(capsys, "train", tmp_path / "missing.toml")
