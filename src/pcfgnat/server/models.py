"""A model on the server: what it is, and what its thread does."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcfgnat.checkpoints.metadata import Card
from pcfgnat.decoding import strategies_of, strategy_text
from pcfgnat.decoding.constraints import Constraining, Constraints
from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.server.schemas import ModelCard, ModelFacts
from pcfgnat.translator import TranslateOptions, Translation, Translator, describe_model, model_directory
from pcfgnat.translator.lattice import lattice_of

BUNDLED_NAME = "en-de"
NAME = re.compile(r"[\w.→-]{1,100}")


@dataclass(frozen=True)
class Task:
    """What to do with some texts; requests with equal tasks go together.

    trees:   whether the parse trees are wanted, which take time to write down
    explain: how many alternatives are wanted at every node, instead of translations
    """

    options: TranslateOptions
    trees: bool = True
    explain: int | None = None


@dataclass(frozen=True)
class ServedModel:
    """A translator, for one thread at a time, and its description."""

    translator: Translator
    facts: ModelFacts

    @classmethod
    def load(
        cls,
        name: str,
        directory: Path | None,
        device: object = "cpu",
        onnx: ExportedOptions | None = None,
        verifier: Path | None = None,
    ) -> "ServedModel":
        """Load a checkpoint or an exported model, and its verifier; without a directory the bundled one."""
        place = model_directory(directory)
        about = describe_model(place)
        translator = Translator.load(place, device, onnx=onnx, verifier=verifier)
        translator.tokenizer.encode("a")  # libraries that are missing are reported before anybody asks
        if isinstance(translator.strategy, Constraining):  # kernels that are compiled before anybody waits
            translator("a", constraints=Constraints(forbid=("a",)))
        languages = (about.languages.source, about.languages.target)
        facts = facts_of(translator, name, about.network_name, about.card, languages)
        return cls(translator, facts)

    def work(self, task: Task, texts: list[str]) -> list[dict[str, Any]]:
        """Translate or explain, and give plain data."""
        translator = self.translator.with_options(task.options)
        if task.explain is not None:
            return [lattice_of(translator, text, task.explain).to_dict() for text in texts]
        found = translator(texts)
        return [(entry if task.trees else _without_trees(entry)).to_dict() for entry in found]


def _without_trees(translation: Translation) -> Translation:
    return replace(
        translation,
        tree=None,
        alternatives=tuple(replace(other, tree=None) for other in translation.alternatives),
        parts=tuple(_without_trees(part) for part in translation.parts),
    )


def facts_of(
    translator: Translator, name: str, kind: str, card: Card, languages: tuple[str, str]
) -> ModelFacts:
    """Describe a translator."""
    source, target = languages
    known = strategies_of(translator.runtime)
    return ModelFacts(
        name=name,
        kind=kind,
        title=card.title,
        source=source,
        target=target,
        strategies=list(translator.strategies),
        strategy=strategy_text(translator.strategy),
        length_penalty=translator.request.length_penalty,
        penalised_strategies=[name for name in translator.strategies if known[name].uses_penalty],
        max_source_tokens=translator.runtime.max_source_length,
        card=ModelCard(licence=card.licence, data=card.data, limits=card.limits),
    )


def named_models(entries: Sequence[str], bundled: bool = False) -> dict[str, Path | None]:
    """Read `[name=]dir` entries; without any there is the bundled model."""
    places: dict[str, Path | None] = {}
    for entry in entries:
        name, equals, place = entry.partition("=")
        if not equals or "/" in name:
            name, place = Path(entry).resolve().name, entry
        if not place or not NAME.fullmatch(name):
            expected = "DIR or NAME=DIR, the name of letters, digits, '.', '_' and '-'"
            raise ValueError(f"--model must be {expected}, got {entry!r}")
        if name in places:
            raise ValueError(f"every --model must have its own name, got {name!r} twice; use NAME=DIR")
        places[name] = Path(place)
    if bundled and BUNDLED_NAME in places:
        raise ValueError(f"--bundled is called {BUNDLED_NAME!r}, so no --model may have that name")
    return {**places, BUNDLED_NAME: None} if bundled or not places else places


def named_verifiers(entries: Sequence[str], models: Collection[str]) -> dict[str, Path]:
    """Read `[name=]dir` entries, where the name is that of a model; without one the first is meant."""
    places: dict[str, Path] = {}
    for entry in entries:
        name, equals, place = entry.partition("=")
        if not equals or "/" in name:
            name, place = next(iter(models)), entry
        if name not in models or not place:
            raise ValueError(f"--verifier must be DIR or NAME=DIR of {', '.join(models)}, got {entry!r}")
        if name in places:
            raise ValueError(f"every model may have one --verifier, got two for {name!r}")
        places[name] = Path(place)
    return places
