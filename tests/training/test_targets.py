"""Sources with several targets in training: what an epoch has, and that runs resume exactly."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.text import BatchSettings, LearnSettings, ParallelCorpus, Prepared, PrepareSettings, prepare
from pcfgnat.text.corpus import write_corpus
from pcfgnat.text.targets import TargetGroups
from pcfgnat.training import TrainingError, train
from pcfgnat.training.signals import StopSignals
from pcfgnat.training.targets import TrainingPairs
from tests.text.bilingual import sentences, write_pair
from tests.training.small_runs import figures, small_run

SETTINGS = BatchSettings(sentences=8, seed=3)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 sources, of which the first 40 have a second target and the first 10 a third."""
    place = tmp_path_factory.mktemp("several")
    pairs = [pair for pair in sentences(400, 0) if len(pair[0]) < 80]
    unique = list(dict(pairs).items())
    sources = [source for source, _ in unique[:60]]
    others = [target for _, target in unique[60:]]
    texts = (
        unique[:60],
        list(zip(sources[:40], others[:40], strict=True)),
        list(zip(sources[:10], others[40:50], strict=True)),
    )
    settings = PrepareSettings(
        output=place / "data",
        train=tuple(write_pair(place, f"train{number}", text) for number, text in enumerate(texts)),
        valid=write_pair(place, "valid", unique[60:64]),
        source_language="de",
        target_language="zh",
        learn=LearnSettings(vocabulary_size=300),
    )
    prepare(settings)
    return settings.output


def corpus_of(data: Path) -> ParallelCorpus:
    return Prepared.open(data).corpus("train")


def by_source(corpus: ParallelCorpus) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for index, (source, _) in enumerate(corpus):
        found.setdefault(tuple(source.tolist()), []).append(index)
    return found


def test_pairs_are_grouped_by_their_source(several: Path) -> None:
    corpus = corpus_of(several)
    groups, expected = TargetGroups.of(corpus), by_source(corpus)
    assert len(groups) == len(expected) < len(corpus)
    assert {groups.of_pair(own[0]) == own for own in expected.values()} == {True}
    longest = groups.longest(corpus.target_lengths)
    assert all(longest[own[0]] == max(corpus.target_lengths[own]) for own in expected.values())


def test_a_mixture_takes_one_target_of_each_source_and_changes_by_epoch(several: Path) -> None:
    corpus = corpus_of(several)
    pairs, expected = TrainingPairs(corpus, "mixture"), by_source(corpus)
    epochs = []
    for epoch in range(30):
        taken = sorted(index for batch in pairs.plan(SETTINGS, epoch) for index in batch)
        again = sorted(
            index for batch in TrainingPairs(corpus, "mixture").plan(SETTINGS, epoch) for index in batch
        )
        assert taken == again
        assert all(len(set(own) & set(taken)) == 1 for own in expected.values())
        assert len(taken) == len(expected)
        epochs.append(taken)
    counts = np.bincount(np.concatenate(epochs), minlength=len(corpus))
    assert (counts > 0).all()  # every target has its turn
    assert all(batch.groups is None for batch in [pairs.batch(epochs[0][:4], CPU, 0)])


def test_a_log_sum_has_every_target_of_each_source(several: Path) -> None:
    corpus = corpus_of(several)
    pairs, expected = TrainingPairs(corpus, "log_sum"), by_source(corpus)
    plan = pairs.plan(SETTINGS, 0)
    assert sorted(index for batch in plan for index in batch) == sorted(own[0] for own in expected.values())
    rows = 0
    for indices in plan:
        batch = pairs.batch(indices, CPU, 5)
        assert batch.groups is not None
        sources, targets = batch.source.to_lists(), batch.target.to_lists()
        for source, target, group in zip(sources, targets, batch.groups.tolist(), strict=True):
            assert source == corpus[indices[group]][0].tolist()
            assert target in [corpus[index][1].tolist() for index in expected[tuple(source)]]
        rows += len(sources)
    assert rows == len(corpus)


@pytest.mark.parametrize("targets", ["mixture", "log_sum"])
def test_a_stop_in_the_middle_changes_nothing(
    targets: str, several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = (f"targets={targets}", "steps=12", "validation.every=6", "network.name=ctc")
    whole = small_run(several, tmp_path / "whole", *changes)
    assert train(whole).step == 12
    config, asked = small_run(several, tmp_path / "stopped", *changes), 0

    def stopped(_self: StopSignals) -> bool:
        nonlocal asked
        asked += 1
        return asked == 8  # in the first epoch

    with monkeypatch.context() as patch:
        patch.setattr(StopSignals, "stopped", stopped)
        assert train(config).interrupted
    assert train(config).step == 12
    assert figures(tmp_path / "stopped" / "log.csv") == figures(tmp_path / "whole" / "log.csv")
    finals = [
        Checkpoint.open(tmp_path / run / "final").metadata.weights_sha256 for run in ("stopped", "whole")
    ]
    assert finals[0] == finals[1]
    with pytest.raises(TrainingError, match=f"cannot resume .*: targets changed from '{targets}' to 'all'"):
        train(small_run(several, tmp_path / "stopped", *changes[1:]))


def test_what_cannot_be_is_named(several: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"targets=log_sum needs objective\.name=likelihood, got oaxe"):
        train(small_run(several, tmp_path / "run", "targets=log_sum", "objective.name=oaxe"))
    with write_corpus(tmp_path / "single", 20) as writer:
        writer.add([([2, 5, 3], [2, 6, 3]), ([2, 7, 3], [2, 6, 3])])
    with pytest.raises(TrainingError, match=r"targets=mixture needs sources with .*, got 2 different"):
        TrainingPairs(ParallelCorpus(tmp_path / "single"), "mixture")
