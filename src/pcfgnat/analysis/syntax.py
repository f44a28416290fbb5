"""Which words stand on the main chain and which in prefix trees (paper, section 4.6).

Frequencies of part-of-speech tags and of unfinished subwords, each divided by the number of tokens of its
place. A subword has the tag of its word; bos and eos do not count.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pcfgnat.analysis.subject import AnalysisError, Subject, Walk, left_out_rows, left_out_text
from pcfgnat.analysis.tagger import NAME, Tagger, english_tagger
from pcfgnat.analysis.trees import TreeSource, parsed
from pcfgnat.analysis.words import Words, sentence_words
from pcfgnat.evaluation import EvaluationSet
from pcfgnat.networks import PCFGNetwork
from pcfgnat.report import Report, Table, number, percent
from pcfgnat.report.figure import COLOURS
from pcfgnat.report.statistics import ratio
from pcfgnat.structures import ParseTree

CHAIN, PREFIX = "main chain", "prefix trees"
UNFINISHED = "unfinished subword"
CATEGORY = "tag"
LEAST_DRAWN = 0.005
# tags too small to see, and a name too long, as the picture shows them
SHOWN = {
    ",": "comma",
    ".": "period",
    ":": "colon",
    "``": "open quote",
    "''": "quote",
    UNFINISHED: "unfinished\nsubword",
}


@dataclass(frozen=True)
class PlaceCounts:
    """What stands in one place: all its tokens, those of each tag, and the unfinished ones."""

    tokens: int
    tags: Counter[str]
    unfinished: int

    def count(self, category: str) -> int:
        """Return how many tokens have this tag, or are unfinished."""
        return self.unfinished if category == UNFINISHED else self.tags[category]

    def share(self, category: str) -> float | None:
        """Return a category's frequency among the tokens of this place."""
        return ratio(self.count(category), self.tokens)


@dataclass(frozen=True)
class Syntax:
    """Counts by place over all trees of a model."""

    name: str
    trees: TreeSource
    sentences: int
    places: dict[str, PlaceCounts]
    left_out: list[dict[str, Any]]

    @property
    def categories(self) -> list[str]:
        """All tags, the most frequent first, then unfinished subwords."""
        whole = sum((place.tags for place in self.places.values()), Counter[str]())
        return [*sorted(whole, key=lambda tag: (-whole[tag], tag)), UNFINISHED]


def syntax(
    subject: Subject, texts: EvaluationSet, say: Callable[[str], None], trees: TreeSource = "translation"
) -> Syntax:
    """Tag the words of every pair's tree, and count them by place."""
    subject.require("pcfg", reason="others have no prefix trees")
    if isinstance(subject.network, PCFGNetwork) and subject.network.config.prefix_depth == 0:
        raise AnalysisError(f"{subject.name} must have prefix trees, got a grammar of depth 0")
    language = subject.target_language
    if language and language.lower().replace("_", "-").split("-")[0] not in ("en", "eng"):
        say(f"{subject.name} translates into {language!r}, but the tags are those of English words")
    tagger = english_tagger()
    walk = Walk(subject, texts.encoded(subject.tokenizer))
    found = parsed(walk, trees, entropy=False)
    sentences = [(item.tree, sentence_words(subject.tokenizer, item.tree.tokens[1:-1])) for item in found]
    places = count_places(sentences, tagger)
    return Syntax(subject.name, trees, len(found), places, left_out_rows(walk.left_out))


def count_places(sentences: Sequence[tuple[ParseTree, Words]], tagger: Tagger) -> dict[str, PlaceCounts]:
    """Count tags and unfinished subwords by place."""
    tags: dict[str, Counter[str]] = {CHAIN: Counter(), PREFIX: Counter()}
    unfinished = Counter[str]()
    for tree, words in sentences:
        word_tags, on_chain = tagger(words.words), set(tree.main_chain)
        for position in range(1, len(tree) - 1):
            place = CHAIN if position in on_chain else PREFIX
            tags[place][word_tags[words.word_of[position - 1]]] += 1
            unfinished[place] += words.unfinished[position - 1]
    return {
        place: PlaceCounts(sum(found.values()), found, unfinished[place]) for place, found in tags.items()
    }


def syntax_report(texts: EvaluationSet, results: Sequence[Syntax]) -> Report:
    """Put the two places side by side, for each model."""
    trees = results[0].trees
    blocks = [f"# Main chain and prefix trees\n\n{texts.name}; trees of the {trees}s; tagger: {NAME}"]
    rows = []
    for result in results:
        chain, prefix = result.places[CHAIN], result.places[PREFIX]
        blocks += [
            f"## {result.name}",
            f"{chain.tokens} tokens on the main chain, {prefix.tokens} in prefix trees",
            Table([CATEGORY, "main chain", "prefix trees", "ratio", "tokens"], _rows(result)).markdown(),
            left_out_text(result.name, result.left_out),
        ]
        rows.append(
            {
                "name": result.name,
                "trees": result.trees,
                "sentences": result.sentences,
                "places": {name: _plain(place, result.categories) for name, place in result.places.items()},
                "left_out": result.left_out,
            }
        )
    data = {"analysis": "syntax", "text": texts.name, "tagger": NAME, "models": rows}
    size = (11.0, 3.6 * len(results))
    return Report("syntax", "\n\n".join(blocks), data, lambda figure: _draw(figure, results), size)


def _rows(result: Syntax) -> list[list[str]]:
    chain, prefix = result.places[CHAIN], result.places[PREFIX]
    rows = []
    for name in result.categories:
        shares = (chain.share(name), prefix.share(name))
        times = None if None in shares or not shares[0] else (shares[1] or 0.0) / shares[0]
        tokens = chain.count(name) + prefix.count(name)
        rows.append([name, *map(percent, shares), number(times, 2), str(tokens)])
    return rows


def _plain(place: PlaceCounts, categories: Sequence[str]) -> dict[str, Any]:
    return {
        "tokens": place.tokens,
        "counts": {name: place.count(name) for name in categories},
        "shares": {name: place.share(name) for name in categories},
    }


def _draw(figure: Any, results: Sequence[Syntax]) -> None:
    """Draw two bars for each category that is not very rare; the models below each other."""
    for axes, result in zip(figure.subplots(len(results), squeeze=False)[:, 0], results, strict=True):
        places = result.places.values()
        drawn = [
            n for n in result.categories if max(place.share(n) or 0.0 for place in places) >= LEAST_DRAWN
        ]
        for shift, colour, (name, place) in zip((-0.2, 0.2), COLOURS, result.places.items(), strict=False):
            shares = [100 * (place.share(category) or 0.0) for category in drawn]
            label = f"{name} ({place.tokens} tokens)"
            axes.bar([i + shift for i in range(len(drawn))], shares, 0.4, color=colour, label=label)
        names = [SHOWN.get(category, category) for category in drawn]
        axes.set_xticks(range(len(drawn)), names, rotation=60, ha="right", rotation_mode="anchor")
        axes.set(ylabel="% of the place's tokens", title=f"{result.name}: trees of the {result.trees}s")
        axes.margins(x=0.01)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        if UNFINISHED in drawn:  # counted besides the tags, which add up to 100 %
            axes.axvline(len(drawn) - 1.5, color="#6b6b6b", linewidth=0.8, linestyle=":")
        axes.legend(frameon=False)
