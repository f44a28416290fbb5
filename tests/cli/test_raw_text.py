"""A checkpoint of split text that carries its codes, as users meet it."""

from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.cli import main
from pcfgnat.networks import PCFGConfig, PCFGNetwork
from pcfgnat.nn import LinkConfig
from pcfgnat.server.models import ServedModel
from pcfgnat.text import Prepared
from pcfgnat.translator import TranslateOptions, Translator
from tests.runtimes.models import SMALL
from tests.text.bilingual import write_lines
from tests.text.split_corpus import ENGLISH, GERMAN, split_corpus

CORPUS = split_corpus()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with a corpus that `prepare` read, and a model of random weights."""
    place = tmp_path_factory.mktemp("raw")
    write_lines(place / "bpe.en", CORPUS.english)
    write_lines(place / "bpe.de", CORPUS.german)
    write_lines(place / "raw.en", ENGLISH)
    write_lines(place / "raw.de", GERMAN)
    write_lines(place / "types", CORPUS.types)
    (place / "codes").write_bytes(CORPUS.codes)
    text = str(place / "bpe")
    codes = [
        "--subword-vocabulary",
        f"{place}/types",
        "--subword-codes",
        f"{place}/codes",
        "--moses",
        "aggressive",
    ]
    options = [
        "--train",
        text,
        "--test",
        text,
        "--source",
        "en",
        "--target",
        "de",
        "--output",
        f"{place}/data",
    ]
    assert main(["prepare", *options, *codes]) == 0
    tokenizer = Prepared.open(place / "data").tokenizer
    torch.manual_seed(3)
    network = PCFGNetwork(
        PCFGConfig(SMALL, upsampling=2, rules=LinkConfig(heads=2)), tokenizer.vocabulary_size
    )
    metadata = describe("pcfg", network.config, tokenizer.vocabulary_size, DecodingDefaults("viterbi"))
    save_checkpoint(place / "model", network, tokenizer, metadata)
    return place


def test_loaded_models_take_raw_text(root: Path) -> None:
    translator = Translator.load(root / "model")
    corpus = translator.for_corpus_text()
    short = [
        index for index, line in enumerate(CORPUS.english) if len(line.split()) < SMALL.max_positions - 2
    ]
    assert short
    for index in short:
        raw, split = translator(ENGLISH[index]), corpus(CORPUS.english[index])
        assert (raw.pieces, raw.score) == (split.pieces, split.score)
        assert raw.text == translator.tokenizer.decode(corpus.tokenizer.encode(" ".join(raw.pieces)))
    served = ServedModel.load("raw", root / "model").translator.with_options(TranslateOptions())
    assert served(ENGLISH[0]).text == translator(ENGLISH[0]).text


def test_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--model", f"{root}/model", ENGLISH[0]]) == 0
    assert capsys.readouterr().out == f"{Translator.load(root / 'model')(ENGLISH[0]).text}\n"
    files = ["--source", f"{root}/raw.en", "--reference", f"{root}/raw.de"]
    assert main(["evaluate", f"{root}/model", "--raw", *files]) == 0
    assert "13a" in capsys.readouterr().out
    assert main(["evaluate", f"{root}/model", "--raw", "--data", f"{root}/data"]) != 0
    assert "--raw must come with --source and --reference, got --data" in capsys.readouterr().err


def test_a_wrong_file_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(root / "bpe")
    options = ["--train", text, "--source", "en", "--target", "de", "--output", f"{root}/other"]
    codes = ["--subword-vocabulary", f"{root}/types", "--subword-codes", f"{root}/raw.en"]
    assert main(["prepare", *options, *codes]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{root}/raw.en line 1 must be two subwords and a space, got" in line
    assert not (root / "other").exists()
