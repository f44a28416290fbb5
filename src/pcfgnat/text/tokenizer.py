"""Text to ids and back: sentencepiece models, and text that subword-nmt has already split."""

import hashlib
import io
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Self, SupportsIndex, final

import sentencepiece

from pcfgnat.config import to_dict
from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import regular_file
from pcfgnat.storage.toml import load_config, sealed_toml
from pcfgnat.text.composition import composed
from pcfgnat.text.lines import TextError
from pcfgnat.text.pipeline import MosesSettings, RawPipeline, RawSteps
from pcfgnat.text.special import SPECIAL_TOKENS

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
DESCRIPTION, CODES = "tokenizer.toml", "codes.txt"
MAX_BYTES = 1 << 26
TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
TOO_LARGE = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")


@dataclass(frozen=True)
class LearnSettings:
    """How to learn a byte-pair encoding.

    It is learnt from `sample_size` sentences of the corpus, or from all if there are no more. Rare characters
    beyond `character_coverage` become unknown, or bytes with `byte_fallback`. `normalization` is one of
    sentencepiece's rules; all but `identity` show in the output: full-width punctuation is lost, for one.
    """

    vocabulary_size: int = 8000
    character_coverage: float = 0.99999
    byte_fallback: bool = False
    normalization: Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"] = "identity"
    sample_size: int = 1_000_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.vocabulary_size < 5:
            raise ValueError(f"vocabulary_size must be at least 5, got {self.vocabulary_size}")
        if not 0.5 <= self.character_coverage <= 1:
            raise ValueError(f"character_coverage must be in 0.5 … 1, got {self.character_coverage}")
        if self.sample_size < 1:
            raise ValueError(f"sample_size must be at least 1, got {self.sample_size}")


@dataclass(frozen=True)
class _RawDescription:
    """The codes, and what came before them."""

    codes_sha256: str
    moses: MosesSettings | None = None


@dataclass(frozen=True)
class _Description:
    """What `tokenizer.toml` says about the files beside it; `raw` only of subwords that carry their codes."""

    kind: Literal["sentencepiece", "subwords"]
    vocabulary_size: int
    sha256: str
    raw: _RawDescription | None = None

    def __post_init__(self) -> None:
        if self.raw is not None and self.kind != "subwords":
            raise ValueError(f"raw must come with kind subwords, got {self.kind}")


