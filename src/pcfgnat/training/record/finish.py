"""The end of a run: the mean of the best checkpoints, or the best one if that is better."""

from collections.abc import Callable
from pathlib import Path

from pcfgnat.checkpoints.averaging import averaged
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.weights import load_weights
from pcfgnat.training.learner import Learner
from pcfgnat.training.record.keeper import Keeper
from pcfgnat.training.record.run_directory import RunDirectory
from pcfgnat.training.record.state import RunState
from pcfgnat.training.validation import Scores


def finished(final: Path, state: RunState) -> Scores | None:
    """Return the scores of the final checkpoint, if the run has one of its last step."""
    if not final.exists():
        return None
    training = Checkpoint.open(final).metadata.training
    return _scores(final) if training["steps"] == state.step else None


def finish(
    learner: Learner,
    keeper: Keeper,
    run: RunDirectory,
    state: RunState,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Scores | None:
    """Write the final checkpoint and return its scores; none if there was a stop on the way."""
    network, best = learner.validated, state.best[0]
    sources = [run.checkpoint(kept.step) for kept in state.best]
    load_weights(network, averaged(sources), str(run.best))
    scores: Scores | None = _scores(sources[0])
    note = f"of step {best.step}, the best by BLEU"
    if len(sources) > 1:
        scores = keeper.validator.run(network, keeper.decoding, learner.workers, stopped)
        if scores is None:
            return None
        steps = ", ".join(str(kept.step) for kept in state.best)
        found = (
            f"the mean of steps {steps} has BLEU {scores.bleu:.2f}, step {best.step} alone {best.bleu:.2f}"
        )
        if scores.bleu >= best.bleu:
            note = f"mean of steps {steps}, the best by BLEU"
        else:
            load_weights(network, averaged(sources[:1]), str(sources[0]))
            scores = _scores(sources[0])
        say(f"{found}; the final checkpoint is the {'mean' if note.startswith('mean') else 'single one'}")
    assert scores is not None
    if learner.workers.main:
        keeper.save(run.final, network, state, scores, note)
        run.prune({kept.step for kept in state.best})
    learner.workers.wait()
    return scores


def _scores(directory: Path) -> Scores:
    facts = Checkpoint.open(directory).metadata.training
    return Scores(
        float(facts["valid_bleu"]), float(facts["valid_length_ratio"]), int(facts["valid_sentences"]), 0.0
    )
