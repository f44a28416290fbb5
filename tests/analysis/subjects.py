"""Models of random weights over a made-up language, as the analyses take them."""

from pathlib import Path

from pcfgnat.analysis import Subject
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.evaluation import EvaluationSet
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import SubwordTokenizer
from tests.support.zoo import made

TYPES = ["the", "bo@@", "thers", "boat", "runs", "very", ",", "."]  # with the special tokens, 12


def subject(kind: str, name: str = "", language: str = "en", seed: int = 0) -> Subject:
    network = made(name or kind, seed=seed)
    tokenizer = SubwordTokenizer("\n".join(TYPES).encode())
    strategy = parse_strategy(network.default_strategy, torch_runtime(network))
    return Subject(name or kind, kind, network, tokenizer, strategy, Request(), language)


def texts(*pairs: tuple[str, str]) -> EvaluationSet:
    return EvaluationSet("made up", [target for _, target in pairs], [source for source, _ in pairs])


def png_size(path: Path) -> tuple[int, int]:
    """Width and height, read off the file's head."""
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
