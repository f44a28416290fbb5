"""A run from its start, or from where it was interrupted, to the final checkpoint."""

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import torch

from pcfgnat.networks import NETWORKS, Network
from pcfgnat.text import Prepared
from pcfgnat.text.prepared import REPORT
from pcfgnat.training.config import TrainConfig, TrainingError
from pcfgnat.training.hardware import prepared_device
from pcfgnat.training.learner import Learner
from pcfgnat.training.processes.workers import Workers, joined
from pcfgnat.training.record.finish import finish, finished
from pcfgnat.training.record.keeper import Keeper
from pcfgnat.training.record.reporter import Reporter
from pcfgnat.training.record.run_directory import RunDirectory, claimed
from pcfgnat.training.record.state import RunState
from pcfgnat.training.signals import StopSignals
from pcfgnat.training.trainer import Trainer, end_reason
from pcfgnat.training.validation import Scores
from pcfgnat.training.warm_start import warm_start

# Seconds: when a machine was cut off, what runs there may live on for a while after the others started again.
LOCK_PATIENCE = 120.0


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    final:       the checkpoint to use; none if the run was interrupted
    bleu:        its BLEU on the validation set, or the best so far
    reason:      why the run ended
    interrupted: whether it was stopped before its end; the same command resumes it
    rank:        which of several processes this is
    """

    directory: Path
    final: Path | None
    step: int
    epochs: float
    seconds: float
    bleu: float | None
    reason: str
    interrupted: bool
    rank: int = 0

    def __str__(self) -> str:
        bleu = "no BLEU yet" if self.bleu is None else f"BLEU {self.bleu:.2f}"
        where = f"{self.directory}: rerun to resume" if self.final is None else str(self.final)
        duration = timedelta(seconds=round(self.seconds))
        return (
            f"{self.reason} at step {self.step}, epoch {self.epochs:.2f}, after {duration}; {bleu}; {where}"
        )


def train(config: TrainConfig) -> TrainResult:
    """Train a network, or resume a run that was interrupted; progress is printed on stderr."""
    config = config.resolved()
    try:
        return _train(config)
    except OSError as error:
        place = error.filename or config.output
        raise TrainingError(f"cannot read or write {place}: {error.strerror or error}") from error


def _train(config: TrainConfig) -> TrainResult:
    device = prepared_device(config)
    with joined(config.distributed, device) as workers:
        return replace(_trained(config, device, workers), rank=workers.rank)


def _trained(config: TrainConfig, device: torch.device, workers: Workers) -> TrainResult:
    data = Prepared.open(config.data)
    data.verify()  # now, rather than to learn from damaged sentences for hours
    torch.manual_seed(config.seed)
    network = NETWORKS[config.network_name][0](config.network_config(), data.tokenizer.vocabulary_size)
    config.objective_value().check(network)
    _check_targets(config)
    _check_lengths(network, data)
    keeper = Keeper(config, data, network)
    with ExitStack() as stack:
        reporter = stack.enter_context(Reporter(silent=not workers.main))
        if config.warm_start is not None and not RunDirectory(config.output).states.saves():
            warm_start(network, config.warm_start, data.tokenizer, reporter.say)
        learner = Learner(network, config, device, workers)
        run = RunDirectory(config.output)
        if workers.main:
            patience = LOCK_PATIENCE if workers.size > 1 else 0.0
            run = stack.enter_context(claimed(config, patience))
        with workers.main_first():  # it puts the directory in order
            state = _restored(run, learner, data, reporter)
        end, scores = end_reason(config, state), finished(run.final, state)
        if end is not None and scores is not None:
            result = _result(run, state, end, scores)
            reporter.say(f"{run.path} is finished already\n{result}")
            return result
        signals = stack.enter_context(StopSignals(reporter.say))
        trainer = Trainer(learner, keeper, run, state, reporter, signals.stopped)
        with trainer.board:
            end, scores = trainer.run(), None
        if end is not None:
            scores = finish(learner, keeper, run, state, reporter.say, signals.stopped)
        result = _result(run, state, end, scores)
        reporter.say(str(result))
        return result


def _check_targets(config: TrainConfig) -> None:
    """Raise an error if the objective cannot learn from several targets as the settings want it to."""
    if config.targets == "log_sum" and not config.objective_value().sums_targets:
        raise TrainingError(f"targets=log_sum needs objective.name=likelihood, got {config.objective_name}")


def _check_lengths(network: Network, data: Prepared) -> None:
    """Raise an error now about sentences that would stop the run later."""
    longest = data.report.train.source.longest
    if longest > network.max_source_length:
        raise TrainingError(
            f"sources must have at most {network.max_source_length} tokens for this network, but "
            f"{data.directory} has one of {longest}; prepare shorter ones, or raise "
            "network.transformer.max_positions"
        )


def _result(run: RunDirectory, state: RunState, end: str | None, scores: Scores | None) -> TrainResult:
    best = state.best[0].bleu if state.best else None
    return TrainResult(
        directory=run.path,
        final=run.final if scores else None,
        step=state.step,
        epochs=state.epochs,
        seconds=state.seconds,
        bleu=scores.bleu if scores else best,
        reason=end if end and scores else "interrupted",
        interrupted=scores is None,
    )


def _restored(run: RunDirectory, learner: Learner, data: Prepared, reporter: Reporter) -> RunState:
    """Resume from the last save, or start."""
    checksum = hashlib.sha256((data.directory / REPORT).read_bytes()).hexdigest()
    loaded = run.states.load(reporter.say)
    if loaded is None:
        return RunState(data_sha256=checksum)
    state, tensors = loaded
    if state.data_sha256 != checksum:
        raise TrainingError(
            f"cannot resume {run.path}: {data.directory} is not the data that it was started with"
        )
    learner.restore(tensors, str(run.states.directory))
    if learner.workers.main:
        run.prune(run.states.needed_steps())
    lost = [best for best in state.best if not run.checkpoint(best.step).is_dir()]
    if lost:
        reporter.say(f"{run.checkpoint(lost[0].step)} is missing, and will not be averaged")
        state.best = [best for best in state.best if best not in lost]
        state.validated_step = state.validated_step if state.best else -1
    reporter.say(f"resuming {run.path} at step {state.step}")
    return state
