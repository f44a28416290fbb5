"""The share of the best structure, against enumeration of all structures."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.analysis import AnalysisError, Subject, concentration, concentration_report
from pcfgnat.analysis.lengths import by_length
from pcfgnat.networks import CanvasNetwork
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.structures import CTC, DAG, RHPCFG, Padded
from tests.analysis.subjects import png_size, subject, texts
from tests.support.grammars import oracle
from tests.support.oracle import log_sum
from tests.support.oracle_lattices import CTCOracle, DAGOracle

PAIRS = [
    ("", "boat"),
    ("runs", "the boat runs"),
    ("", ""),
    ("very", "bo@@ thers runs , ."),
    ("the", "the the"),
]


def enumerated(network: CanvasNetwork, source: list[int], target: list[int]) -> list[float]:
    """Log-probabilities of all structures of a target, best first."""
    distribution = translation_distribution(network, Padded.from_lists([source]))
    if isinstance(distribution, RHPCFG):
        return [score for score, _ in oracle(distribution, 0).of(target)]
    if isinstance(distribution, DAG):
        lattice = DAGOracle(distribution.transitions[0].tolist(), distribution.emit[0].tolist())
        return [score for score, _ in lattice.of(target)]
    assert isinstance(distribution, CTC)
    return [score for score, _ in CTCOracle(distribution.log_probs[0].tolist(), BLANK).of(target[1:-1])]


@pytest.mark.parametrize(
    ("kind", "name", "pairs"),
    [
        ("pcfg", "pcfg", PAIRS),
        ("pcfg", "pcfg of depth 2", [PAIRS[0], PAIRS[2], ("", "the boat runs .")]),
        ("dag", "dag", PAIRS),
        ("ctc", "ctc", [PAIRS[0], PAIRS[2], ("", "the the"), ("", "the boat runs")]),
    ],
)
def test_is_best_over_total(kind: str, name: str, pairs: list[tuple[str, str]]) -> None:
    studied, corpus = subject(kind, name), texts(*pairs)
    result = concentration(studied, corpus)
    assert [share.line for share in result.shares] == list(range(1, len(pairs) + 1))
    for share, (source, target) in zip(result.shares, corpus.encoded(studied.tokenizer), strict=True):
        scores = enumerated(studied.network, source, target)
        assert share.tokens == len(target) - 2
        assert share.log_prob == pytest.approx(log_sum(scores), abs=1e-9)
        assert share.log_share == pytest.approx(scores[0] - log_sum(scores), abs=1e-9)
    assert result.values() == [math.exp(share.log_share) for share in result.shares]


def test_batches_change_nothing_and_order_is_kept() -> None:
    studied = subject("pcfg")
    whole = concentration(studied, texts(*PAIRS)).shares
    for line, pair in enumerate(PAIRS, start=1):
        (alone,) = concentration(studied, texts(pair)).shares
        assert whole[line - 1].line == line
        assert whole[line - 1].log_share == pytest.approx(alone.log_share, abs=1e-9)


def test_what_cannot_be_derived_is_named() -> None:
    long_source = " ".join(["boat"] * 50)
    corpus = texts(("", "boat"), ("", " ".join(["boat"] * 30)), (long_source, "boat"))
    result = concentration(subject("pcfg"), corpus)
    assert [share.line for share in result.shares] == [1]
    assert [row["line"] for row in result.left_out] == [2, 3]
    assert "32 tokens, but 5 main-chain nodes" in str(result.left_out[0]["reason"])
    assert result.left_out[1]["reason"] == "52 source tokens, but the model reads at most 40"
    text = concentration_report(corpus, [result]).text
    assert "2 left out (line 2: 32 tokens, but" in text


def test_models_without_a_choice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="slots must be one of pcfg, dag, ctc, got slots"):
        concentration(subject("slots"), texts(*PAIRS))


def test_report_has_the_figures_of_all_models(tmp_path: Path) -> None:
    corpus = texts(*PAIRS, ("", "the boat runs . the boat runs ."))  # too long for the lattice
    results = [concentration(subject(kind), corpus) for kind in ("pcfg", "dag")]
    report = concentration_report(corpus, results)
    paths = report.write(tmp_path / "new" / "directory")
    assert [path.name for path in paths] == ["concentration.md", "concentration.json", "concentration.png"]
    data = json.loads(paths[1].read_text())
    grammar, lattice = data["models"]
    assert (grammar["sentences"], lattice["sentences"], data["common_sentences"]) == (5, 5, 5)
    assert lattice["left_out"][0]["line"] == 6
    assert grammar["mean"] == pytest.approx(sum(results[0].values()) / 5)
    assert grammar["quantiles"]["0.5"] == sorted(results[0].values())[2]
    assert sum(row["sentences"] for row in grammar["by_length"].values()) == 5
    assert f"{grammar['mean']:.4f}" in report.text
    assert png_size(paths[2])[0] > 1000
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in report.write(tmp_path / "new" / "directory")] == before
    assert len(list((tmp_path / "new" / "directory").iterdir())) == 3


def test_means_in_common_count_only_what_all_can_derive() -> None:
    corpus = texts(*PAIRS)
    whole = concentration(subject("pcfg"), corpus)
    part = replace(whole, name="part", shares=whole.shares[1:4])
    data = concentration_report(corpus, [whole, part]).data
    expected = sum(whole.values()[1:4]) / 3
    assert [model["mean_common"] for model in data["models"]] == pytest.approx([expected, expected])


def test_lengths_fall_into_classes() -> None:
    assert by_length([(5, "a"), (51, "d"), (6, "b"), (0, "c")]) == {
        "0\u20135": ["a", "c"],
        "6\u201310": ["b"],
        "> 50": ["d"],
    }


def test_a_subject_knows_its_kind() -> None:
    studied: Subject = subject("dag")
    studied.require("dag", "pcfg", reason="")
    with pytest.raises(AnalysisError, match="dag must be one of ctc, got dag: because"):
        studied.require("ctc", reason="because")
