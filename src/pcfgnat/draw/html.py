"""Translations in notebooks: text, score and tree as HTML, from the plain data of `Translation.to_dict`."""

from collections.abc import Mapping
from html import escape
from typing import Any

from pcfgnat.draw.data import MOST
from pcfgnat.draw.svg import scene_svg
from pcfgnat.draw.tree import tree_scene


def translation_html(translation: Mapping[str, Any]) -> str:
    """Return the translation with its tree; alternatives can be unfolded, parts follow each other."""
    alternatives = "".join(_candidate(candidate) for candidate in translation.get("alternatives", ()))
    if alternatives:
        count = len(translation["alternatives"])
        name = "1 alternative" if count == 1 else f"{count} alternatives"
        alternatives = f"<details><summary>{name}</summary>{alternatives}</details>"
    parts = "".join(translation_html(part) for part in translation.get("parts", ()))
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in translation.get("notes", ()))
    return f'<div class="pcfgnat-translation">{_candidate(translation)}{notes}{parts}{alternatives}</div>'


def score_text(score: float | None) -> str:
    """Show a log-probability; null stands for that of the impossible."""
    return "log P " + ("-∞" if score is None or score <= -MOST else f"{score:.2f}").replace(
        "-", "\N{MINUS SIGN}"
    )


def _candidate(candidate: Mapping[str, Any]) -> str:
    tree = scene_svg(tree_scene(candidate["tree"])) if "tree" in candidate else ""
    score = f"<small>{score_text(candidate.get('score'))}</small>"
    drawn = f'<div style="overflow-x:auto">{tree}</div>' if tree else ""
    return f"<p><strong>{escape(candidate['text'])}</strong> {score}</p>{drawn}"
