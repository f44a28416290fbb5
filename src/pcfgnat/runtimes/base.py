"""What decoding may ask of a network that runs, in torch or on onnxruntime: ids in, arrays out.

A runtime offers one of the protocols below, and from that follows how it can be decoded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.grammar.canvas import Framing
from pcfgnat.grammar.decoding import Emissions, Grammars
from pcfgnat.grammar.search import Hypothesis, Verified

Sources = Sequence[Sequence[int]]
Offered = TypeVar("Offered")
_KNOWN: dict[tuple[type, type], bool] = {}


def offers(thing: object, protocol: type[Offered]) -> TypeGuard[Offered]:
    """Return whether something offers a protocol; asked once for each class, since that is slow."""
    key = (type(thing), protocol)
    if key not in _KNOWN:
        _KNOWN[key] = isinstance(thing, protocol)
    return _KNOWN[key]


@runtime_checkable
class Runtime(Protocol):
    """A network that is ready to run."""

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""


@runtime_checkable
class Tables(Runtime, Protocol):
    """Grammars and graphs: one pass scores all rules and tokens."""

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""


@runtime_checkable
class Frames(Runtime, Protocol):
    """Slots that collapse: one pass scores the tokens and the blank of each slot."""

    @property
    def framing(self) -> Framing:
        """The framing, which has the blank."""

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence["SlotScores"]]]:
        """Yield groups of sources that were run together, as indices, and their slots."""


@runtime_checkable
class OpenFrames(Frames, Protocol):
    """The same, given what some slots emit: canvases may be filled again and again."""

    def read_frames(self, sources: Sources) -> "FramesReader":
        """Encode sources once."""


@runtime_checkable
class FramesReader(Protocol):
    """Sources that have been encoded."""

    @property
    def canvas_lengths(self) -> Int64[np.ndarray, "B"]:
        """How many slots each sentence has."""

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Sequence["SlotScores"]:
        """Run the decoder over R canvases, each of a sentence.

        Open slots hold the id of the unknown token, at the ends of a canvas bos and eos.
        """


@runtime_checkable
class SlotScores(Protocol):
    """The slots of one sentence; special tokens other than the blank are never emitted."""

    def best(self) -> tuple[Float[np.ndarray, "T"], Int64[np.ndarray, "T"]]:
        """Return the best token or blank of each slot."""

    def log_probs(self) -> Float[np.ndarray, "T V"]:
        """Return log-probabilities of all tokens; -inf where not allowed."""


@runtime_checkable
class Slots(Runtime, Protocol):
    """Slots of a predicted length, which may be filled again and again."""

    @property
    def max_canvas_length(self) -> int:
        """The longest canvas, bos and eos included."""

    def read(self, sources: Sources) -> "SlotsReader":
        """Encode sources once, to fill canvases for them as often as wanted."""


@runtime_checkable
class SlotsReader(Protocol):
    """Sources that have been encoded."""

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Emissions:
        """Run the decoder over R canvases, each of a sentence; blanks are the id of the unknown token."""


@runtime_checkable
class VisibleSlots(Slots, Protocol):
    """The same, where each slot sees a set of others of its own."""

    def read_visible(self, sources: Sources) -> "VisibleSlotsReader":
        """Encode sources once."""


@runtime_checkable
class VisibleSlotsReader(SlotsReader, Protocol):
    """Sources that have been encoded; in `fill`, each slot sees all others that are not blank."""

    def fill_visible(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
        visible: Bool[np.ndarray, "R M M"],
    ) -> Emissions:
        """Run the decoder over R canvases; `visible[r, i, j]` is whether slot i sees the token of slot j.

        Whatever is asked for, a slot never sees itself, and always bos and eos.
        """


@runtime_checkable
class Latents(Runtime, Protocol):
    """A latent vector at each position, from which all tokens follow at once."""

    @property
    def max_latents(self) -> int:
        """The greatest number of positions; bos has none, eos has one."""

    def read_latents(self, sources: Sources) -> "LatentsReader":
        """Encode sources once."""


@runtime_checkable
class LatentsReader(Protocol):
    """Sources that have been encoded."""

    @property
    def multiple(self) -> int:
        """Numbers of positions must be multiples of this."""

    @property
    def width(self) -> int:
        """Size of a latent vector."""

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""

    def write(
        self,
        sentence: Int64[np.ndarray, "R"],
        lengths: Int64[np.ndarray, "R"],
        noise: Float[np.ndarray, "R n d"],
    ) -> tuple[Float[np.ndarray, "R n"], Int64[np.ndarray, "R n"]]:
        """Return the best token of each position, a word or eos, and first its log-probability."""

    def log_weights(
        self,
        sentence: Int64[np.ndarray, "R"],
        lengths: Int64[np.ndarray, "R"],
        tokens: Int64[np.ndarray, "R n"],
        noise: Float[np.ndarray, "R n d"],
    ) -> Float[np.ndarray, "R"]:
        """Return the logarithm of an estimate of each row's probability, given its number of positions.

        The estimate is `p(Y|z,X) p(z|X) / q(z|X,Y)`, where z is drawn from the posterior q by the noise.
        """


@dataclass(frozen=True)
class NextTokens:
    """The best next tokens of each of Q hypotheses of B sentences, best first, and the end's own score."""

    log_probs: Float[np.ndarray, "B Q W"]
    tokens: Int64[np.ndarray, "B Q W"]
    end: Float[np.ndarray, "B Q"]


