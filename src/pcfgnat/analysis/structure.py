"""The shape of trees: what hangs in prefix trees, how deep, what the main chain skips, how sure it all is."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, pairwise
from typing import Any

from pcfgnat.analysis.lengths import CLASSES, by_length
from pcfgnat.analysis.subject import Subject, Walk, left_out_rows, left_out_text
from pcfgnat.analysis.trees import TreeSource, parsed
from pcfgnat.evaluation import EvaluationSet
from pcfgnat.report import Report, Table, number, percent
from pcfgnat.report.figure import COLOURS, MARKERS
from pcfgnat.report.statistics import mean, ratio, standard_error
from pcfgnat.structures import ParseTree

MOST_SKIPS_DRAWN = 8


@dataclass(frozen=True)
class Shape:
    """What a tree looks like. Root and last node, which emit bos and eos, count where nothing else is said.

    tokens:       without bos and eos
    prefix_sizes: for each main-chain node used between root and last one, the tokens of its prefix tree
    prefix_depth: levels of the deepest prefix tree; 0 if all are empty
    depth:        steps from the root to the deepest node; with nothing in prefix trees that is tokens + 1
    skips:        main-chain nodes left out between each two that are used one after the other
    chain:        main-chain nodes that there are
    symbols:      symbols that could emit a token
    entropy:      of the posterior over trees, in nats
    """

    tokens: int
    prefix_sizes: tuple[int, ...]
    prefix_depth: int
    depth: int
    skips: tuple[int, ...]
    chain: int
    symbols: int
    entropy: float

    @property
    def in_prefix(self) -> int:
        """Tokens in prefix trees."""
        return sum(self.prefix_sizes)


@dataclass(frozen=True)
class Structure:
    """The shapes of a model's trees in the order of the text, with their lines, and the lines without one."""

    name: str
    model: str
    trees: TreeSource
    lines: tuple[int, ...]
    shapes: tuple[Shape, ...]
    left_out: list[dict[str, Any]]


def shape_of(tree: ParseTree, entropy: float = 0.0) -> Shape:
    """Measure a tree."""
    support, chain = tree.support, tree.main_chain
    on_chain = [support.locate(tree.nodes[i])[0] for i in chain]
    owner = [next(j for j in chain if j >= i) for i in range(len(tree))]
    levels = [tree.depths[i] - tree.depths[owner[i]] for i in range(len(tree))]
    return Shape(
        tokens=len(tree) - 2,
        prefix_sizes=tuple(after - before - 1 for before, after in pairwise(chain))[:-1],
        prefix_depth=max(levels),
        depth=max(tree.depths),
        skips=tuple(after - before - 1 for before, after in pairwise(on_chain)),
        chain=support.chain_length,
        symbols=support.num_nodes - 1,
        entropy=entropy,
    )


def structure(subject: Subject, texts: EvaluationSet, trees: TreeSource = "reference") -> Structure:
    """Measure the tree of every pair."""
    subject.require("pcfg", "dag", reason="others build no trees")
    walk = Walk(subject, texts.encoded(subject.tokenizer))
    found = parsed(walk, trees, entropy=True)
    shapes = tuple(shape_of(item.tree, item.entropy or 0.0) for item in found)
    lines = tuple(item.index + 1 for item in found)
    return Structure(subject.name, subject.kind, trees, lines, shapes, left_out_rows(walk.left_out))


def summary(shapes: Sequence[Shape]) -> dict[str, Any]:
    """Put shapes together: shares are those of all sentences taken as one, the rest means of sentences."""
    tokens, in_prefix = sum(s.tokens for s in shapes), sum(s.in_prefix for s in shapes)
    sizes = [size for shape in shapes for size in shape.prefix_sizes]
    skips = [skip for shape in shapes for skip in shape.skips]
    full = [size for size in sizes if size]
    return {
        "sentences": len(shapes),
        "tokens": mean([s.tokens for s in shapes]),
        "tokens_in_prefix_trees": ratio(in_prefix, tokens),
        "nodes_with_prefix_tree": ratio(len(full), len(sizes)),
        "tokens_per_prefix_tree": mean(full),
        "prefix_depth": mean([s.prefix_depth for s in shapes]),
        "depth": mean([s.depth for s in shapes]),
        "skips_per_step": mean(skips),
        "steps_that_skip": ratio(sum(skip > 0 for skip in skips), len(skips)),
        "chain_used": ratio(sum(len(s.skips) + 1 for s in shapes), sum(s.chain for s in shapes)),
        "canvas_used": ratio(sum(s.tokens + 2 for s in shapes), sum(s.symbols for s in shapes)),
        "entropy": mean([s.entropy for s in shapes]),
        "entropy_standard_error": standard_error([s.entropy for s in shapes]),
        "entropy_per_token": ratio(sum(s.entropy for s in shapes), tokens),
    }


