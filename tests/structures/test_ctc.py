import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import ctc_loss
from torch.testing import assert_close

from pcfgnat.structures import CTC, Padded, Search, SpecialTokens, backend
from tests.support.grammars import random_target
from tests.support.lattices import ctc_oracle, random_ctc, random_normal
from tests.support.oracle import log_sum
from tests.support.oracle_lattices import prefix_beam
from tests.support.unchecked import shapes_unchecked

SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)
NEG_INF = -math.inf


@pytest.fixture(params=["reference", "numba"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with backend(request.param):
        yield request.param


@given(slots=st.integers(1, 5), length=st.integers(0, 6), seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=60)
def test_equals_enumeration(slots: int, length: int, seed: int, data: st.DataObject) -> None:
    blank = data.draw(st.integers(0, 2))
    ctc = random_ctc(
        [slots], vocabulary=3, blank=blank, scale=data.draw(st.sampled_from([1.0, 20.0])), seed=seed
    )
    if data.draw(st.booleans()):  # some tokens impossible
        holes = torch.rand(ctc.log_probs.shape, generator=torch.Generator().manual_seed(seed)) < 0.3
        ctc = CTC(ctc.log_probs.masked_fill(holes, NEG_INF), ctc.num_slots, blank)
    target = random_target([length], vocabulary=3, seed=seed)
    structures = ctc_oracle(ctc, 0).of(target.to_lists()[0])
    for name in ("reference", "numba"):
        with backend(name):
            posterior = ctc.posterior(target)
            assert float(posterior.log_partition) == pytest.approx(log_sum([s for s, _ in structures]))
            assert float(posterior.num_derivations()) == len(structures)
            if structures:
                assert float(posterior.argmax().score) == pytest.approx(structures[0][0])
                assert tuple(posterior.argmax().position[0].tolist()) == structures[0][1]


def torch_log_prob(log_probs: Tensor, slots: Tensor, target: Padded, blank: int) -> Tensor:
    loss = ctc_loss(
        log_probs.transpose(0, 1),
        target.ids,
        slots,
        target.lengths,
        blank,
        reduction="none",
        zero_infinity=False,
    )
    return -loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_loss_of_torch(engine: str, dtype: torch.dtype) -> None:
    slots = torch.tensor([31, 24, 7, 5])
    scores = random_normal(4, 31, 6, scale=2.0).to(dtype).requires_grad_()
    target = random_target([14, 9, 0, 6], vocabulary=5)
    target = Padded(target.ids + 1, target.lengths)  # torch wants no blank among the targets, even in padding
    mine = CTC(scores.log_softmax(-1), slots, 0).log_prob(target)
    theirs = torch_log_prob(scores.log_softmax(-1), slots, target, 0)
    assert mine[3] == theirs[3] == NEG_INF
    assert mine.dtype == dtype
    assert_close(mine, theirs)
    # behind a log-softmax torch's gradient is right
    (gradient,) = torch.autograd.grad(mine[:3].sum(), scores)
    (expected,) = torch.autograd.grad(theirs[:3].sum(), scores)
    assert_close(gradient[:3], expected[:3])  # torch's is NaN for the impossible target
    assert bool((gradient[3] == 0).all())


def gradient_of(ctc: CTC, target: Padded, weight: Tensor) -> Tensor:
    log_probs = ctc.log_probs.clone().requires_grad_()
    log_prob = CTC(log_probs, ctc.num_slots, ctc.blank).log_prob(target)
    (gradient,) = torch.autograd.grad(log_prob, log_probs, weight)
    return gradient


@pytest.mark.parametrize(("slots", "lengths"), [([33, 20, 1], [16, 20, 1]), ([40, 2, 9], [3, 0, 8])])
@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_equal_the_reference(
    slots: list[int], lengths: list[int], scale: float, dtype: torch.dtype
) -> None:
    ctc = random_ctc(slots, vocabulary=7, blank=6, scale=scale, seed=5)
    log_probs = ctc.log_probs.to(dtype)
    log_probs[0, 3, 2] = NEG_INF
    ctc = CTC(log_probs, ctc.num_slots, 6)
    target, weight = random_target(lengths, vocabulary=6), torch.tensor([1.0, -2.5, 0.0], dtype=dtype)
    with backend("reference"):
        expected, best = ctc.posterior(target), ctc.posterior(target).argmax()
        log_prob, marginals = expected.log_partition, expected.marginals()
        gradient = gradient_of(ctc, target, weight)
    with backend("numba"):
        posterior = ctc.posterior(target)
        rtol, atol = (1e-5, 2e-4) if dtype == torch.float32 else (1e-11, 1e-11)
        assert_close(posterior.log_partition, log_prob, rtol=rtol, atol=atol)
        assert_close(posterior.marginals(), marginals, rtol=rtol, atol=atol)
        assert_close(gradient_of(ctc, target, weight), gradient, rtol=rtol, atol=atol)
        assert_close(posterior.argmax().score, best.score, rtol=rtol, atol=atol)
        if dtype == torch.float64:
            assert_close(posterior.argmax().position, best.position)


def test_the_empty_sentence(engine: str) -> None:
    ctc = random_ctc([4, 2])
    nothing = Padded.from_lists([[], []])
    expected = torch.stack([ctc.log_probs[0, :, 0].sum(), ctc.log_probs[1, :2, 0].sum()])
    assert_close(ctc.log_prob(nothing), expected)
    assert ctc.posterior(nothing).argmax().position.tolist() == [[-1] * 4] * 2
    assert ctc.posterior(nothing).marginals().shape == (2, 4, 0)
    assert ctc.posterior(nothing).num_derivations().tolist() == [1.0, 1.0]
    assert ctc.infeasible(nothing) == {}


def canvas(*rows: list[float]) -> CTC:
    """A single canvas from probabilities; the blank is 0."""
    return CTC(torch.tensor([rows], dtype=torch.float64).log(), torch.tensor([len(rows)]), 0)


@pytest.mark.parametrize(
    ("slots", "ids", "nodes"),
    [
        ([1, 1, 2], (1, 2), (0, 2)),
        ([1, 0, 1], (1, 1), (0, 2)),
        ([0, 2, 2, 0, 1, 1, 2], (2, 1, 2), (1, 4, 6)),
        ([0, 0], (), ()),
    ],
)
@pytest.mark.parametrize("strategy", ["greedy", "viterbi"])
def test_repeats_collapse_and_blanks_go(
    strategy: str, slots: list[int], ids: tuple[int, ...], nodes: tuple[int, ...]
) -> None:
    ctc = canvas(*[[0.8 if token == chosen else 0.1 for token in range(3)] for chosen in slots])
    (hypothesis,) = ctc.mode(Search(strategy))
    assert (hypothesis.ids, hypothesis.nodes) == (ids, nodes)
    assert hypothesis.score == pytest.approx(len(slots) * math.log(0.8))


@pytest.mark.parametrize("strategy", ["greedy", "viterbi"])
def test_mode_is_the_best_alignment(strategy: str) -> None:
    ctc = random_ctc([5, 4, 3], seed=4)
    for b, hypothesis in enumerate(ctc.mode(Search(strategy))):
        score, ids, position = max(ctc_oracle(ctc, b).alignments())
        assert hypothesis.ids == ids
        assert hypothesis.score == pytest.approx(score)
        assert hypothesis.nodes == tuple(position.index(i) for i in range(len(ids)))


def test_a_wide_beam_finds_the_best_sentence() -> None:
    ctc = random_ctc([5, 4, 3], seed=4)
    found = ctc.mode(Search("beam", beam_size=10_000))
    log_prob = ctc.log_prob(Padded.from_lists([list(h.ids) for h in found]))
    for b, hypothesis in enumerate(found):
        sentences = ctc_oracle(ctc, b).sentences()
        assert hypothesis.ids == max(sentences, key=lambda ids: sentences[ids])
        assert hypothesis.score == pytest.approx(float(log_prob[b]), abs=1e-12)


@pytest.mark.parametrize("max_length", [1, 2, 3])
def test_the_beam_respects_the_limit(max_length: int) -> None:
    ctc = random_ctc([5, 4, 3], scale=2.0, seed=1)
    for b, hypothesis in enumerate(ctc.mode(Search("beam", max_length, beam_size=10_000))):
        sentences = {ids: p for ids, p in ctc_oracle(ctc, b).sentences().items() if len(ids) <= max_length}
        assert hypothesis.ids == max(sentences, key=lambda ids: sentences[ids])


@pytest.mark.parametrize("beam_size", [1, 2, 3])
@pytest.mark.parametrize("banned", [(), (2, 5)])
def test_the_beam_loses_nothing_to_its_short_list_of_tokens(beam_size: int, banned: tuple[int, ...]) -> None:
    special = SpecialTokens(*(banned * 2)) if banned else None
    tokens = [token for token in range(8) if token != 3 and token not in banned]
    for seed in range(25):  # nearly flat, so that rare tokens matter
        ctc = random_ctc([7], vocabulary=8, blank=3, scale=0.5, seed=seed)
        (hypothesis,) = ctc.mode(Search("beam", beam_size=beam_size, special_tokens=special))
        ids, score = prefix_beam(ctc.log_probs[0].tolist(), 3, tokens, beam_size)
        assert hypothesis.ids == ids
        assert hypothesis.score == pytest.approx(score, abs=1e-12)
        assert hypothesis.score <= float(ctc.log_prob(Padded.from_lists([list(ids)]))) + 1e-12


def test_the_beam_sums_alignments_where_greedy_does_not() -> None:
    ctc = canvas([0.6, 0.4], [0.7, 0.3])
    assert ctc.mode(Search("greedy"))[0].ids == ()
    (hypothesis,) = ctc.mode(Search("beam"))
    assert hypothesis.ids == (1,)
    assert hypothesis.score == pytest.approx(math.log(1 - 0.42))
    assert hypothesis.nodes == (0,)


@pytest.mark.parametrize("strategy", ["greedy", "viterbi", "beam"])
@pytest.mark.parametrize("blank", [4, 2])
def test_special_tokens_are_never_emitted(strategy: str, blank: int) -> None:
    ctc = random_ctc([12, 9, 4], vocabulary=8, blank=blank, scale=3.0)
    for hypothesis in ctc.mode(Search(strategy, special_tokens=SPECIAL)):
        assert set(hypothesis.ids) <= set(range(4, 8)) - {blank}


@pytest.mark.parametrize("strategy", ["greedy", "viterbi", "beam"])
def test_the_blank_may_be_a_special_token(strategy: str) -> None:
    ctc = random_ctc([3], vocabulary=6, blank=SPECIAL.pad)
    ctc.log_probs[:, :, SPECIAL.pad] += 10
    (hypothesis,) = ctc.mode(Search(strategy, special_tokens=SPECIAL))
    assert hypothesis.ids == hypothesis.nodes == ()


def test_samples_are_alignments() -> None:
    ctc = random_ctc([5, 4, 3], seed=4)
    for b, hypothesis in enumerate(ctc.sample(torch.Generator().manual_seed(0))):
        scores = [score for score, ids, _ in ctc_oracle(ctc, b).alignments() if ids == hypothesis.ids]
        assert min(abs(score - hypothesis.score) for score in scores) < 1e-12


def test_half_precision_runs_in_plain_torch_only() -> None:
    ctc, target = random_ctc([6, 3]), Padded.from_lists([[1, 2], [3]])
    half = CTC(ctc.log_probs.bfloat16(), ctc.num_slots, 0)
    assert_close(half.log_prob(target).double(), ctc.log_prob(target), rtol=0.05, atol=0.1)
    assert [h.ids for h in half.mode(Search("beam"))] == [h.ids for h in ctc.mode(Search("beam"))]
    with (
        backend("numba"),
        pytest.raises(RuntimeError, match=r"float32 or float64 on the CPU, got torch\.bfloat16"),
    ):
        half.log_prob(target)


def test_weights_changed_in_place_are_noticed() -> None:
    with backend("numba"):
        log_probs = random_ctc([4]).log_probs.requires_grad_()
        posterior = CTC(log_probs, torch.tensor([4]), 0).posterior(Padded.from_lists([[1, 2]]))
        log_prob = posterior.log_partition
        with torch.no_grad():
            posterior._weights[0].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            log_prob.sum().backward()  # type: ignore[no-untyped-call]


@shapes_unchecked()
def test_arguments_are_checked() -> None:
    log_probs, sizes = torch.zeros(2, 3, 4), torch.tensor([3, 1])
    with pytest.raises(ValueError, match=r"log_probs must have shape \(B, T, V\), got \(3, 4\)"):
        CTC(log_probs[0], sizes, 0)
    with pytest.raises(ValueError, match=r"num_slots must be in 1 … 3, got \[3, 0\]"):
        CTC(log_probs, torch.tensor([3, 0]), 0)
    with pytest.raises(
        ValueError, match=r"num_slots must be whole numbers of shape \(2,\), got torch.int64 \(1,\)"
    ):
        CTC(log_probs, sizes[:1], 0)
    with pytest.raises(ValueError, match="num_slots must be on cpu like log_probs, got meta"):
        CTC(log_probs, sizes.to("meta"), 0)
    for blank in (-1, 4):
        with pytest.raises(ValueError, match=f"blank must be in 0 … 3, got {blank}"):
            CTC(log_probs, sizes, blank)


def test_each_sentence_may_have_its_own_limit() -> None:
    ctc, limits = random_ctc([5, 5, 4], scale=2.0, seed=1), (1, 3, 2)
    together = ctc.mode(Search("beam", limits, beam_size=1000))
    for b, limit in enumerate(limits):
        assert together[b] == ctc.mode(Search("beam", limit, beam_size=1000))[b]
        assert len(together[b].ids) <= limit
    with pytest.raises(ValueError, match="max_length must have one limit for each of 3 sentences, got 2"):
        ctc.mode(Search("beam", (1, 2)))


@pytest.mark.parametrize("strategy", ["greedy", "beam"])
def test_one_result_whatever_is_wanted(strategy: str) -> None:
    ctc, search = random_ctc([5, 4, 3], seed=4), Search(strategy, results=3)
    best = ctc.mode(search)
    assert ctc.n_best(search) == [[hypothesis] for hypothesis in best]
    assert ctc.modes(search, [0.0, 2.0]) == [[hypothesis] * 2 for hypothesis in best]
