"""What is known about a model on disk: architecture, defaults, facts and the card that people read.

Without torch: checkpoints and exported models share it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pcfgnat.storage.files import file_sha256

MAX_LENGTH_PENALTY = 100.0


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, used or written."""


@dataclass(frozen=True)
class DecodingDefaults:
    """How a model translates when nobody says otherwise.

    strategy:       as the command line names it, with its settings: `viterbi`, `beam:size=5`
    length_penalty: β: translations are ranked by score / length^β
    """

    strategy: str
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not abs(self.length_penalty) <= MAX_LENGTH_PENALTY:
            limit = f"{MAX_LENGTH_PENALTY:g}"
            raise ValueError(f"length_penalty must be in -{limit} … {limit}, got {self.length_penalty}")


@dataclass(frozen=True)
class Languages:
    """What is translated into what; empty if nobody said."""

    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Card:
    """What only people can say about a model; each may be empty.

    title:   heading of the card
    licence: terms under which the weights may be used
    data:    what the model was trained on
    limits:  what the model is not good at
    """

    title: str = ""
    licence: str = ""
    data: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Metadata:
    """What `checkpoint.toml` holds: the network, how to decode it and, as facts, how it was trained.

    vocabulary: number of ids, which is the tokenizer's
    network:    `name` and the settings of the architecture
    training:   data, objective, steps, epochs, seconds, BLEU on the validation set and the like
    """

    format: Literal[2]
    version: str
    vocabulary: int
    weights_sha256: str
    network: dict[str, Any]
    decoding: DecodingDefaults
    languages: Languages = field(default_factory=Languages)
    card: Card = field(default_factory=Card)
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def network_name(self) -> str:
        """The network's name in `NETWORKS`."""
        return str(self.network.get("name", ""))

    @property
    def architecture(self) -> dict[str, Any]:
        """Return the settings of the network without its name."""
        return {key: value for key, value in self.network.items() if key != "name"}


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def model_card(metadata: Metadata, parameters: int, name: str) -> str:
    """Write what people want to know before they use a model, as far as it is known."""
    languages, decoding, card = metadata.languages, metadata.decoding, metadata.card
    pair = f"{languages.source or 'source'} to {languages.target or 'target'}"
    facts = {
        "network": f"{metadata.network_name}, {parameters / 1e6:.1f} million parameters",
        "languages": f"{languages.source or 'not stated'} → {languages.target or 'not stated'}",
        "vocabulary": f"{metadata.vocabulary} subwords",
        "written by": f"pcfgnat {metadata.version}",
    }
    defaults = {"strategy": decoding.strategy, "length penalty": decoding.length_penalty}
    usage = (
        f'```sh\npcfgnat translate --model {name} "…"\n```\n\n'
        "```python\nfrom pcfgnat import Translator\n\n"
        f'translator = Translator.load("{name}")\nprint(translator("…"))\n```'
    )
    sections = [
        f"# {card.title or f'Translation from {pair}'}\n\n{_listed(facts)}",
        f"## Use\n\n{usage}",
        f"## Default decoding\n\n{_listed(defaults)}",
        f"## Training\n\n{_listed(metadata.training) or 'Not stated.'}",
        f"## Data\n\n{card.data or 'Not stated.'}",
        f"## Limits\n\n{card.limits or 'Not stated.'}",
        f"## Licence\n\n{card.licence or 'Not stated.'}",
    ]
    return "\n\n".join(sections) + "\n"


def _listed(facts: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    return "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in shown.items())


def differing_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings, as dotted names, in which two nested tables differ, with both values."""
    flat = [dict(flattened(table)) for table in (first, second)]
    names = sorted(flat[0].keys() | flat[1].keys())
    pairs = {name: (flat[0].get(name, "unset"), flat[1].get(name, "unset")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all settings of nested tables under dotted names."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
