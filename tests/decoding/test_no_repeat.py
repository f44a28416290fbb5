"""No word twice in a row: exact on the lattice, against all sentences, in every runtime."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import Request, Viterbi, parse_strategy, strategy_text
from pcfgnat.decoding.constraints import Constraints
from pcfgnat.export.onnx import export_onnx
from pcfgnat.grammar.repeats import repeated_words
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import CanvasNetwork, DAGConfig, DAGNetwork, PCFGConfig, PCFGNetwork
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.runtimes.onnx import Exported, onnx_runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import Translator
from pcfgnat.translator.demands import repeat_notes
from tests.runtimes.models import save_model
from tests.runtimes.test_onnx import assert_same, sources
from tests.support.decoded import swept, translated
from tests.support.sentences import BOS, EOS
from tests.support.zoo import LINKS, UNDROPPED, opinionated

WORDS = (4, 5, 6)
SOURCE = [BOS, 5, EOS]
STARTS = frozenset({4, 5})  # 6 goes on with a word


def stuttering(name: str, seed: int) -> CanvasNetwork:
    """A tiny network with a favourite word."""
    torch.manual_seed(seed)
    network: CanvasNetwork
    if name == "dag":
        network = DAGNetwork(DAGConfig(UNDROPPED, upsampling=2, transitions=LINKS), 7)
    else:
        network = PCFGNetwork(PCFGConfig(UNDROPPED, upsampling=1, rules=LINKS), 7)
    network = opinionated(network)
    network.embeddings.tokens.weight.data[4] *= 2.0
    return network


def best_allowed(network: CanvasNetwork, starts: frozenset[int], penalty: float) -> float:
    """The best `score / L^β` of one structure with its tokens, of all sentences of up to six tokens."""
    allowed = [
        [BOS, *inner, EOS]
        for length in range(5)
        for inner in itertools.product(WORDS, repeat=length)
        if not repeated_words([BOS, *inner, EOS], starts)
    ]
    distribution = translation_distribution(network, Padded.from_lists([SOURCE] * len(allowed)))
    best = distribution.posterior(Padded.from_lists(allowed)).argmax().score.tolist()
    return float(max(score / len(ids) ** penalty for score, ids in zip(best, allowed, strict=True)))


@pytest.mark.parametrize("starts", [None, STARTS], ids=["tokens", "words"])
@pytest.mark.parametrize("name", ["pcfg", "dag"])
def test_is_the_best_of_all_sentences_without_repeats(name: str, starts: frozenset[int] | None) -> None:
    changed = 0
    for seed, penalty in itertools.product(range(2), (0.0, 2.0)):
        network = stuttering(name, seed)
        request = Request(length_penalty=penalty, max_length=6, word_starts=starts)
        ((plain,),) = translated(network, "joint-viterbi", [SOURCE], request)
        ((found,),) = translated(network, "joint-viterbi:no_repeat=true", [SOURCE], request)
        known = frozenset(range(7)) if starts is None else starts
        assert not repeated_words(found.ids, known)
        exact = best_allowed(network, known, penalty)
        assert found.score / len(found.ids) ** penalty == pytest.approx(exact, abs=1e-9)
        assert found.tree is not None
        assert found.tree.log_prob == pytest.approx(found.score, abs=1e-9)
        repeats = bool(repeated_words(plain.ids, known))
        assert repeats or found == plain  # what is best already is left alone
        changed += repeats
    assert changed > 0


@pytest.mark.parametrize("name", ["pcfg", "dag"])
@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
def test_sweeps_and_several_results_have_no_repeats_either(name: str, strategy: str) -> None:
    network, penalties = stuttering(name, 0), [0.0, 1.0, 2.0]
    by_penalty = swept(network, f"{strategy}:no_repeat=true", [SOURCE] * 2, penalties)
    for row in by_penalty:
        for penalty, found in zip(penalties, row, strict=True):
            ((alone,),) = translated(
                network, f"{strategy}:no_repeat=true", [SOURCE], Request(length_penalty=penalty)
            )
            assert alone.ids == found.ids
    several = translated(network, f"{strategy}:no_repeat=true", [SOURCE], Request(results=4))[0]
    assert not any(repeated_words(found.ids, frozenset(found.ids)) for found in several)
    assert len({found.ids for found in several}) == len(several)


@pytest.mark.parametrize("name", ["depth 1", "depth 2", "dag"])
def test_onnxruntime_finds_the_same(name: str, tmp_path: Path) -> None:
    checkpoint = save_model(tmp_path / "model", name)
    export_onnx(checkpoint, tmp_path / "onnx")
    ours, theirs = (
        onnx_runtime(Exported.open(tmp_path / "onnx")),
        torch_runtime(Checkpoint.open(checkpoint).network()),
    )
    strategy, batch = parse_strategy("joint-viterbi:no_repeat=true", ours), sources()[:5]
    request = Request(length_penalty=1.5)
    assert_same(strategy.decode(ours, batch, request), strategy.decode(theirs, batch, request))


def test_is_off_and_unwritten_by_default() -> None:
    assert strategy_text(Viterbi()) == "viterbi"
    assert strategy_text(Viterbi(no_repeat=True)) == "viterbi:no_repeat=true"


def test_repeats_that_remain_are_noted() -> None:
    """Where constraints ask for them, or a search found nothing without."""
    tokenizer, runtime = SubwordTokenizer(b"a\nb\nc"), torch_runtime(stuttering("dag", 0))
    translator = Translator(runtime, tokenizer, DecodingDefaults("joint-viterbi:no_repeat=true", 2.0))
    plain = translator("b c b")
    assert "a a" not in plain.text
    assert plain.notes == ()
    options = replace(translator.options, constraints=Constraints(require=("a a",)))
    forced = translator.with_options(options)("b c b")
    assert "a a" in forced.text
    assert forced.notes == ("words are repeated in spite of no_repeat: nothing without was found",)
    stuttered, fluent = (
        Hypothesis(ids, -1.0, tuple(range(4))) for ids in ((BOS, 4, 4, EOS), (BOS, 4, 5, EOS))
    )
    asked = (Viterbi(no_repeat=True), Request())
    assert repeat_notes(*asked, stuttered) == (
        "words are repeated in spite of no_repeat: nothing without was found",
    )
    assert repeat_notes(*asked, fluent) == ()
    assert repeat_notes(Viterbi(), Request(), stuttered) == ()
    ends = Request(word_starts=frozenset({5}))  # 4 is no word by itself
    assert repeat_notes(asked[0], ends, stuttered) == ()