@dataclass(frozen=True)
class Reading:
    """What a model expects behind each of Q tokens that it has read of B sentences.

    best:             the most probable next token
    best_log_probs:   its log-probability
    given_log_probs:  that of the next token that was given
    end:              that of the end
    """

    best: Int64[np.ndarray, "B Q"]
    best_log_probs: Float[np.ndarray, "B Q"]
    given_log_probs: Float[np.ndarray, "B Q"]
    end: Float[np.ndarray, "B Q"]


@runtime_checkable
class Stepper(Protocol):
    """Encoded sources, and all tokens that hypotheses have read so far."""

    def step(
        self, tokens: Int64[np.ndarray, "B Q"], visible: Bool[np.ndarray, "B Q S"] | None, width: int | None
    ) -> NextTokens:
        """Read one more token of each hypothesis, and return the `width` best next ones, all if None.

        `visible[b, q]` marks the tokens of hypothesis q among all S that sentence b has read, the new ones
        last; None: all of them. Special tokens other than the end are never among the next ones.
        """

    def read(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        following: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
    ) -> Reading:
        """Read Q consecutive tokens of each sentence, behind the first `kept[b]` that it has read.

        What it has read beyond these is forgotten. `following` are the tokens whose probability is asked for.
        Special tokens other than the end are never the best. Not to be mixed with `step`.
        """

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only; one may be taken several times."""


@runtime_checkable
class Steps(Runtime, Protocol):
    """Token by token."""

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written, bos and eos included."""

    def start(self, sources: Sources) -> Stepper:
        """Encode sources; nothing has been read of their translations."""


@runtime_checkable
class Drafts(Tables, Steps, Protocol):
    """Both: grammars that propose, and a model that reads proposals."""

    def read_drafts(self, sources: Sources) -> "DraftsReader":
        """Encode sources once for both, where both have one encoder."""


@runtime_checkable
class LatentDrafts(Latents, Steps, Protocol):
    """Both: latents that propose, and a model that reads proposals."""


@runtime_checkable
class DraftsReader(Protocol):
    """Sources that have been encoded."""

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""

    def start(self) -> Stepper:
        """Return the reader of all sources; nothing has been read of their translations."""


@dataclass(frozen=True)
class Limits:
    """The greatest length of a draft, and of what is verified."""

    draft: int
    verified: int


@dataclass(frozen=True)
class Verifying:
    """How drafts are verified.

    length_penalty: drafts of different lengths are compared by `score / L^β`
    slack:          by how much a drafted token may be worse than the best one
    whole:          whether log-probabilities of whole drafts are wanted, which must be read for that
    """

    length_penalty: float
    slack: float
    whole: bool = False


@runtime_checkable
class DraftsVerifier(DraftsReader, Protocol):
    """The same, where all rounds of a sentence are one call, and so are all candidates."""

    def score(
        self, index: int, texts: Int64[np.ndarray, "R N"], lengths: Int64[np.ndarray, "R"]
    ) -> Float[np.ndarray, "R"]:
        """Return the reader's log-probabilities of translations of source `index`, `bos … eos`."""

    def verify(self, index: int, grammars: Grammars, place: int, limits: Limits, how: Verifying) -> Verified:
        """Draft and read until source `index`, whose grammar is `grammars[place]`, has been translated."""


@runtime_checkable
class GreedyWriter(Steps, Protocol):
    """The same, where a whole sentence is one call."""

    def write_greedily(self, sources: Sources, limits: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
        """Return the most probable token after the other of each source, and the log-probability of all."""


@runtime_checkable
class Searches(Runtime, Protocol):
    """An engine that searches by itself."""

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written, bos and eos included."""

    def search(
        self, sources: Sources, limits: Sequence[int], size: int, length_penalty: float
    ) -> list[list[Hypothesis]]:
        """Return what a beam of this size finds of each source, in at most so many tokens."""
