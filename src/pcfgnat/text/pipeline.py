"""Raw text to the tokens of a corpus that Moses' scripts and subword-nmt have split, and back.

Both libraries are imported at their first use: text that is split already needs neither.
"""

import hashlib
import io
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pcfgnat.text.lines import TextError

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
    from subword_nmt.apply_bpe import BPE

SEPARATOR, WORD_END = "@@", "</w>"
NOT_INSTALLED = (
    "raw text of this model needs sacremoses and subword-nmt: pip install 'pcfgnat[subword]', "
    "or give text that is split with @@ to a model without codes"
)
UNSPACED_LANGUAGES = ("zh", "ja", "th", "lo", "km", "my")
VERSION = re.compile(r"#version: 0\.[12](?:\.0+)*")
MERGE = re.compile(r"[^ \r\n]+ [^ \r\n]+")
ESCAPE = re.compile(r"&(?:amp|apos|quot|lt|gt|#124|#91|#93);|@-@")
MAX_WORD = 200  # characters that merges are applied to at once, as they take quadratic time
MAX_CACHED = 100_000  # words whose subwords are remembered


@dataclass(frozen=True)
class MosesSettings:
    """How Moses' scripts tokenised a corpus: for which languages, and whether with `-a`.

    Their order is that of the paper's text: punctuation is normalised, characters that cannot be printed
    become spaces, then words are separated and special characters escaped.
    """

    source_language: str
    target_language: str
    aggressive: bool = True

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):
            if not getattr(self, name):
                raise ValueError(f"{name} must be known for Moses' rules, got none")
        if _code(self.source_language) in UNSPACED_LANGUAGES:
            found = self.source_language
            raise ValueError(f"source_language must be written with spaces for Moses' rules, got {found!r}")


@dataclass(frozen=True)
class RawSteps:
    """What was done to a corpus before it was prepared: subword-nmt's codes, and Moses' scripts before them.

    Without `moses` raw text is text with spaces between all tokens.
    """

    codes: bytes
    moses: MosesSettings | None = None
    origin: str = "codes"

    def __post_init__(self) -> None:
        lines = self.text.removesuffix("\n").split("\n")
        first = 1 if lines[0].startswith("#version:") else 0
        if first and not VERSION.fullmatch(lines[0].strip()):
            raise TextError(f"{self.origin} must have version 0.1 or 0.2, got {lines[0].strip()!r}")
        if not lines[first:]:
            raise TextError(f"{self.origin} must have at least one merge, got none")
        for number, line in enumerate(lines[first:], start=first + 1):
            if not MERGE.fullmatch(line.strip("\r\n ")):
                raise TextError(f"{self.origin} line {number} must be two subwords and a space, got {line!r}")

    @cached_property
    def text(self) -> str:
        """The codes as subword-nmt reads them."""
        try:
            return self.codes.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            place = f"{self.origin} line {self.codes.count(10, 0, error.start) + 1}"
            raise TextError(f"{place} must be UTF-8, got byte 0x{self.codes[error.start]:02x}") from error

    @property
    def reversible(self) -> bool:
        """Whether subword-nmt can undo merges: not where the end of a word is a symbol, as in version 0.1."""
        if not self.text.startswith("#version: 0.2"):
            return False
        merges = (line.strip("\r\n ").split(" ") for line in self.text.split("\n")[1:] if line)
        closing = (pair[1] for pair in merges if "".join(pair).endswith(WORD_END))
        return all(right.endswith(WORD_END) and right != WORD_END for right in closing)

    @property
    def fingerprint(self) -> bytes:
        """Bytes that are equal for equal steps."""
        moses = self.moses
        rules = "" if moses is None else f"{moses.source_language} {moses.target_language} {moses.aggressive}"
        return f"{self.codes_sha256} {rules}".encode()

    @property
    def codes_sha256(self) -> str:
        """Hash of the codes."""
        return hashlib.sha256(self.codes).hexdigest()


class RawPipeline:
    """The steps as functions of text, for a vocabulary: merges that lead out of it are undone if possible."""

    def __init__(self, steps: RawSteps, vocabulary: Collection[str]) -> None:
        self._steps, self._vocabulary = steps, frozenset(vocabulary)
        self._source = self._target = None
        if steps.moses is not None:
            self._source = _Moses(steps.moses.source_language, steps.moses.aggressive)
            self._target = _Moses(steps.moses.target_language, steps.moses.aggressive)

    def split(self, text: str) -> str:
        """Return a source as a corpus has it: tokens, and subwords marked with `@@`."""
        tokens = text.split() if self._source is None else self._source.tokens(text)
        return " ".join(subword for token in tokens for subword in self._subwords(token))

    def tokenised(self, text: str) -> str:
        """Return a phrase of the target language as tokens, not split further."""
        return text if self._target is None else " ".join(self._target.tokens(text))

    def plain(self, text: str) -> str:
        """Return tokens of the target language as a reader wants them."""
        return text if self._target is None else self._target.plain(text)

    def without_escapes(self, text: str) -> str:
        """Return a text of the same length with spaces for what Moses writes instead of other characters."""
        return text if self._target is None else ESCAPE.sub(lambda match: " " * len(match[0]), text)

    @cached_property
    def _bpe(self) -> "BPE":
        try:
            from subword_nmt.apply_bpe import BPE
        except ModuleNotFoundError as error:
            raise TextError(NOT_INSTALLED) from error
        vocabulary = self._vocabulary if self._steps.reversible else None
        return BPE(io.StringIO(self._steps.text), separator=SEPARATOR, vocab=vocabulary)

    def _subwords(self, token: str) -> list[str]:
        """Return the subwords of a token; one of hundreds of characters is no word, and taken in pieces."""
        bpe = self._bpe
        if len(bpe.cache) > MAX_CACHED:
            bpe.cache.clear()
        parts = [token[start : start + MAX_WORD] for start in range(0, len(token), MAX_WORD)]
        *first, last = [bpe.segment_tokens([part]) for part in parts]
        return [*(f"{own.removesuffix(SEPARATOR)}{SEPARATOR}" for part in first for own in part), *last]


class _Moses:
    """Moses' rules for a language."""

    def __init__(self, language: str, aggressive: bool) -> None:
        self._language, self._aggressive = _code(language), aggressive

    def tokens(self, text: str) -> list[str]:
        """Normalise a text, and return its tokens."""
        printable = "".join(
            " " if unicodedata.category(character).startswith("C") else character
            for character in self._normalizer.normalize(text)
        )
        found = self._tokenizer.tokenize(printable, aggressive_dash_splits=self._aggressive)
        return [token for own in found for token in own.split()]

    def plain(self, text: str) -> str:
        """Join tokens."""
        return str(self._detokenizer.detokenize(text.split()))

    @cached_property
    def _normalizer(self) -> "MosesPunctNormalizer":
        try:
            from sacremoses import MosesPunctNormalizer
        except ModuleNotFoundError as error:
            raise TextError(NOT_INSTALLED) from error
        return MosesPunctNormalizer(self._language, perl_parity=True)

    @cached_property
    def _tokenizer(self) -> "MosesTokenizer":
        from sacremoses import MosesTokenizer

        return MosesTokenizer(self._language)

    @cached_property
    def _detokenizer(self) -> "MosesDetokenizer":
        try:
            from sacremoses import MosesDetokenizer
        except ModuleNotFoundError as error:
            raise TextError(NOT_INSTALLED) from error
        return MosesDetokenizer(self._language)


def _code(language: str) -> str:
    """Return the language of `de-AT` and the like."""
    return re.split("[-_]", language.lower())[0]
