"""Which language a comparison is scored for, and that all commands agree on it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint, save_checkpoint
from pcfgnat.checkpoints.metadata import Languages
from pcfgnat.cli import main
from pcfgnat.decoding import DecodingError
from pcfgnat.evaluation import (
    Comparison,
    EvaluationSet,
    Measures,
    choose_measures,
    measures_for,
    parse_betas,
    render,
)
from pcfgnat.text import Prepared
from pcfgnat.training.config import TrainingError, ValidationConfig
from pcfgnat.training.validation import Validator
from pcfgnat.translator import TranslateOptions, Translator
from tests.cli.conftest import World

FILES = EvaluationSet("files", ["a b c d"])


def translating_into(language: str, model: Path, place: Path) -> Path:
    opened = Checkpoint.open(model)
    metadata = replace(opened.metadata, languages=Languages("de", language))
    save_checkpoint(place, opened.weights(), opened.tokenizer, metadata)
    return place


def test_the_language_is_that_of_the_data_or_else_of_the_checkpoints(world: World, tmp_path: Path) -> None:
    german = translating_into("de", world.teacher, tmp_path / "german")
    unstated = translating_into("", world.teacher, tmp_path / "unstated")
    assert choose_measures(FILES, {"a": world.teacher, "b": unstated}) == Measures("zh")
    assert choose_measures(FILES, {"a": unstated}) == choose_measures(FILES, {"a": german}) == Measures("13a")
    assert choose_measures(FILES, {"embedded": None}) == Measures("13a")  # into German
    chinese = replace(FILES, target_language="cmn")
    assert choose_measures(chinese, {"a": german}) == Measures("zh")
    with pytest.raises(
        ValueError, match="must translate into one language, got de and zh; --tokenize settles"
    ):
        choose_measures(FILES, {"a": world.teacher, "b": german})
    assert choose_measures(FILES, {"a": world.teacher, "b": german}, True, "intl") == Measures("intl", True)


@pytest.mark.parametrize("language", ["cmn", "chinese", "zh-TW", "de", ""])
def test_validation_scores_as_evaluation_does(language: str, world: World) -> None:
    validator = Validator(Prepared.open(world.prepared), ValidationConfig(), language, seed=1)
    assert validator.measures == measures_for(language)


def test_validation_reports_what_it_needs_before_training(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(TrainingError, match=r"validation: BLEU of Japanese text needs .*pcfgnat\[japanese\]"):
        Validator(Prepared.open(world.prepared), ValidationConfig(), "ja", seed=1)


def test_beta_is_tuned_elsewhere(world: World) -> None:
    test, valid = (EvaluationSet.prepared(world.prepared, split).first(2) for split in ("test", "valid"))
    comparison = Comparison(test, measures_for("zh"), (0.5, 1.5), tuning=valid)
    report, lines = comparison.run({"a": world.grammar}, lambda path: Translator.load(path))
    (system,) = report.systems
    assert (report.tuned_on, report.sweep_on) == ("valid", "valid")
    assert system.length_penalty == max(system.sweep, key=lambda point: point.bleu).length_penalty
    assert len(lines["a"]) == 2
    assert system.significance is None


def test_the_weight_of_rescore_is_tuned_at_the_best_beta(world: World) -> None:
    test, valid = (EvaluationSet.prepared(world.prepared, split).first(3) for split in ("test", "valid"))
    comparison = Comparison(test, measures_for("zh"), (0.5, 1.5), tuning=valid)
    options = TranslateOptions(strategy="rescore:size=3,weight=0.55")
    pair = Translator.load(world.grammar, options=options, verifier=world.teacher)
    report, _ = comparison.run({"a": world.grammar}, lambda path: pair)
    (system,) = report.systems
    assert [point.weight for point in system.weights] == [i / 10 for i in range(11)]
    best = max(system.weights, key=lambda point: point.bleu)
    assert system.settings == f"rescore:size=3,weight={best.weight},verify=true"
    assert system.length_penalty in (0.5, 1.5)
    tuned = pair.with_options(replace(pair.options, length_penalty=system.length_penalty))
    columns = tuned.weigh(valid.source_for(tuned.tokenizer), [best.weight])
    assert best.bleu == measures_for("zh").bleu(columns[0], valid.reference)[0]
    assert "a, weight varied on valid" in render(report)
    assert [point.length_penalty for point in system.sweep] == [0.5, 1.5]
    with pytest.raises(DecodingError, match="weights are those of rescore, got viterbi"):
        Translator.load(world.grammar).weigh(["a"], [1.0])


def test_values_of_beta() -> None:
    assert parse_betas("0.5:1:0.25") == [0.5, 0.75, 1.0]
    assert parse_betas("1,1.2") == [1.0, 1.2]
    for text, message in (
        ("a:b", "must look like"),
        ("0:1", "must look like"),
        ("1:0:0.1", "must go up"),
        ("0:1:0", "must go up"),
        ("0:1:1e-9", "must have at most 1000 values"),
        ("0:1:1e-320", "must have at most 1000 values"),
        ("0:1e9:1", "must stay in -100 … 100"),
        ("1,nan", "must stay in -100 … 100"),
        ("-inf", "must stay in -100 … 100"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_betas(text)


def test_the_command_knows_the_language_of_a_checkpoint(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(world.root / "test.de"), "--reference", str(world.root / "test.zh")]
    assert main(["evaluate", str(world.teacher), *files, "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert "tok:zh" in printed
    assert "tok. BLEU" not in printed
    assert "percentage points above the references" in printed
