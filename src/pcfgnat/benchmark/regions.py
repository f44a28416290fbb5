"""Where the time of a training step goes: stopwatches around the calls that a step is made of."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from pcfgnat.networks import PCFG, Autoregressive, Collapsing, DirectedAcyclic, Vanilla
from pcfgnat.networks import autoregressive as token_by_token
from pcfgnat.networks.parallel import ParallelModel
from pcfgnat.nn.embeddings import TokenEmbedding
from pcfgnat.nn.transformer import Decoder
from pcfgnat.structures import CTC, DAG, Independent
from pcfgnat.structures.ctc import numba as ctc_numba
from pcfgnat.structures.ctc.distribution import CTCPosterior
from pcfgnat.structures.dag import DAGPosterior
from pcfgnat.structures.distribution import Posterior, SequenceDistribution, _GatherTokens
from pcfgnat.structures.rhpcfg import numba as grammar_numba
from pcfgnat.structures.rhpcfg.distribution import RHPCFG, RHPCFGPosterior
from pcfgnat.training.ema import Ema
from pcfgnat.training.learner import Learner

GLANCING, BACKWARD, PROGRAM = "glancing pass", "backward", "dynamic program"
REGIONS = (
    "encoder",
    GLANCING,
    "decoder",
    "output layer",
    "rule scores",
    PROGRAM,
    BACKWARD,
    "optimiser",
    "rest",
)
# All that happens in these counts for them, but for the dynamic program.
WHOLE = (GLANCING, BACKWARD, "optimiser")
CALLS: tuple[tuple[Any, str, str], ...] = (
    (ParallelModel, "_encode", "encoder"),
    (Autoregressive, "_encode", "encoder"),
    (ParallelModel, "_glance", GLANCING),
    (ParallelModel, "_decode", "decoder"),
    (Decoder, "forward", "decoder"),
    (ParallelModel, "_emissions", "output layer"),
    (TokenEmbedding, "scores", "output layer"),
    (token_by_token, "_log_softmax", "output layer"),
    *((model, "distribution", "rule scores") for model in (PCFG, DirectedAcyclic, Collapsing, Vanilla)),
    (SequenceDistribution, "log_prob", PROGRAM),
    *((kind, "argmax", PROGRAM) for kind in (Posterior, RHPCFGPosterior, DAGPosterior, CTCPosterior)),
    *((kind, "posterior", PROGRAM) for kind in (RHPCFG, DAG, CTC, Independent)),
    *((kind, "backward", PROGRAM) for kind in (grammar_numba._LogPartition, ctc_numba._LogPartition)),
    (_GatherTokens, "backward", PROGRAM),
    (torch.Tensor, "backward", BACKWARD),
    (Learner, "_clipped", "optimiser"),
    (torch.optim.AdamW, "step", "optimiser"),
    (Ema, "update", "optimiser"),
)


class Stopwatch:
    """Seconds by region; a region inside another one stops the clock of the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(REGIONS, 0.0)
        self._inside: list[str] = ["rest"]
        self._since = time.perf_counter()

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Let the time of this block count for a region."""
        outer = self._inside[-1]
        keeps = outer in WHOLE and name != PROGRAM
        self._change()
        self._inside.append(outer if keeps or outer == PROGRAM else name)
        try:
            yield
        finally:
            self._change()
            self._inside.pop()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure this block; what is in no region is the rest."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._change()

    def _change(self) -> None:
        now = time.perf_counter()
        self.seconds[self._inside[-1]] += now - self._since
        self._since = now


class Watched:
    """The calls of a step, wrapped as long as the block lasts; `watch` may be exchanged in between."""

    def __init__(self) -> None:
        self.watch = Stopwatch()
        self._stack = ExitStack()

    def __enter__(self) -> "Watched":
        for owner, name, region in CALLS:
            self._wrap(owner, name, region)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _wrap(self, owner: Any, name: str, region: str) -> None:
        original = vars(owner).get(name)
        if original is None:  # inherited: the call that it inherits is wrapped itself
            inherited = getattr(owner, name)
            setattr(owner, name, self._timed(inherited, region))
            self._stack.callback(delattr, owner, name)
            return
        static = isinstance(original, staticmethod)
        timed = self._timed(original.__func__ if static else original, region)
        setattr(owner, name, staticmethod(timed) if static else timed)
        self._stack.callback(setattr, owner, name, original)

    def _timed(self, call: Callable[..., Any], region: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            with self.watch.region(region):
                return call(*arguments, **named)

        return wrapped
