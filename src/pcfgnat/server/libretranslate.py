"""LibreTranslate's interface, so that its clients work: `q` and languages in, `translatedText` out."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field

from pcfgnat.server.limits import RESULTS
from pcfgnat.server.schemas import ModelFacts, Texts, TranslateRequest

FORM = b"application/x-www-form-urlencoded"
ANY_SOURCE = "auto"
NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}


class LibreRequest(BaseModel):
    """What LibreTranslate's clients send; the language of `auto` is not detected but taken from the model."""

    model_config = ConfigDict(extra="ignore")

    q: Texts = Field(description="one text or several; lines of text are translated one by one")
    source: str = Field(max_length=20, description="code of its language, or auto")
    target: str = Field(max_length=20, description="code of the language to translate into")
    format: Literal["text", "html"] = Field("text", description="html: tags stay with their words")
    alternatives: int = Field(0, ge=0, le=RESULTS - 1, description="number of further translations")
    api_key: str | None = Field(None, max_length=200)


class LibreResponse(BaseModel):
    """What they get; lists if `q` is one."""

    translatedText: str | list[str]  # noqa: N815 (the name is LibreTranslate's)
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A language, and those that it can be translated into."""

    code: str
    name: str
    targets: list[str]


def form_as_json(content_type: bytes, body: bytes) -> bytes | None:
    """Return the fields of a form as JSON; None if the body is no form."""
    if content_type.split(b";")[0].strip().lower() != FORM:
        return None
    fields = parse_qs(body.decode("utf-8", errors="replace"), keep_blank_values=True, max_num_fields=100)
    plain: dict[str, Any] = {name: values[0] for name, values in fields.items()}
    if len(fields.get("q", ())) > 1:
        plain["q"] = fields["q"]
    return json.dumps(plain).encode()


def languages_of(models: Iterable[ModelFacts]) -> list[Language]:
    """Return all languages of some models, each with its targets."""
    targets: dict[str, list[str]] = {}
    for facts in models:
        if facts.source and facts.target:
            known = targets.setdefault(facts.source, [])
            if facts.target not in known:
                known.append(facts.target)
            targets.setdefault(facts.target, [])
    return [Language(code=code, name=NAMES.get(code, code), targets=found) for code, found in targets.items()]


def model_for(wanted: LibreRequest, models: Sequence[ModelFacts]) -> ModelFacts:
    """Return the first model that translates between the languages of a request."""
    for facts in models:
        if facts.target == wanted.target and wanted.source in (facts.source, ANY_SOURCE):
            return facts
    pairs = ", ".join(sorted({f"{facts.source} → {facts.target}" for facts in models if facts.target}))
    raise ValueError(f"the languages must be one of {pairs or 'none'}, got {wanted.source} → {wanted.target}")


def lines_of(wanted: LibreRequest) -> list[str]:
    """Return all lines that have something to translate; a document is one."""
    return [line for lines in _lines(wanted) for line in lines if line.strip()]


def _lines(wanted: LibreRequest) -> list[list[str]]:
    texts = wanted.q if isinstance(wanted.q, list) else [wanted.q]
    return [[text] if wanted.format == "html" else text.splitlines() for text in texts]


def own_request(wanted: LibreRequest, facts: ModelFacts, lines: list[str]) -> TranslateRequest:
    """Return the request that this server would get for some lines."""
    return TranslateRequest.model_construct(
        model=facts.name, strategy=None, length_penalty=None, text=lines,
        results=1 + wanted.alternatives, format=wanted.format, trees=False, draw=[], width=960,
    )  # fmt: skip


def libre_answer(wanted: LibreRequest, translations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the translations of lines back into their texts."""
    many = isinstance(wanted.q, list)
    rest = iter(translations)
    found = [[next(rest) if line.strip() else None for line in lines] for lines in _lines(wanted)]
    rows = [[_joined(lines, rank) for lines in found] for rank in range(1 + wanted.alternatives)]
    best, others = rows[0], [list(column) for column in zip(*rows[1:], strict=True)]
    answer: dict[str, Any] = {"translatedText": best if many else best[0]}
    if wanted.alternatives:
        answer["alternatives"] = others if many else others[0]
    return answer


def _joined(lines: Sequence[dict[str, Any] | None], rank: int) -> str:
    return "\n".join("" if line is None else _candidate(line, rank) for line in lines)


def _candidate(line: dict[str, Any], rank: int) -> str:
    """Return a translation by its rank, or the last one if there are fewer."""
    ranked = [line, *line.get("alternatives", ())]
    return str(ranked[min(rank, len(ranked) - 1)]["text"])
