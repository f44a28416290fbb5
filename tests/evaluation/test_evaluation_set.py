import gzip
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.evaluation import EvaluationSet, read_translations
from pcfgnat.text import Prepared
from tests.cli.conftest import World
from tests.text.bilingual import write_lines


def test_prepared_data_has_text_language_and_marked_subwords(world: World) -> None:
    plain, split = (EvaluationSet.prepared(path, "test") for path in (world.prepared, world.prepared_marked))
    source, reference = Prepared.open(world.prepared).raw("test")
    assert (plain.source, plain.reference) == (source, reference)
    assert (plain.target_language, plain.split, plain.tokenised, split.tokenised) == (
        "zh",
        "test",
        False,
        True,
    )
    tokenizer = Checkpoint.open(world.marked).tokenizer
    ids = [pair.tolist() for pair, _ in Prepared.open(world.prepared_marked).corpus("test")]
    assert [source for source, _ in split.encoded(tokenizer)] == ids
    assert split.source_for(Checkpoint.open(world.teacher).tokenizer) == split.source


def test_files_may_be_packed_and_cut(tmp_path: Path) -> None:
    source, reference = tmp_path / "a.gz", write_lines(tmp_path / "b", ["1", "2", "3"])
    source.write_bytes(gzip.compress(b"x\ny\nz\n"))
    texts = EvaluationSet.files(source, reference)
    assert texts.first(2) == EvaluationSet(f"{source} and {reference}, first 2", ["1", "2"], ["x", "y"])
    assert texts.first(3) is texts.first(None) is texts
    assert read_translations(reference, texts.first(2), limit=2) == ["1", "2"]


def test_what_does_not_fit_together_is_named(tmp_path: Path, world: World) -> None:
    two, three = write_lines(tmp_path / "two", ["a", "b"]), write_lines(tmp_path / "three", ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"two and .*three must have the same number of lines, got 2 and 3"):
        EvaluationSet.files(two, three)
    with pytest.raises(ValueError, match="three must have 2 lines, one per reference, got 3"):
        read_translations(three, EvaluationSet.files(None, two))
    with pytest.raises(ValueError, match="must have at least one reference, got none"):
        EvaluationSet("nothing", [])
    with pytest.raises(ValueError, match="models need source text to translate, got only references in "):
        EvaluationSet.files(None, two).source_for(Checkpoint.open(world.teacher).tokenizer)
