"""The doors of docs/extending.md: the objective and the strategy that it adds work everywhere."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from pcfgnat import decoding
from pcfgnat.decoding import Request, Strategy, parse_strategy, strategies_of
from pcfgnat.grammar.lengths import best_ranked
from pcfgnat.networks import NETWORKS, Batch
from pcfgnat.nn import TransformerConfig
from pcfgnat.objectives import OBJECTIVES, CanvasObjective, Likelihood
from pcfgnat.runtimes.base import Tables
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import Padded

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"
TINY = TransformerConfig(layers_encoder=1, layers_decoder=1, width=8, ffn=8, heads=2, max_positions=16)
SOURCES = [[2, 5, 6, 3], [2, 7, 3]]


def added(name: str) -> Any:
    """Run the document's block that defines a class, and return the class."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if f"class {name}(" in block]
    names = {
        "dataclass": dataclass,
        "CanvasObjective": CanvasObjective,
        "Strategy": Strategy,
        "Tables": Tables,
        "best_ranked": best_ranked,
    }
    exec(compile(block, str(DOCUMENT), "exec"), names)
    return names[name]


def network(name: str) -> Any:
    torch.manual_seed(1)
    build, config = NETWORKS[name]
    return build(config(transformer=TINY), 12)


@pytest.mark.parametrize("name", ["pcfg", "dag", "slots"])
def test_the_objective_of_the_document_trains(name: str) -> None:
    objective = added("Hinge")(margin=0.5)
    assert isinstance(objective, CanvasObjective)
    targets = Padded.from_lists([[2, 8, 3], [2, 9, 9, 3]])
    batch, trained = Batch(Padded.from_lists(SOURCES), targets), network(name).eval()
    plain = Likelihood().loss(trained, batch, 0.0)
    hinged = objective.loss(trained, batch, 0.0)
    assert float(hinged.value.detach()) == pytest.approx(float(plain.value.detach()) - 0.5, abs=1e-5)
    hinged.value.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in trained.decoder.parameters())


@pytest.mark.parametrize("name", ["pcfg", "dag"])
def test_the_strategy_of_the_document_decodes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = added("Shortest")
    monkeypatch.setattr(decoding, "STRATEGIES", (*decoding.STRATEGIES, kind))
    runtime = torch_runtime(network(name).eval())
    assert "shortest" in strategies_of(runtime)
    found = parse_strategy("shortest", runtime).decode(runtime, SOURCES, Request())
    assert [hypotheses[0].ids for hypotheses in found] == [(2, 3), (2, 3)]


@pytest.mark.parametrize("name", ["ctc", "slots", "autoregressive"])
def test_it_is_offered_only_where_it_applies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "STRATEGIES", (*decoding.STRATEGIES, added("Shortest")))
    known: Sequence[str] = list(strategies_of(torch_runtime(network(name))))
    assert "shortest" not in known


def test_the_document_is_about_what_exists() -> None:
    assert "hinge" not in OBJECTIVES
    text = DOCUMENT.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:objectives|decoding|runtimes|networks|structures|export)/[\w./]*)`", text):
        assert (DOCUMENT.parents[1] / "src" / "pcfgnat" / path).exists(), path
