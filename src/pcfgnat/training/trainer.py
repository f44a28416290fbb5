"""The training loop."""

import math
import time
from collections.abc import Callable

from pcfgnat.networks import Batch
from pcfgnat.text import Batches, share
from pcfgnat.training.config import TrainConfig
from pcfgnat.training.faults import Faults
from pcfgnat.training.learner import Learner, StepResult
from pcfgnat.training.record.curves import draw_curves
from pcfgnat.training.record.keeper import Keeper
from pcfgnat.training.record.logs import CsvLog, TensorBoard, Value
from pcfgnat.training.record.reporter import Reporter
from pcfgnat.training.record.run_directory import RunDirectory
from pcfgnat.training.record.state import Best, Interval, RunState
from pcfgnat.training.schedule import Limits, rate
from pcfgnat.training.targets import TrainingPairs


def end_reason(config: TrainConfig, state: RunState) -> str | None:
    """Return why a run is at its end, if it is."""
    patience = config.validation.patience
    if patience is not None and state.stale >= patience:
        return f"no better BLEU in {state.stale} validations"
    return Limits.of(config).reached(state.step, state.epochs, state.seconds)


class Trainer:
    """Takes steps until a limit is reached or `stopped` says so; `state` is where it is."""

    def __init__(
        self,
        learner: Learner,
        keeper: Keeper,
        run: RunDirectory,
        state: RunState,
        reporter: Reporter,
        stopped: Callable[[], bool],
    ) -> None:
        self.learner, self.keeper, self.directory, self.state = learner, keeper, run, state
        self.config = learner.config
        self.limits = Limits.of(self.config)
        self._workers, main = learner.workers, learner.workers.main
        self.log, self.valid = (CsvLog(path if main else None, state.step) for path in (run.log, run.valid))
        wanted = run.tensorboard if main and self.config.tensorboard else None
        self.board = TensorBoard(wanted, state.step, reporter.say)
        self._reporter, self._stopped = reporter, stopped
        self._pairs = TrainingPairs(keeper.data.corpus("train"), self.config.targets)
        self._faults = Faults(self.config.faults, run.faults, reporter.say, writes=main)
        self._clock, self._saved_seconds = time.monotonic(), state.seconds
        self._draw = self.config.curves and main
        self._plan: Batches
        self._plan_epoch()

    def run(self) -> str | None:
        """Train until the end and return its reason; none if it was stopped before."""
        while True:
            end = end_reason(self.config, self.state)
            if self._validation_due(end is not None) and not self._validate():
                self._save()
                return None
            end = end_reason(self.config, self.state)
            if self._workers.any(end is not None or self._stopped()):
                self._save()
                return end
            if self.state.seconds - self._saved_seconds >= 60 * self.config.save_every_minutes:
                self._save()
            self._step()

    def _step(self) -> None:
        state, config = self.state, self.config
        if state.batch >= state.epoch_batches:
            state.epoch, state.batch = state.epoch + 1, 0
            self._plan_epoch()
        taken = [self._plan[i] for i in range(state.batch, state.epoch_batches)[: config.batches.accumulate]]
        progress = self._progress()
        start = time.monotonic()
        self._workers.seed(config.seed, state.step)
        result = self.learner.step(
            [self._collated(indices) for indices in share(taken, self._workers.rank, self._workers.size)],
            rate(config.optimiser, state.step, progress),
            progress,
            state.updates,
            self._faults.limit(state),
        )
        state.interval.seconds += time.monotonic() - start
        state.step, state.batch = state.step + 1, state.batch + len(taken)
        self._count(result)
        pairs = [index for indices in taken for index in indices]
        self._faults.note(state, result, pairs, self._pairs.corpus, self.keeper.data.tokenizer)
        self._tick()
        self._reporter.step(state.step, self._progress(), state.seconds)
        if state.step % config.log_every == 0:
            self._log(rate(config.optimiser, state.step - 1, progress))

    def _collated(self, indices: list[int]) -> Batch | None:
        """Put pairs together; what glancing draws for one depends on run and step, not on its batch."""
        if not indices:
            return None
        draw = (self.config.seed * 1_000_003 + self.state.step) % 2**62
        return self._pairs.batch(indices, self.learner.device, draw)

    def _count(self, result: StepResult) -> None:
        """Add a step to the sums."""
        state, interval = self.state, self.state.interval
        interval.steps += 1
        interval.tokens += result.tokens
        interval.skipped += result.skipped
        state.tokens += result.tokens
        if result.fault is not None:
            return
        state.updates += 1
        interval.counted += 1
        interval.loss += result.loss
        interval.grad_norm += result.grad_norm
        for name, number in result.metrics.items():
            interval.metrics[name] = interval.metrics.get(name, 0.0) + number
            interval.metric_steps[name] = interval.metric_steps.get(name, 0) + 1

    def _log(self, used_rate: float) -> None:
        state, interval = self.state, self.state.interval
        counted = interval.counted
        row: dict[str, Value] = {
            "step": state.step,
            "epoch": round(state.epochs, 4),
            "seconds": round(state.seconds, 2),
            "loss": interval.loss / counted if counted else math.nan,
            "grad_norm": interval.grad_norm / counted if counted else math.nan,
            "rate": used_rate,
            "tokens_per_second": round(interval.tokens / max(interval.seconds, 1e-9), 1),
            "skipped": interval.skipped,
            "bad_steps": interval.bad,
        }
        row |= {name: number / interval.metric_steps[name] for name, number in interval.metrics.items()}
        self.log.add(row)
        self.board.add("train", row)
        self._reporter.row(row, self._progress(), interval.steps / max(interval.seconds, 1e-9))
        state.interval = Interval()

    def _validation_due(self, at_end: bool) -> bool:
        state, validation = self.state, self.config.validation
        if state.step in (0, state.validated_step):
            return False
        if at_end:
            return True
        if validation.every is not None:
            return state.step % validation.every == 0
        if validation.every_minutes is not None:
            return state.seconds - state.validated_seconds >= 60 * validation.every_minutes
        return state.batch >= state.epoch_batches

    def _validate(self) -> bool:
        """Validate, and keep the network if it is one of the best; false if there was a stop on the way."""
        state, keeper, network = self.state, self.keeper, self.learner.validated
        scores = keeper.validator.run(network, keeper.decoding, self._workers, self._stopped)
        if scores is None:
            return False
        self._tick()
        state.stale = 0 if not state.best or scores.bleu > state.best[0].bleu else state.stale + 1
        candidates = [*state.best, Best(state.step, scores.bleu)]
        state.best = sorted(candidates, key=lambda best: (-best.bleu, -best.step))[
            : self.config.validation.keep
        ]
        state.validated_step, state.validated_seconds = state.step, state.seconds
        if self._workers.main and any(best.step == state.step for best in state.best):
            keeper.save(self.directory.checkpoint(state.step), network, state, scores)
        row: dict[str, Value] = {
            "step": state.step,
            "epoch": round(state.epochs, 4),
            "seconds": round(state.seconds, 2),
            "bleu": scores.bleu,
            "length_ratio": scores.length_ratio,
            "validation_seconds": round(scores.seconds, 2),
        }
        self.valid.add(row)
        self.board.add("valid", row)
        self.board.flush()
        self._reporter.validated(scores, state.step, state.best[0])
        if self._draw:
            self._draw = draw_curves(self.directory.curves, self.log, self.valid, self._reporter.say)
        self._save()
        return True

    def _progress(self) -> float:
        return self.limits.progress(self.state.step, self.state.epochs, self.state.seconds)

    def _plan_epoch(self) -> None:
        settings = self.config.batches.settings(self.config.seed)
        self._plan = self._pairs.plan(settings, self.state.epoch)
        self.state.epoch_batches = len(self._plan)

    def _tick(self) -> None:
        """Add the time since the last call, by the clock of the first process."""
        now = time.monotonic()
        self.state.seconds += self._workers.of_main(now - self._clock)
        self._clock = now

    def _save(self) -> None:
        self._tick()
        for log in (self.log, self.valid):  # rows are not written again once a save is behind them
            log.sync()
        tensors = self.learner.tensors()
        if self._workers.main:
            self.directory.states.save(self.state, tensors)
            self.directory.prune(self.directory.states.needed_steps())
        self._workers.wait()
        self._saved_seconds = self.state.seconds
