"""Every command of docs/tutorial.md runs, one after the other, on a toy corpus and with toy sizes."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.cli import main
from pcfgnat.runtimes.exported import Exported
from pcfgnat.text import read_lines
from tests.test_readme import blocks
from tests.text.bilingual import sentences, write_lines

PAGE = "docs/tutorial.md"
COMMANDS = [
    shlex.split(line)
    for language, text in blocks(PAGE)
    if language == "sh"
    for line in text.splitlines()
    if line.startswith("pcfgnat")
]
SIZES = ("layers_encoder=1", "layers_decoder=1", "width=16", "ffn=24", "heads=2", "max_positions=64")
TOY = {
    "prepare": (),
    "train": (*(f"network.transformer.{size}" for size in SIZES), "steps=2", "threads=1", "curves=false"),
    "distill": ("--threads", "1"),
    "evaluate": ("--threads", "1", "--sweep", "0.8,1.2", "--limit", "4"),
    "translate": ("--threads", "1"),
    "export": (),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in which the page was followed."""
    place = tmp_path_factory.mktemp("tutorial")
    (place / "data").mkdir()
    for seed, (name, count) in enumerate((("train", 60), ("valid", 6), ("test", 6))):
        pairs = [pair for pair in sentences(4 * count, seed) if len(pair[0]) < 60][:count]
        for side, suffix in enumerate(("en", "de")):
            write_lines(place / "data" / f"{name}.{suffix}", [pair[side] for pair in pairs])
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCFGNAT_CACHE", str(place / "cache"))
        os.chdir(place)
        try:
            for command in COMMANDS:
                assert main(in_toy_size(command)) == 0, command
            yield place
        finally:
            os.chdir(before)


def in_toy_size(command: list[str]) -> list[str]:
    """Return the arguments of a command, with those that make it small."""
    _, name, *arguments = ["150" if word == "6000" else word for word in command]
    heads = ("network.rules.heads=1",) if name == "train" and arguments[0] in ("pcfg", "starter") else ()
    return [name, *arguments, *TOY[name], *heads]


def test_the_page_leads_to_all_models(place: Path) -> None:
    kinds = {"starter": "pcfg", "teacher": "autoregressive", "student": "pcfg", "both": "pcfg"}
    for name, kind in kinds.items():
        assert Checkpoint.open(place / "runs" / name / "final").metadata.network_name == kind
    assert len(list(read_lines(place / "runs/test.de"))) == 6
    assert len(list(read_lines(place / "runs/distilled.de"))) == 60


def test_the_tuned_penalty_is_stored_and_exported(place: Path) -> None:
    final = place / "runs/starter/final"
    beta = Checkpoint.open(final).metadata.decoding.length_penalty
    assert beta in (0.8, 1.2)
    assert Exported.open(final / "onnx").metadata.decoding.length_penalty == beta


def test_the_page_shows_every_step() -> None:
    assert {command[1] for command in COMMANDS} == set(TOY)