def structure_report(texts: EvaluationSet, results: Sequence[Structure]) -> Report:
    """Put models side by side, each with a table by length."""
    blocks = [f"# Structure of the trees\n\n{texts.name}; trees of the {results[0].trees}s"]
    rows = []
    for result in results:
        classes = by_length((shape.tokens, shape) for shape in result.shapes)
        found = {name: summary(inside) for name, inside in classes.items()}
        whole = summary(result.shapes)
        rows.append(
            {
                "name": result.name,
                "model": result.model,
                "trees": result.trees,
                "all": whole,
                "by_length": found,
                "prefix_sizes": _counts(size for shape in result.shapes for size in shape.prefix_sizes),
                "skips": _counts(skip for shape in result.shapes for skip in shape.skips),
                "left_out": result.left_out,
                "sentences": [
                    {"line": line, **asdict(shape)}
                    for line, shape in zip(result.lines, result.shapes, strict=True)
                ],
            }
        )
        blocks += [
            f"## {result.name} ({result.model})",
            _table({**found, "all": whole}).markdown(),
            left_out_text(result.name, result.left_out),
        ]
    data = {"analysis": "structure", "text": texts.name, "models": rows}
    return Report("structure", "\n\n".join(blocks), data, lambda figure: _draw(figure, results), (11.0, 7.0))


COLUMNS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "in prefix trees": ("tokens_in_prefix_trees", percent),
    "nodes with one": ("nodes_with_prefix_tree", percent),
    "tokens in one": ("tokens_per_prefix_tree", partial(number, digits=2)),
    "its depth": ("prefix_depth", partial(number, digits=2)),
    "depth": ("depth", partial(number, digits=1)),
    "skips": ("skips_per_step", partial(number, digits=2)),
    "chain used": ("chain_used", percent),
    "canvas used": ("canvas_used", percent),
    "entropy": ("entropy", partial(number, digits=2)),
    "per token": ("entropy_per_token", partial(number, digits=3)),
}


def _table(found: dict[str, dict[str, Any]]) -> Table:
    rows = [
        [name, str(row["sentences"]), *(shown(row[key]) for key, shown in COLUMNS.values())]
        for name, row in found.items()
    ]
    return Table(["tokens", "sentences", *COLUMNS], rows)


def _counts(values: Any) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}


def _draw(figure: Any, results: Sequence[Structure]) -> None:
    """Draw what prefix trees hold, what is skipped, and by length how much is used and how sure it is."""
    (sizes, skips), (used, entropy) = figure.subplots(2, 2)
    width = 0.8 / len(results)
    for place, (result, colour, marker) in enumerate(zip(results, cycle(COLOURS), cycle(MARKERS))):
        shift = (place - (len(results) - 1) / 2) * width
        held = [size for shape in result.shapes for size in shape.prefix_sizes]
        skipped = [min(skip, MOST_SKIPS_DRAWN) for shape in result.shapes for skip in shape.skips]
        for axes, values in ((sizes, held), (skips, skipped)):
            counts = Counter(values)
            shares = [counts[value] / len(values) for value in sorted(counts)]
            axes.bar(
                [value + shift for value in sorted(counts)], shares, width, color=colour, label=result.name
            )
        classes = by_length((shape.tokens, shape) for shape in result.shapes)
        at = [CLASSES.index(name) for name in classes]
        rows = [summary(inside) for inside in classes.values()]
        style = {"color": colour, "marker": marker, "markersize": 5}
        used.plot(at, [100 * row["canvas_used"] for row in rows], label=result.name, **style)
        used.plot(at, [100 * row["chain_used"] for row in rows], linestyle=":", **style)
        errors = [row["entropy_standard_error"] or 0.0 for row in rows]
        entropy.errorbar(at, [row["entropy"] for row in rows], errors, capsize=3, label=result.name, **style)
    sizes.set(xlabel="tokens in the prefix tree", ylabel="share of main-chain nodes", title="Prefix trees")
    skips.set(xlabel="main-chain nodes skipped", ylabel="share of steps", title="Skips")
    labels = [str(value) for value in range(MOST_SKIPS_DRAWN)]
    skips.set_xticks(range(MOST_SKIPS_DRAWN + 1), [*labels, f"≥ {MOST_SKIPS_DRAWN}"])
    used.set(ylabel="%", ylim=(0, 100), title="Symbols used (solid), main-chain nodes used (dotted)")
    entropy.set(ylabel="nats", title="Entropy of the posterior over trees")
    entropy.set_ylim(bottom=0)
    sizes.xaxis.get_major_locator().set_params(integer=True)
    for axes in (used, entropy):
        axes.set_xticks(range(len(CLASSES)), CLASSES)
        axes.set_xlabel("tokens of the sentence")
        axes.grid(axis="y", alpha=0.3)
    if len(results) > 1:
        entropy.legend(frameon=False)