class Tokenizer(ABC):
    """Text to ids, `bos … eos`, and back. It consists of the contents of files and never changes.

    There are two kinds of text: that of a corpus, which `prepare`, `distill` and `evaluate` read, and raw
    text, which users write. They differ only for a corpus that was split before it was prepared:
    `for_raw_text` and `for_corpus_text` return the tokenizer of each, with equal ids.
    """

    pad: ClassVar[int] = SPECIAL_TOKENS.pad
    unk: ClassVar[int] = SPECIAL_TOKENS.unk
    bos: ClassVar[int] = SPECIAL_TOKENS.bos
    eos: ClassVar[int] = SPECIAL_TOKENS.eos
    kind: ClassVar[Literal["sentencepiece", "subwords"]]
    file_name: ClassVar[str]
    steps: RawSteps | None = None
    pipeline: RawPipeline | None = None

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def takes_raw_text(self) -> bool:
        """Whether `encode_all` reads text as users write it."""
        return True

    def for_raw_text(self) -> "Tokenizer":
        """Return the tokenizer of raw text; of a split corpus without codes there is none but its own."""
        return self

    def for_corpus_text(self) -> "Tokenizer":
        """Return the tokenizer of the text that was prepared."""
        return self

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """Number of ids, special ones included."""

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, each with bos and eos."""

    @abstractmethod
    def plain(self, text: str) -> str:
        """Return a line of a corpus as a reader wants it: without the marks of a split made beforehand."""

    @abstractmethod
    def _piece(self, token: int) -> str: ...

    @abstractmethod
    def _join(self, ids: list[int]) -> str: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text with bos and eos."""
        return self.encode_all([text])[0]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Return the text of ids; special ones, unk among them, are left out."""
        return self._join([token for token in self._checked(ids) if token >= len(SPECIAL_PIECES)])

    def pieces(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """Return the name of each id."""
        names = self._names
        return [names[token] for token in self._checked(ids)]

    @cached_property
    def _names(self) -> list[str]:
        plain = range(len(SPECIAL_PIECES), self.vocabulary_size)
        return [*SPECIAL_PIECES, *map(self._piece, plain)]

    @property
    def sha256(self) -> str:
        """Hash of all that the tokenizer consists of: equal for equal tokenizers."""
        content = self._content if self.steps is None else self._content + self.steps.fingerprint
        return hashlib.sha256(content).hexdigest()

    def save(self, directory: Path) -> None:
        """Write `tokenizer.toml` and the files that it describes."""
        directory.mkdir(parents=True, exist_ok=True)
        steps, found = self.steps, hashlib.sha256(self._content).hexdigest()
        raw = None if steps is None else _RawDescription(steps.codes_sha256, steps.moses)
        description = _Description(self.kind, self.vocabulary_size, found, raw)
        (directory / self.file_name).write_bytes(self._content)
        if steps is not None:
            (directory / CODES).write_bytes(steps.codes)
        (directory / DESCRIPTION).write_text(sealed_toml(to_dict(description)), encoding="utf-8")

    @staticmethod
    def load(directory: Path) -> "Tokenizer":
        """Read what `save` wrote."""
        try:
            description = load_config(_Description, regular_file(directory, DESCRIPTION))
            kind = KINDS[description.kind]
            path = regular_file(directory, kind.file_name)
            content = _intact(path, description.sha256)
            if description.raw is None:
                tokenizer: Tokenizer = kind(content, str(path))
            else:
                codes = regular_file(directory, CODES)
                own = _intact(codes, description.raw.codes_sha256)
                steps = RawSteps(own, description.raw.moses, str(codes))
                tokenizer = SubwordTokenizer(content, str(path), steps)
        except StorageError as error:
            raise TextError(str(error)) from error
        if tokenizer.vocabulary_size != description.vocabulary_size:
            expected, size = description.vocabulary_size, tokenizer.vocabulary_size
            raise TextError(f"{path} must have {expected} tokens by {DESCRIPTION}, got {size}")
        return tokenizer

    def _checked(self, ids: Iterable[SupportsIndex]) -> list[int]:
        plain, size = list(map(operator.index, ids)), self.vocabulary_size
        if plain and not (min(plain) >= 0 and max(plain) < size):
            wrong = next(token for token in plain if not 0 <= token < size)
            raise ValueError(f"ids must be in 0 … {size - 1}, got {wrong}")
        return plain


@final
class SentencePieceTokenizer(Tokenizer):
    """A sentencepiece model. Text is composed (NFC) and its white space made single spaces first."""

    kind = "sentencepiece"
    file_name = "tokenizer.model"

    def __init__(self, model: bytes, origin: str = "model") -> None:
        super().__init__(model)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise TextError(f"{origin} is not a sentencepiece model, or is damaged") from error
        processor = self._processor
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found != (self.pad, self.unk, self.bos, self.eos):
            raise TextError(f"{origin} must have pad, unk, bos, eos = (0, 1, 2, 3), got {found}")
        self._size = int(processor.get_piece_size())

    @classmethod
    def from_file(cls, path: Path) -> "SentencePieceTokenizer":
        """Read a `.model` file."""
        return cls(_content(path), str(path))

    @classmethod
    def learn(cls, sentences: Iterable[str], settings: LearnSettings) -> "SentencePieceTokenizer":
        """Learn a byte-pair encoding; the same sentences in the same order give the same bytes."""
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(text for sentence in sentences if (text := composed(sentence))),
                model_writer=model,
                model_type="bpe",
                vocab_size=settings.vocabulary_size,
                character_coverage=settings.character_coverage,
                byte_fallback=settings.byte_fallback,
                normalization_rule_name=settings.normalization,
                pad_id=cls.pad,
                unk_id=cls.unk,
                bos_id=cls.bos,
                eos_id=cls.eos,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise TextError(_learning_failed(str(error), settings)) from error
        return cls(model.getvalue())

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, special ones included."""
        return self._size

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, each with bos and eos."""
        return [self.encode(text) for text in texts]  # sentencepiece starts threads when it is given a list

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text with bos and eos."""
        ids: list[int] = self._processor.encode(composed(text), add_bos=True, add_eos=True)
        return ids

    def plain(self, text: str) -> str:
        """Return the text itself."""
        return text

    def _piece(self, token: int) -> str:
        return str(self._processor.id_to_piece(token))

    def _join(self, ids: list[int]) -> str:
        return " ".join(
            self._processor.decode(ids).split()
        )  # a space may stand on either side of what is left out


