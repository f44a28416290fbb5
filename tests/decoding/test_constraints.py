"""Constraints against every sentence with every tree and every path."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise, product

import pytest

from pcfgnat.decoding import Greedy, JointViterbi, Request, Viterbi
from pcfgnat.decoding.base import DecodingError
from pcfgnat.decoding.constraints import (
    Asked,
    Clause,
    Constraints,
    admitted_tokens,
    automaton_of,
    constraining,
    multiplied,
)
from pcfgnat.grammar.constrained import ConstrainedSearch
from pcfgnat.grammar.lengths import best_ranked
from pcfgnat.grammar.repeats import repeated_words
from pcfgnat.structures import RHPCFG, SupportTree
from pcfgnat.structures.by_length import ByLength
from pcfgnat.text.glossary import Term
from pcfgnat.text.surfaces import Surfaces
from tests.decoding.test_structured import GivenTables, allowed, alone
from tests.support.grammars import oracle, random_grammar
from tests.support.lattices import random_dag
from tests.support.oracle import derivations

TEXTS = ("", "", "", "", " a", "b", " ab")
SURFACES = Surfaces(TEXTS)
VOCABULARY = len(TEXTS)
Sentence = tuple[float, tuple[int, ...], tuple[int, ...]]  # score, ids, nodes

REQUIRE_AB = Clause("require", "ab")
CLAUSES: list[tuple[Clause, ...]] = [
    (),
    (REQUIRE_AB,),
    (REQUIRE_AB, Clause("require", "a")),
    (Clause("forbid", "ab"),),
    (Clause("prefix", "ab a"),),
    (Clause("prefix", "a "), Clause("forbid", "ab")),
    (Clause("max-characters", characters=2),),
    (Clause("max-characters", characters=4), Clause("require", "a")),
]


def text_of(ids: tuple[int, ...]) -> str:
    return " ".join("".join(TEXTS[token] for token in ids).split())


def fulfils(text: str, clause: Clause) -> bool:
    words = text.split()
    verdicts: dict[str, Callable[[], bool]] = {
        "require": lambda: f" {clause.text} " in f" {text} ",
        "forbid": lambda: clause.text not in words,
        "prefix": lambda: f"{text} ".startswith(clause.text),
        "max-characters": lambda: len(text) <= clause.characters,
    }
    return verdicts[clause.kind]()


def trees(depth: int, sizes: list[int], index: int) -> Iterator[Sentence]:
    """Everything that a grammar can write."""
    exact = oracle(grammar_of(depth, sizes), index)
    last = exact.tree.num_nodes - 1
    for derivation in derivations(exact.tree):
        score = exact.structure_score(derivation)
        for ids in product(*(allowed(node, 1, last) for node in derivation.nodes)):
            tokens = sum(exact.emit[n][t] for n, t in zip(derivation.nodes, ids, strict=True))
            yield score + tokens, ids, derivation.nodes


def grammar_of(depth: int, sizes: list[int]) -> RHPCFG:
    return random_grammar(SupportTree(max(sizes), depth), sizes, vocabulary=VOCABULARY, seed=depth)


def paths(graph: ByLength, size: int, index: int) -> Iterator[Sentence]:
    """Everything that a graph can write."""
    grammars = graph.grammars(None)
    steps, emit = grammars.chain[index, :, 0], grammars.symbol_log_probs(index)
    for count in range(size - 1):
        for inner in product(range(1, size - 1), repeat=count):
            path = (0, *inner, size - 1)
            if list(path) != sorted(set(path)):
                continue
            score = sum(steps[a, b] for a, b in pairwise(path))
            for ids in product(*(allowed(v, 0, size - 1) for v in path)):
                tokens = sum(emit[v, t] for v, t in zip(path, ids, strict=True))
                yield float(score + tokens), ids, path


def best(
    found: list[Sentence],
    clauses: tuple[Clause, ...],
    limit: int,
    penalty: float,
    starts: frozenset[int] = frozenset(),
) -> Sentence:
    """The best sentence that fulfils all clauses that can be kept one after the other, then no repeats."""
    kept = [one for one in found if len(one[1]) <= limit]
    for clause in clauses:
        kept = [one for one in kept if fulfils(text_of(one[1]), clause)] or kept
    kept = [one for one in kept if not repeated_words(one[1], starts)] or kept
    by_length: dict[int, Sentence] = {}
    for one in kept:
        if one[0] > by_length.get(len(one[1]), (-math.inf,))[0]:
            by_length[len(one[1])] = one
    return max(by_length.values(), key=lambda one: one[0] / len(one[1]) ** penalty)


@pytest.mark.parametrize("clauses", CLAUSES, ids=lambda own: " ".join(map(str, own)) or "none")
@pytest.mark.parametrize(("depth", "sizes"), [(0, [6, 3]), (1, [4, 3]), (2, [3]), (3, [3])])
def test_grammars(depth: int, sizes: list[int], clauses: tuple[Clause, ...]) -> None:
    limit = 6
    request = Request(length_penalty=0.7, max_length=limit)
    runtime = alone(grammar_of(depth, sizes), len(sizes))
    asked = Asked([clauses] * len(sizes), SURFACES)
    results = Viterbi().decode_constrained(runtime, [[0]] * len(sizes), request, asked)
    for index, found in enumerate(results):
        every = [one for one in trees(depth, sizes, index) if len(one[1]) <= limit]
        score, ids, nodes = best(every, clauses, limit, 0.7)
        (hypothesis,) = found.hypotheses
        assert (hypothesis.ids, hypothesis.nodes) == (ids, nodes)
        assert hypothesis.score == pytest.approx(score, abs=1e-10)
        assert all(fulfils(text_of(ids), own) == (own not in found.unmet) for own in clauses)


STUTTER = Clause("require", "a a")
STUTTERING = ((Clause("prefix", "a "), Clause("forbid", "ab")), 0, 6)  # the best of these have repeats


@pytest.mark.parametrize(
    "clauses",
    [(REQUIRE_AB,), STUTTERING[0], (Clause("require", "c"),), (STUTTER,)],
    ids=lambda own: " ".join(map(str, own)),
)
def test_no_word_follows_itself_unless_it_is_asked_for(clauses: tuple[Clause, ...]) -> None:
    """Constraints that can be kept come first; of what keeps them, the best without repeats."""
    limit, starts, changed = 6, frozenset({4, 6}), 0
    for depth, sizes, penalty in ((1, [4, 3], 3.0), (0, [6], 3.0), (2, [3], 2.0)):
        request = Request(length_penalty=penalty, max_length=limit, word_starts=starts)
        runtime = alone(grammar_of(depth, sizes), len(sizes))
        asked = Asked([clauses] * len(sizes), SURFACES)
        results = Viterbi(no_repeat=True).decode_constrained(runtime, [[0]] * len(sizes), request, asked)
        for index, found in enumerate(results):
            every = [one for one in trees(depth, sizes, index) if len(one[1]) <= limit]
            score, ids, nodes = best(every, clauses, limit, penalty, starts)
            assert (found.hypotheses[0].ids, found.hypotheses[0].nodes) == (ids, nodes)
            assert found.hypotheses[0].score == pytest.approx(score, abs=1e-10)
            changed += ids != best(every, clauses, limit, penalty)[1]
            assert STUTTER not in clauses or found.unmet or repeated_words(ids, starts)
    assert changed or STUTTER in clauses


def test_further_results_under_constraints_have_no_repeats_either() -> None:
    clauses, depth, size = STUTTERING
    asked, starts = Asked([clauses], SURFACES), frozenset({4, 6})
    request = Request(results=4, max_length=6, length_penalty=3.0, word_starts=starts)
    runtime = alone(grammar_of(depth, [size]))
    (plain,) = Viterbi().decode_constrained(runtime, [[0]], request, asked)
    (found,) = Viterbi(no_repeat=True).decode_constrained(runtime, [[0]], request, asked)
    assert [bool(repeated_words(one.ids, starts)) for one in plain.hypotheses] == [True, True, True, False]
    assert not any(repeated_words(one.ids, starts) for one in found.hypotheses)
    assert found.hypotheses[-1] == plain.hypotheses[-1]
    assert len({one.ids for one in found.hypotheses}) == len(found.hypotheses)


def test_repeats_remain_where_their_search_needs_too_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    clauses, depth, size = STUTTERING
    request = Request(max_length=6, length_penalty=3.0, word_starts=frozenset({4, 6}))
    whole, _ = multiplied(clauses, SURFACES, 4096)
    monkeypatch.setattr("pcfgnat.grammar.constrained.MAX_STATES", len(whole.table))
    runtime, asked = alone(grammar_of(depth, [size])), Asked([clauses], SURFACES)
    (plain,) = Viterbi().decode_constrained(runtime, [[0]], request, asked)
    (found,) = Viterbi(no_repeat=True).decode_constrained(runtime, [[0]], request, asked)
    assert found.hypotheses == plain.hypotheses


@pytest.mark.parametrize("clauses", CLAUSES, ids=lambda own: " ".join(map(str, own)) or "none")
def test_graphs_are_searched_by_path_and_tokens(clauses: tuple[Clause, ...]) -> None:
    sizes = [6, 4]
    graph = random_dag(sizes, VOCABULARY, seed=3)
    request = Request(length_penalty=1.0, max_length=6)
    for strategy in (Viterbi(), JointViterbi()):
        asked = Asked([clauses] * 2, SURFACES)
        results = strategy.decode_constrained(alone(graph, 2), [[0]] * 2, request, asked)
        for index, found in enumerate(results):
            score, ids, nodes = best(list(paths(graph, sizes[index], index)), clauses, 6, 1.0)
            (hypothesis,) = found.hypotheses
            assert (hypothesis.ids, hypothesis.nodes) == (ids, nodes)
            assert hypothesis.score == pytest.approx(score, abs=1e-10)


def test_what_cannot_be_kept_is_reported_and_the_rest_is_kept() -> None:
    impossible, contrary = Clause("require", "c"), Clause("forbid", "ab")
    asked = Asked([(REQUIRE_AB, impossible, contrary)], SURFACES)
    runtime = alone(grammar_of(1, [4]))
    (found,) = Viterbi().decode_constrained(runtime, [[0]], Request(max_length=6), asked)
    assert found.unmet == (impossible, contrary)
    assert "ab" in text_of(found.hypotheses[0].ids).split()
    assert runtime.runs == 1  # the network is not run again


def test_several_results_have_different_lengths_and_all_fulfil() -> None:
    asked = Asked([(REQUIRE_AB,)], SURFACES)
    request = Request(results=3, max_length=6)
    (found,) = Viterbi().decode_constrained(alone(grammar_of(1, [4])), [[0]], request, asked)
    assert len({len(one.ids) for one in found.hypotheses}) == 3
    assert all("ab" in text_of(one.ids).split() for one in found.hypotheses)


def test_groups_of_a_batch_keep_their_own_constraints() -> None:
    grammar, request = grammar_of(1, [4]), Request(max_length=6)
    runtime = GivenTables(([1], grammar), ([0], grammar))
    asked = Asked([(Clause("forbid", "ab"),), (REQUIRE_AB,)], SURFACES)
    first, second = Viterbi().decode_constrained(runtime, [[0], [0]], request, asked)
    assert "ab" not in text_of(first.hypotheses[0].ids).split()
    assert "ab" in text_of(second.hypotheses[0].ids).split()


def test_too_many_phrases_come_in_their_order() -> None:
    clauses = (Clause("require", "b"), REQUIRE_AB, Clause("max-characters", characters=9))
    whole, checked = multiplied(clauses, SURFACES, 4096)
    assert checked == ()
    b, space_ab = 5, 6
    assert not whole.accepts([space_ab, b, space_ab, 4])  # `abb ab a` has no word b
    texts = Surfaces((*TEXTS, " b"))
    either, _ = multiplied(clauses, texts, 4096)
    forwards, backwards = [7, space_ab], [space_ab, 7]
    assert either.accepts(forwards)
    assert either.accepts(backwards)
    ordered, checked = multiplied(clauses, texts, len(either.table) - 1)
    assert checked == ()
    assert ordered.accepts(forwards)
    assert not ordered.accepts(backwards)
    assert not ordered.accepts([*forwards, 4, 4, 4, b])  # too long
    loose, checked = multiplied(clauses, texts, len(ordered.table) - 1)
    assert checked == clauses[2:]
    assert loose.accepts([*forwards, 4, 4, 4, b])
    with pytest.raises(DecodingError, match="3 constraints must need at most 1 states"):
        multiplied(clauses, texts, 1)


def test_characters_that_are_checked_afterwards_leave_the_best_length_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short, request = Clause("max-characters", characters=4), Request(length_penalty=2.0, max_length=6)
    grammar = grammar_of(1, [4])
    (free,) = Viterbi().decode_constrained(alone(grammar), [[0]], request, Asked([()], SURFACES))
    assert len(text_of(free.hypotheses[0].ids)) > 4
    monkeypatch.setattr("pcfgnat.grammar.constrained.MAX_STATES", 2)
    (found,) = Viterbi().decode_constrained(alone(grammar), [[0]], request, Asked([(short,)], SURFACES))
    assert found.unmet == ()
    assert len(text_of(found.hypotheses[0].ids)) <= 4
    ((_, grammars),) = alone(grammar).grammars([[0]])
    (ranked,) = grammars.by_length([6], best_ranked(2.0, 6), joint=True)  # the best of each length
    assert found.hypotheses[0].ids == next(one.ids for one in ranked if len(text_of(one.ids)) <= 4)


def test_tables_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    grammars = grammar_of(1, [4]).grammars(None)
    search = ConstrainedSearch.of(grammars, 0, 6, ())
    assert search.max_states == 4096
    one_state = 4 * 4 * 7
    monkeypatch.setattr("pcfgnat.grammar.constrained.USUAL_NUMBERS", one_state * 300)
    assert search.max_states == 300
    monkeypatch.setattr("pcfgnat.grammar.constrained.USUAL_NUMBERS", one_state * 20)
    assert search.max_states == 128  # few states are worth a larger table
    monkeypatch.setattr("pcfgnat.grammar.constrained.MAX_NUMBERS", one_state * 10)
    monkeypatch.setattr("pcfgnat.grammar.constrained.USUAL_NUMBERS", one_state)
    assert search.max_states == 10


def test_automata_that_are_kept_are_few() -> None:
    """A server sees other numbers and phrases in every request."""
    for number in range(300):
        multiplied((Clause("require", f"{number:03}"),), SURFACES, 4096)
    assert multiplied.cache_info().currsize == 16
    assert automaton_of.cache_info().currsize <= 256


def test_a_source_gets_what_its_terms_ask_for() -> None:
    terms = (Term("new york", "Neu York"), Term("york", "Jorck"), Term("US", "USA"), Term("cat", "Kater"))
    constraints = Constraints(require=("x",), forbid=("y",), prefix="p", glossary=terms, max_characters=7)
    fixed = [Clause("prefix", "p"), Clause("forbid", "y"), Clause("max-characters", characters=7)]
    assert list(constraints.clauses("Cats of us."))[:3] == fixed
    wanted = [str(clause) for clause in constraints.clauses("A cat, New York and the US; CAT us york")][3:]
    assert wanted == [f"require {text!r}" for text in ("x", "Kater", "Neu York", "USA", "Jorck")]


def test_only_tokens_inside_a_phrase_are_admitted() -> None:
    assert admitted_tokens((REQUIRE_AB, Clause("forbid", "a")), SURFACES) == [4, 5, 6]
    assert admitted_tokens((Clause("prefix", "a"),), SURFACES) == [4]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"require": (" ",)}, "a phrase to require must have 1 … 1000, got 1 characters"),
        ({"forbid": ("x" * 1001,)}, "a phrase to forbid must have 1 … 1000, got 1001 characters"),
        ({"prefix": " "}, "prefix must be a text"),
        ({"max_characters": 0}, "max_characters must be at least 1, got 0"),
    ],
)
def test_wrong_constraints_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        Constraints(**wrong)  # type: ignore[arg-type]


def test_other_strategies_refuse() -> None:
    assert constraining(Viterbi()) == Viterbi()
    with pytest.raises(DecodingError, match=r"constraints need viterbi or joint-viterbi .*, got greedy"):
        constraining(Greedy())
