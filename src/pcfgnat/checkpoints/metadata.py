"""What is known about a model that lies on a disk: settings, defaults, facts and the card that people read.

Whatever the files beside it are, and without torch: checkpoints and exported models share it.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pcfgnat.storage.files import StorageError, atomic_directory, file_sha256, sync
from pcfgnat.structures import Search, SpecialTokens
from pcfgnat.text import Tokenizer

SPECIAL_TOKENS = SpecialTokens(bos=Tokenizer.bos, eos=Tokenizer.eos, pad=Tokenizer.pad, unk=Tokenizer.unk)


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, used or written."""


@dataclass(frozen=True)
class SearchDefaults:
    """How a model translates when nobody says otherwise."""

    strategy: str
    length_penalty: float = 1.0
    beam_size: int = 5

    @classmethod
    def of(cls, search: Search) -> "SearchDefaults":
        """Keep what does not depend on the sentence."""
        return cls(search.strategy, search.length_penalty, search.beam_size)

    def search(self) -> Search:
        """Return them as the models take them."""
        return Search(self.strategy, length_penalty=self.length_penalty, beam_size=self.beam_size)


@dataclass(frozen=True)
class Languages:
    """What is translated into what; empty if nobody said."""

    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Card:
    """What only people can say about a model; each may be empty."""

    title: str = ""
    licence: str = ""
    data: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Description:
    """What `checkpoint.toml` says.

    model, config: name and settings of the model
    vocabulary:    number of ids, which is the tokenizer's
    training:      facts: data, steps, epochs, seconds, BLEU on the validation set and the like
    """

    format: Literal[1]
    version: str
    model: str
    vocabulary: int
    weights_sha256: str
    config: dict[str, Any]
    search: SearchDefaults
    languages: Languages = field(default_factory=Languages)
    card: Card = field(default_factory=Card)
    training: dict[str, Any] = field(default_factory=dict)


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def model_card(description: Description, parameters: int, name: str) -> str:
    """Write what people want to know before they use a model, as far as it is known."""
    languages, search, card = description.languages, description.search, description.card
    pair = f"{languages.source or 'source'} to {languages.target or 'target'}"
    facts = {
        "model": f"{description.model}, {parameters / 1e6:.1f} million parameters",
        "languages": f"{languages.source or 'not stated'} → {languages.target or 'not stated'}",
        "vocabulary": f"{description.vocabulary} subwords",
        "written by": f"pcfgnat {description.version}",
    }
    decoding = {
        "strategy": search.strategy,
        "length penalty": search.length_penalty,
        "beam size": search.beam_size,
    }
    usage = (
        f'```sh\npcfgnat translate --model {name} "…"\n```\n\n'
        "```python\nfrom pcfgnat.translator import Translator\n\n"
        f'translator = Translator.load("{name}")\nprint(translator("…"))\n```'
    )
    sections = [
        f"# {card.title or f'Translation from {pair}'}\n\n{_listed(facts)}",
        f"## Use\n\n{usage}",
        f"## Decoding, if nothing else is asked for\n\n{_listed(decoding)}",
        f"## Training\n\n{_listed(description.training) or 'Not stated.'}",
        f"## Data\n\n{card.data or 'Not stated.'}",
        f"## Limits\n\n{card.limits or 'Not stated.'}",
        f"## Licence\n\n{card.licence or 'Not stated.'}",
    ]
    return "\n\n".join(sections) + "\n"


def _listed(facts: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    return "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in shown.items())


@contextmanager
def replaced(path: Path, description: str) -> Iterator[Path]:
    """Give a directory to write into that takes the place of `path` once it is whole.

    What is there already is replaced only if it is empty or has a file of the name `description`.
    """
    fresh, old = (path.with_name(f".{path.name}.{suffix}") for suffix in ("new", "old"))
    try:
        if path.exists() and not (path / description).exists() and any(path.iterdir()):
            raise CheckpointError(f"{path} must not exist, be empty or be a checkpoint to be replaced")
        if old.exists() and not path.exists():  # a process was killed between the two renamings below
            old.rename(path)
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        with atomic_directory(fresh) as partial:
            yield partial
        if path.exists():
            path.rename(old)
        fresh.rename(path)
        sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except StorageError as error:
        message = str(error).replace(str(fresh.absolute()), str(path))
        raise CheckpointError(message) from error
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error