@final
class SubwordTokenizer(Tokenizer):
    """Text that is split already, subwords marked with a final `@@`, and the list of types.

    The list has a type a line, or `type count` as fairseq's `dict.txt` has it. Their ids follow the special
    ones, which may stand in the list but keep their own. With the steps that the text was split in there is
    also a tokenizer of raw text: it splits what it encodes, and detokenises what it decodes.
    """

    kind = "subwords"
    file_name = "vocabulary.txt"

    def __init__(
        self, vocabulary: bytes, origin: str = "vocabulary", steps: RawSteps | None = None, raw: bool = False
    ) -> None:
        super().__init__(vocabulary)
        self._types = [*SPECIAL_PIECES, *_types(vocabulary, origin)]
        self._ids = {piece: token for token, piece in enumerate(self._types) if token >= len(SPECIAL_PIECES)}
        self.steps = steps
        if raw:
            if steps is None:
                raise ValueError("raw text needs the steps that split the corpus, got none")
            self.pipeline = RawPipeline(steps, self._ids)

    @classmethod
    def from_file(cls, path: Path, codes: Path | None = None, moses: MosesSettings | None = None) -> Self:
        """Read a list of types, and the codes of subword-nmt if the tokenizer is to carry them."""
        steps = None if codes is None else RawSteps(_content(codes), moses, str(codes))
        return cls(_content(path), str(path), steps)

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, special ones included."""
        return len(self._types)

    @property
    def takes_raw_text(self) -> bool:
        """Whether `encode_all` splits text itself."""
        return self.pipeline is not None

    def for_raw_text(self) -> Tokenizer:
        """Return the tokenizer that splits text itself, if the codes are known."""
        if self.steps is None or self.pipeline is not None:
            return self
        return SubwordTokenizer(self._content, steps=self.steps, raw=True)

    def for_corpus_text(self) -> Tokenizer:
        """Return the tokenizer of text that is split already."""
        return self if self.pipeline is None else SubwordTokenizer(self._content, steps=self.steps)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, each with bos and eos."""
        ids = self._ids
        if self.pipeline is not None:
            texts = [self.pipeline.split(composed(text)) for text in texts]
        return [[self.bos, *[ids.get(piece, self.unk) for piece in text.split()], self.eos] for text in texts]

    def plain(self, text: str) -> str:
        """Join the subwords of a line."""
        return re.sub(r"@@( |$)", "", text)

    def _piece(self, token: int) -> str:
        return self._types[token]

    def _join(self, ids: list[int]) -> str:
        tokens = self.plain(" ".join(self._types[token] for token in ids))
        return tokens if self.pipeline is None else self.pipeline.plain(tokens)


KINDS: dict[str, type[SentencePieceTokenizer] | type[SubwordTokenizer]] = {
    "sentencepiece": SentencePieceTokenizer,
    "subwords": SubwordTokenizer,
}


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise TextError(f"{path} must have at most {MAX_BYTES} bytes, got more")
    return content


def _intact(path: Path, sha256: str) -> bytes:
    """Return the content of a file, which must have this checksum."""
    content = _content(path)
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise TextError(f"{path} is damaged: its sha256 must be {sha256}, got {found}")
    return content


def _types(vocabulary: bytes, origin: str) -> list[str]:
    """Types in the order of the file, special ones left out."""
    try:
        lines = vocabulary.decode("utf-8").removeprefix("\ufeff").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        place = f"{origin} line {vocabulary.count(10, 0, error.start) + 1}"
        raise TextError(f"{place} must be UTF-8, got byte 0x{vocabulary[error.start]:02x}") from error
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        match = re.fullmatch(r"(\S+)(?: \d+)?(?: #fairseq:overwrite)?\r?", line)
        if not match:
            raise TextError(f"{origin} line {number} must be a type, or a type and its count, got {line!r}")
        piece = match[1]
        if piece in seen:
            raise TextError(f"{origin} line {number} repeats {piece!r} of line {seen[piece]}")
        seen[piece] = number
    return [piece for piece in seen if piece not in SPECIAL_PIECES]


def _learning_failed(message: str, settings: LearnSettings) -> str:
    size = settings.vocabulary_size
    if "!sentences_.empty()" in message:
        return "there must be text to learn a tokenizer from, got none"
    if match := TOO_LARGE.search(message):
        return f"vocabulary_size must be at most {match[1]} for so little text, got {size}"
    if match := TOO_SMALL.search(message):
        return (
            f"vocabulary_size must be at least {match[1]} for the characters of this text, got {size}; "
            f"or lower character_coverage, now {settings.character_coverage}"
        )
    return f"sentencepiece cannot learn from this text: {message}"
