"""Contenders in processes of their own."""

import json
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
from benchmarks.products import ProductsRunner
from benchmarks.speed import comparisons, paper_size
from benchmarks.synthetic import sentences

from benchmarks import speed
from pcfgnat.benchmark import rounds
from pcfgnat.benchmark.contender import Case, Contender, selected
from pcfgnat.benchmark.process import ContenderError, Worker
from pcfgnat.benchmark.report import report
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.run import Grid
from pcfgnat.benchmark.runners import load_runner
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.translator import load_model
from tests.benchmarks.tiny import TINY, tiny_cache

CHOSEN = ["ar-ctranslate2-int8-greedy*", "pcfg-onnx-int8-viterbi-shortlist", "pcfg-products-int8-shortlist"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def one(cache: Path, name: str) -> Contender:
    models = tiny_cache(cache)
    (contender,) = selected(models.contenders(), [name])
    models.build(contender)
    return contender


@pytest.mark.slow
def test_a_run_measures_everyone_and_reports(cache: Path, tmp_path: Path) -> None:
    grid = Grid([Case(10, 1), Case(25, 1), Case(25, 2)], threads=[1], rounds=2, seconds=1.0)
    results = paper_size(tiny_cache(cache), grid, CHOSEN, tmp_path, lambda _: None)
    assert not results.failures
    assert len(results.samples) == 4 * 3
    assert all(len(sample.rounds) == 2 and all(sample.rounds) for sample in results.samples)
    assert all(memory.peak >= memory.loaded > 1e6 for memory in results.memory)
    assert Results.load(tmp_path) == results
    printed = report(results, tmp_path, comparisons(results))
    for expected in ("latency-1.png", "throughput-1.png", "share of the time", "shortlist on both sides"):
        assert expected in printed
    assert "![latency-1](latency-1.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "latency-1.png").stat().st_size > 1000
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert data["machine"]["cores"] >= 1
    assert data["settings"]["interrupted"] is False


def test_who_fails_is_left_out_and_the_others_go_on(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tiny_cache(cache)
    good = one(cache, "ar-ctranslate2-int8-greedy")
    bad = replace(good, name="bad", directory=tmp_path / "nothing")
    monkeypatch.setattr(models, "contenders", lambda: [bad, good])
    monkeypatch.setattr(models, "build", lambda _: None)
    results = paper_size(models, Grid([Case(10, 1)], [1], rounds=1), [], tmp_path / "out", lambda _: None)
    assert list(results.failures) == ["bad, 1 threads"]
    assert "nothing" in results.failures["bad, 1 threads"]
    assert [sample.contender for sample in results.samples] == [good.name]
    assert "left out:\nbad, 1 threads: " in report(results, tmp_path / "out")


def test_after_an_interruption_everything_until_then_is_there(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def turn(self: rounds._Measurement, worker: Worker, case: Case, number: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # in the second round
            raise KeyboardInterrupt
        original(self, worker, case, number)

    original = rounds._Measurement._turn
    monkeypatch.setattr(rounds._Measurement, "_turn", turn)
    grid, chosen = Grid([Case(10, 1)], [1], rounds=9), ["ar-ctranslate2-int8-greedy"]
    results = paper_size(tiny_cache(cache), grid, chosen, tmp_path, lambda _: None)
    assert results.settings["interrupted"] is True
    assert len(Results.load(tmp_path).samples[0].rounds) == 1
    assert chosen[0] in report(results, tmp_path)


def test_a_process_that_dies_says_why(cache: Path) -> None:
    with Worker(one(cache, "ar-ctranslate2-int8-greedy"), 1) as worker:
        worker._process.kill()
        with pytest.raises(ContenderError, match="its process ended with code -9"):
            worker.ask("time", [["x"]], 10, 0.0)


def test_token_by_token_models_write_as_much_as_they_read(cache: Path) -> None:
    tokenizer = tiny_cache(cache).tokenizer()
    sources = tokenizer.encode_all(sentences(tokenizer, 12, 4))
    runtime = load_model(one(cache, "ar-torch-beam").directory).runtime
    for name in ("greedy", "beam"):
        found = parse_strategy(name, runtime).decode(runtime, sources, Request(max_length=12))
        assert {len(best.ids) for best, *_ in found} == {12}
    foreign = ctranslate2.Translator(str(one(cache, "ar-ctranslate2-int8-beam").directory), intra_threads=1)
    for beam in (1, 5):
        results = foreign.translate_batch(
            list(map(tokenizer.pieces, sources)), beam_size=beam, max_decoding_length=11
        )
        assert {len(result.hypotheses[0]) for result in results} == {11}


@pytest.mark.slow
def test_all_contenders_can_be_loaded_and_translate(cache: Path) -> None:
    texts = sentences(tiny_cache(cache).tokenizer(), 10, 2)
    for contender in tiny_cache(cache).contenders():
        tiny_cache(cache).build(contender)
        limit = contender.runtime == "products"
        found = (ProductsRunner if limit else load_runner)(contender, 1).run(texts, 10)
        assert len(found) == (0 if limit else 2), contender.name


def test_contenders_can_be_listed_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed.main(["--list", "--cache", str(tmp_path)])
    names = capsys.readouterr().out.split()
    assert len(names) == len(set(names)) == len(tiny_cache(tmp_path).contenders())
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="'nobody' must fit one of the contenders"):
        speed.main(["--contenders", "nobody", "--cache", str(tmp_path), "--output", str(tmp_path)])


def test_all_have_the_same_size_and_vocabulary() -> None:
    sizes = {name: config.transformer for name, (_, config) in TINY.models().items()}
    assert len({(shape.width, shape.ffn, shape.heads) for shape in sizes.values()}) == 1
    assert {sizes[name] for name in ("pcfg", "pcfg2", "dag", "ctc", "ar")} == {TINY.transformer}
    depths = {name: (shape.layers_encoder, shape.layers_decoder) for name, shape in sizes.items()}
    assert depths["pcfg12-1-lambda1"] == depths["pcfg12-1-lambda2"] == depths["ar12-1"]
    assert depths["ar12-1"][0] > depths["ar6-1"][0]
