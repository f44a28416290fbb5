"""Strategies as values: which apply, how they are written, and what may be asked of them."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from pcfgnat.decoding import (
    STRATEGIES,
    Beam,
    CollapsedBeam,
    DecodingError,
    EasyFirst,
    Greedy,
    Imputation,
    JointViterbi,
    Lookahead,
    MaskPredict,
    MinimumRisk,
    Request,
    Rescore,
    Sample,
    SlotGreedy,
    Strategy,
    UpdateAll,
    Verify,
    Viterbi,
    parse_strategy,
    strategies_of,
    strategy_text,
)
from pcfgnat.decoding.collapse import CollapsedSample, Slotwise
from pcfgnat.decoding.importance import Importance, LatentRescore
from pcfgnat.decoding.latents import LatentGreedy, LatentSample
from pcfgnat.decoding.searched import SearchedBeam, SearchedGreedy
from pcfgnat.decoding.slots import SlotSample
from pcfgnat.decoding.stepwise import GreedySteps, SampleSteps
from pcfgnat.grammar.canvas import Framing
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import (
    DraftsReader,
    FramesReader,
    LatentsReader,
    Runtime,
    SlotScores,
    SlotsReader,
    Sources,
    Stepper,
    VisibleSlotsReader,
)


class Bare:
    """A runtime that offers nothing to decode."""

    max_source_length = 9


class OnlyTables(Bare):
    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        raise NotImplementedError


class OnlyFrames(Bare):
    framing = Framing(ends=False, blank=0)

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence[SlotScores]]]:
        raise NotImplementedError


class OnlySlots(Bare):
    max_canvas_length = 9

    def read(self, sources: Sources) -> SlotsReader:
        raise NotImplementedError


class OnlyOpenFrames(OnlyFrames):
    def read_frames(self, sources: Sources) -> FramesReader:
        raise NotImplementedError


class OnlyVisibleSlots(OnlySlots):
    def read_visible(self, sources: Sources) -> VisibleSlotsReader:
        raise NotImplementedError


class OnlyLatents(Bare):
    max_latents = 8

    def read_latents(self, sources: Sources) -> LatentsReader:
        raise NotImplementedError


class OnlySteps(Bare):
    max_target_length = 9

    def start(self, sources: Sources) -> Stepper:
        raise NotImplementedError


class Both(OnlyTables, OnlySteps):
    """Grammars that propose and a model that reads."""

    def read_drafts(self, sources: Sources) -> DraftsReader:
        raise NotImplementedError


class LatentsAndSteps(OnlyLatents, OnlySteps):
    """Latents that propose and a model that reads."""


class OnlySearches(Bare):
    max_target_length = 9

    def search(
        self, sources: Sources, limits: Sequence[int], size: int, length_penalty: float
    ) -> list[list[Hypothesis]]:
        raise NotImplementedError


BY_RUNTIME: list[tuple[Runtime, list[type[Strategy]]]] = [
    (OnlyTables(), [Viterbi, JointViterbi, Lookahead, Greedy, Sample, MinimumRisk]),
    (OnlyFrames(), [Slotwise, CollapsedBeam, CollapsedSample]),
    (OnlyOpenFrames(), [Slotwise, CollapsedBeam, CollapsedSample, Imputation]),
    (OnlySlots(), [SlotGreedy, SlotSample, MaskPredict, UpdateAll]),
    (OnlyVisibleSlots(), [SlotGreedy, SlotSample, MaskPredict, UpdateAll, EasyFirst]),
    (OnlySteps(), [Beam, GreedySteps, SampleSteps]),
    (OnlySearches(), [SearchedBeam, SearchedGreedy]),
    (OnlyLatents(), [LatentGreedy, LatentSample, Importance]),
    (Bare(), []),
]


OF_BOTH: list[type[Strategy]] = [Verify, Rescore]
OF_LATENTS_AND_STEPS: list[type[Strategy]] = [LatentRescore]


def runtime_of(kind: type[Strategy]) -> Runtime:
    if kind in OF_BOTH:
        return Both()
    if kind in OF_LATENTS_AND_STEPS:
        return LatentsAndSteps()
    return next(runtime for runtime, kinds in BY_RUNTIME if kind in kinds)


def test_two_models_have_the_strategies_of_both_and_more() -> None:
    found, tables, steps = (strategies_of(runtime) for runtime in (Both(), OnlyTables(), OnlySteps()))
    assert found == tables | steps | {kind.name: kind for kind in OF_BOTH}
    assert found["greedy"] is GreedySteps
    other = strategies_of(LatentsAndSteps())
    assert other == strategies_of(OnlyLatents()) | steps | {"rescore": LatentRescore}


@pytest.mark.parametrize(("runtime", "kinds"), BY_RUNTIME, ids=lambda value: type(value).__name__)
def test_strategies_are_those_whose_protocol_a_runtime_offers(
    runtime: Runtime, kinds: list[type[Strategy]]
) -> None:
    assert strategies_of(runtime) == {kind.name: kind for kind in kinds}
    assert [*strategies_of(runtime)] == [kind.name for kind in kinds]


def test_every_strategy_has_its_runtime() -> None:
    known = {*(kind for _, kinds in BY_RUNTIME for kind in kinds), *OF_BOTH, *OF_LATENTS_AND_STEPS}
    assert known == set(STRATEGIES)
    assert len(set(STRATEGIES)) == len(STRATEGIES)
    for _, kinds in BY_RUNTIME:
        assert len({kind.name for kind in kinds}) == len(kinds)
    assert {kind.name for kind in STRATEGIES if kind.draws} == {"sample", "mbr", "importance", "rescore"}


OTHERS: list[Strategy] = [
    Beam(8),
    CollapsedBeam(1),
    SlotGreedy(4),
    MaskPredict(4, 2),
    UpdateAll(1),
    EasyFirst(3),
    Imputation(2, True),
    MinimumRisk(3, 2, draw=True),
    Verify(0.5),
    Rescore(3, 0.25),
    SlotGreedy(4, length_weight=0.5),
    SlotGreedy(merge=True),
    MaskPredict(length_weight=1.0),
    Importance(2, 3, 0.7, 5),
    LatentRescore(1, 9, 1.5),
]


@pytest.mark.parametrize("strategy", [*[kind() for kind in STRATEGIES], *OTHERS], ids=repr)
def test_what_is_written_is_read_back(strategy: Strategy) -> None:
    runtime = runtime_of(type(strategy))
    read = parse_strategy(strategy_text(strategy), runtime)
    assert (type(read), read) == (type(strategy), strategy)
    assert parse_strategy(strategy.name, runtime) == type(strategy)()


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        (Viterbi(), "viterbi"),
        (JointViterbi(), "joint-viterbi"),
        (Beam(), "beam:size=5"),
        (CollapsedBeam(3), "beam:size=3"),
        (SlotGreedy(2), "greedy:lengths=2"),
        (MaskPredict(), "mask-predict:iterations=10,lengths=5"),
        (UpdateAll(4, 3), "update-all:iterations=4,lengths=3"),
        (EasyFirst(5, 1), "easy-first:iterations=5,lengths=1"),
        (Imputation(4, blocks=True), "imputation:iterations=4,blocks=true"),
        (GreedySteps(), "greedy"),
        (SampleSteps(), "sample"),
    ],
)
def test_all_settings_are_written(strategy: Strategy, text: str) -> None:
    assert strategy_text(strategy) == text


@pytest.mark.parametrize("text", ["beam:size=7", "beam: size = 7 ", "beam:size=7,"])
def test_spaces_do_not_matter(text: str) -> None:
    assert parse_strategy(text, OnlySteps()) == Beam(7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("viterbi", "the strategy must be one of beam, greedy, sample for this model, got 'viterbi'"),
        ("", "the strategy must be one of beam, greedy, sample for this model, got ''"),
        ("beam:size", "a setting of a strategy must look like name=value, got 'size'"),
        ("beam:sise=3", "unknown key 'beam.sise'; did you mean beam.size? valid keys: size"),
        ("greedy:size=3", "unknown key 'greedy.size'; valid keys: none"),
        ("beam:size=many", "beam.size must be an integer, got 'many'"),
        ("beam:size=2.5", "beam.size must be an integer, got 2.5"),
        ("beam:size=0", "beam.size must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(DecodingError, match=f"^{re.escape(message)}$"):
        parse_strategy(text, OnlySteps())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Beam, "size must be at least 1, got 0"),
        (CollapsedBeam, "size must be at least 1, got 0"),
        (SlotGreedy, "lengths must be in 1 … 256, got 0"),
    ],
)
def test_settings_are_checked(kind: type, message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        kind(0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"results": 0}, "results must be at least 1, got 0"),
        ({"length_penalty": 100.5}, "length_penalty must be in -100 … 100, got 100.5"),
        ({"length_penalty": math.nan}, "length_penalty must be in -100 … 100, got nan"),
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"max_length": (3, 0)}, "max_length must be at least 1, got (3, 0)"),
        ({"seed": -1}, "seed must not be negative, got -1"),
    ],
)
def test_requests_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DecodingError, match=f"^{re.escape(message)}$"):
        replace(Request(), **settings)  # type: ignore[arg-type]


def test_limits_are_those_asked_for() -> None:
    assert Request().limits([4, 6]) == [4, 6]
    assert Request(max_length=5).limits([4, 6]) == [5, 5]
    assert Request(max_length=(9, 2)).limits([4, 6]) == [9, 2]
    assert Request(max_length=5).limits([]) == []
    with pytest.raises(DecodingError, match="max_length must have 3 limits, one per sentence, got 2"):
        Request(max_length=(9, 2)).limits([4, 6, 8])


def test_random_numbers_follow_from_seed_and_sentence() -> None:
    def drawn(seed: int, *sources: list[int]) -> list[float]:
        return [generator.random() for generator in Request(seed=seed).generators(sources)]

    first, second, third = drawn(1, [2, 5, 3], [2, 6, 3], [2, 5, 5, 3])
    assert len({first, second, third}) == 3
    assert drawn(1, [2, 5, 5, 3], [2, 5, 3]) == [third, first]
    assert drawn(2, [2, 5, 3]) != [first]


class Counted(Strategy):
    """Returns as many hypotheses as wanted, whose score is the penalty asked for."""

    name = "counted"
    protocol = Runtime

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def decode(self, runtime: Runtime, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        self.asked.append(request)
        return [[Hypothesis(tuple(source), request.length_penalty, ())] for source in sources]


class Penalised(Counted):
    uses_penalty = True


def test_a_sweep_asks_once_for_each_penalty_that_changes_anything() -> None:
    penalised, plain, penalties = Penalised(), Counted(), [0.5, 1.0, 2.0]
    request = Request(results=4, max_length=7, seed=5)
    found = penalised.sweep(Bare(), [[1], [2]], request, penalties)
    assert [[one.score for one in own] for own in found] == [penalties, penalties]
    assert penalised.asked == [replace(request, results=1, length_penalty=beta) for beta in penalties]
    once = plain.sweep(Bare(), [[1], [2]], request, penalties)
    assert [[one.ids for one in own] for own in once] == [[(1,)] * 3, [(2,)] * 3]
    assert len(plain.asked) == 1
