"""The trees to look at: those of the references, or those of the model's own translations."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pcfgnat.analysis.subject import AnalysisError, Walk
from pcfgnat.networks import Batch
from pcfgnat.networks.emissions import target_distribution
from pcfgnat.structures import ParseTree
from pcfgnat.structures.distribution import TreePosterior

TreeSource = Literal["reference", "translation"]


@dataclass(frozen=True)
class Parsed:
    """A sentence's best tree over its real ids, and the entropy of all its trees in nats if it was asked for.

    index: the number of its pair, from 0
    """

    index: int
    tree: ParseTree
    entropy: float | None = None


def parsed(walk: Walk, source: TreeSource, entropy: bool) -> list[Parsed]:
    """Return the trees of all pairs in order; those that have none are noted in the walk."""
    found = []
    for indices, batch in walk:
        if source == "translation":
            found += list(_of_translations(walk, indices, batch, entropy))
        else:
            found += list(_of_references(walk, indices, batch, entropy))
    return sorted(found, key=lambda item: item.index)


def _of_references(walk: Walk, indices: list[int], batch: Batch, entropy: bool) -> Iterator[Parsed]:
    distribution, local = target_distribution(walk.subject.network, batch)
    posterior = distribution.posterior(local)
    if not isinstance(posterior, TreePosterior):
        raise AnalysisError(f"{walk.subject.name} must be a model that builds trees, got {walk.subject.kind}")
    trees = posterior.best_tree()
    if None in trees:
        for row, reason in distribution.infeasible(local).items():
            walk.leave_out(indices[row], reason)
    entropies = posterior.entropy().tolist() if entropy else None
    for row, (tree, ids) in enumerate(zip(trees, batch.target.to_lists(), strict=True)):
        if tree is not None:
            own = replace(tree, tokens=tuple(ids))
            yield Parsed(indices[row], own, None if entropies is None else max(entropies[row], 0.0))


def _of_translations(walk: Walk, indices: list[int], batch: Batch, entropy: bool) -> Iterator[Parsed]:
    subject = walk.subject
    best = subject.translated(batch.source.to_lists())
    entropies = None
    if entropy:
        target = walk.padded([hypothesis.ids for hypothesis in best])
        distribution, local = target_distribution(subject.network, Batch(batch.source, target))
        entropies = distribution.posterior(local).entropy().tolist()
    for row, hypothesis in enumerate(best):
        if hypothesis.tree is None:
            raise AnalysisError(f"{subject.name} must be a model that builds trees, got {subject.kind}")
        yield Parsed(indices[row], hypothesis.tree, None if entropies is None else max(entropies[row], 0.0))
