import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.text.batches import Batches, BatchSettings, batches, padded, share
from pcfgnat.text.corpus import CorpusWriter, ParallelCorpus

Lengths = list[tuple[int, int]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ParallelCorpus:
    """Lengths like those of real sentences: a long tail, and sides that differ by a quarter or so."""
    chance = np.random.default_rng(0)
    source = 3 + chance.gamma(2.5, 6, 12000).astype(int)
    target = 3 + np.maximum(source * chance.normal(1, 0.15, 12000), 0).astype(int)
    return with_lengths(
        tmp_path_factory.mktemp("batches"), list(zip(source.tolist(), target.tolist(), strict=True))
    )


def with_lengths(place: Path, lengths: Lengths) -> ParallelCorpus:
    with CorpusWriter(place / "corpus", 10) as writer:
        writer.add([([5] * source, [5] * target) for source, target in lengths])
    return ParallelCorpus(place / "corpus")


def cost(corpus: ParallelCorpus, batch: list[int]) -> int:
    return len(batch) * int(max(*corpus.source_lengths[batch], *corpus.target_lengths[batch]))


def everything(plan: Batches) -> list[int]:
    return sorted(index for batch in plan for index in batch)


@pytest.mark.parametrize(
    "settings",
    [
        BatchSettings(tokens=1000),
        BatchSettings(sentences=32),
        BatchSettings(tokens=500, sentences=10),
        BatchSettings(tokens=1000, window=3),
        BatchSettings(tokens=1000, shuffle=False),
    ],
)
def test_batches_are_bounded_and_complete(corpus: ParallelCorpus, settings: BatchSettings) -> None:
    plan = batches(corpus, settings)
    assert everything(plan) == list(range(len(corpus)))
    for batch in plan:
        assert batch
        assert cost(corpus, batch) <= (settings.tokens or np.inf)
        assert len(batch) <= (settings.sentences or np.inf)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (BatchSettings(sentences=32), 0.04),
        (BatchSettings(tokens=1000), 0.04),
        (BatchSettings(tokens=4000), 0.09),
        (BatchSettings(tokens=1000, shuffle=False), 0.04),
    ],
)
def test_padding_is_small(corpus: ParallelCorpus, settings: BatchSettings, most: float) -> None:
    plan = batches(corpus, settings)
    assert 0 < plan.padding(corpus) < most
    random = BatchSettings(settings.tokens, settings.sentences, window=1)
    assert batches(corpus, random).padding(corpus) > 2 * plan.padding(corpus)


def test_padding_counts_both_sides(tmp_path: Path) -> None:
    small = with_lengths(tmp_path, [(2, 4), (4, 4), (3, 1)])
    assert Batches(np.arange(3), [(0, 2), (2, 3)]).padding(small) == pytest.approx(1 - 18 / 20)


def test_batches_are_full(corpus: ParallelCorpus) -> None:
    plan = batches(corpus, BatchSettings(tokens=1000))
    spent = [cost(corpus, batch) for batch in plan]
    assert np.mean(spent) > 950


def test_order_is_random_and_repeats(corpus: ParallelCorpus) -> None:
    settings = BatchSettings(tokens=1000)
    plans = [
        list(batches(corpus, settings, epoch=0)),
        list(batches(corpus, settings, epoch=1)),
        list(batches(corpus, BatchSettings(tokens=1000, seed=2), epoch=0)),
    ]
    assert list(batches(corpus, settings, epoch=0)) == plans[0]
    assert len({str(plan) for plan in plans}) == 3
    assert len({frozenset(plan[0]) for plan in plans}) == 3
    first, last = (np.mean([len(batch) for batch in part]) for part in (plans[0][:60], plans[0][-60:]))
    assert 0.7 < first / last < 1.4  # short and long sentences everywhere
    evaluation = BatchSettings(tokens=1000, shuffle=False)
    assert list(batches(corpus, evaluation, epoch=0)) == list(batches(corpus, evaluation, epoch=1))


def test_resuming(corpus: ParallelCorpus) -> None:
    plan = batches(corpus, BatchSettings(sentences=32), epoch=3)
    whole = list(plan)
    for place in (0, 1, 17, len(plan)):
        assert list(plan.resume_at(place)) == whole[place:]
    assert plan[5] == whole[5]
    for wrong in (-1, len(plan) + 1):
        with pytest.raises(ValueError, match=rf"^batch must be in 0 … {len(plan)}, got {wrong}$"):
            plan.resume_at(wrong)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 9))
def test_a_step_is_shared_without_overlap_or_loss(sizes: list[int], world: int) -> None:
    first = [sum(sizes[:place]) for place in range(len(sizes))]
    taken = [list(range(start, start + size)) for start, size in zip(first, sizes, strict=True)]
    parts = [share(taken, rank, world) for rank in range(world)]
    assert len({len(part) for part in parts}) == 1
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(sum(sizes)))
    assert all(any(set(piece) <= set(batch) for batch in taken) for part in parts for piece in part)
    if len(sizes) % world == 0:
        assert sorted(batch for part in parts for batch in part) == taken


def test_whoever_is_not_among_the_processes_is_told() -> None:
    with pytest.raises(ValueError, match=r"^rank must be in 0 … 1, got 2$"):
        share([[1, 2]], 2, 2)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    st.integers(9, 40) | st.none(),
    st.integers(2, 5),
    st.integers(1, 3),
    st.booleans(),
)
def test_nothing_is_lost(
    lengths: Lengths, tokens: int | None, sentences: int, window: int, shuffle: bool
) -> None:
    settings = BatchSettings(tokens, sentences, window, shuffle)
    with tempfile.TemporaryDirectory() as place:
        small = with_lengths(Path(place), lengths)
        plan = batches(small, settings)
        assert everything(plan) == list(range(len(lengths)))
        assert all(cost(small, batch) <= (tokens or np.inf) for batch in plan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "tokens or sentences must be given, got neither"),
        ({"tokens": 0}, "tokens must be at least 1, got 0"),
        ({"sentences": -1}, "sentences must be at least 1, got -1"),
        ({"sentences": 1, "window": 0}, "window must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        BatchSettings(**settings)  # type: ignore[arg-type]


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    small = with_lengths(tmp_path, [(3, 9), (5, 5), (3, 3)])
    message = "^tokens must be at least 9, the length of the longest sentence, got 4, which 2 pairs do not"
    with pytest.raises(ValueError, match=message):
        batches(small, BatchSettings(tokens=4))


def test_padded() -> None:
    ids, lengths = padded(
        [np.array([1, 2], np.uint16), np.array([], np.uint16), np.array([3], np.uint16)], pad=9
    )
    assert ids.tolist() == [[1, 2], [9, 9], [3, 9]]
    assert lengths.tolist() == [2, 0, 1]
    assert padded([])[0].shape == (0, 0)
