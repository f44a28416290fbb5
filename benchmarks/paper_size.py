"""Models of the paper's size with random weights, in every form that takes part, built once into a cache."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.synthetic import learn_tokenizer, random_shortlist
from pcfgnat.benchmark.contender import WORKER, Contender
from pcfgnat.checkpoints.checkpoint import TOKENIZER, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.export.ctranslate2 import convert
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.networks import (
    NETWORKS,
    AutoregressiveConfig,
    AutoregressiveNetwork,
    CTCConfig,
    DAGConfig,
    PCFGConfig,
)
from pcfgnat.nn import TransformerConfig
from pcfgnat.storage.files import atomic_directory
from pcfgnat.text import Tokenizer
from pcfgnat.text.shortlist import Shortlist
from pcfgnat.text.special import SPECIAL_TOKENS

SEED = 1
SHALLOW = {"pcfg12-1": (12, 1), "pcfg10-2": (10, 2), "pcfg6-2": (6, 2)}  # layers of encoder and decoder
USUAL_LAYERS = 6
EXPORTED = ("onnx", "native")  # both run what is exported
FOREIGN = ("ar", "ar6-1", "ar12-1")
ENGINE = (
    ("pcfg", "viterbi", ("float32", "int8")),
    ("pcfg", "greedy", ("float32", "int8")),
    ("pcfg2", "viterbi", ("int8",)),
    *((f"{name}-lambda{upsampling}", "viterbi", ("int8",)) for name in SHALLOW for upsampling in (1, 2)),
    ("dag", "joint-viterbi", ("float32", "int8")),
    ("ctc", "greedy", ("float32", "int8")),
)
NEVER = 10.0  # by so much the end of a sentence is less likely than other tokens


@dataclass(frozen=True)
class Size:
    """What all models have in common; the defaults are the paper's."""

    transformer: TransformerConfig = field(default_factory=lambda: TransformerConfig(max_positions=256))
    vocabulary: int = 32000

    def models(self) -> dict[str, tuple[str, Any]]:
        """Return kind and settings of every network, by its name; 12-1 is that of Kasai et al. (2021).

        Depths are given for six encoder layers; of a smaller size they are as many times as deep.
        """
        usual = self.transformer
        shallow = {
            f"{name}-lambda{upsampling}": ("pcfg", PCFGConfig(self._deep(*depths), upsampling=upsampling))
            for name, depths in SHALLOW.items()
            for upsampling in (1, 2)
        }
        return {
            "pcfg": ("pcfg", PCFGConfig(usual)),
            "pcfg2": ("pcfg", PCFGConfig(usual, upsampling=2)),
            "dag": ("dag", DAGConfig(usual)),
            "ctc": ("ctc", CTCConfig(usual)),
            "ar": ("autoregressive", AutoregressiveConfig(usual)),
            "ar6-1": ("autoregressive", AutoregressiveConfig(self._deep(6, 1))),
            "ar12-1": ("autoregressive", AutoregressiveConfig(self._deep(12, 1))),
            **shallow,
        }

    def _deep(self, encoder: int, decoder: int) -> TransformerConfig:
        layers = max(1, encoder * self.transformer.layers_encoder // USUAL_LAYERS)
        return replace(self.transformer, layers_encoder=layers, layers_decoder=decoder)


class Cache:
    """A directory of models; what is there is not built again."""

    def __init__(self, directory: Path, size: Size, say: Callable[[str], None]) -> None:
        self.size = size
        self._directory, self._say = directory, say

    def contenders(self) -> list[Contender]:
        """Return everything that may take part; nothing is built yet."""
        found = [self._contender("pcfg", "torch", decode) for decode in ("viterbi", "greedy")]
        found += [self._contender("pcfg2", "torch", "viterbi")]
        found += [self._contender("dag", "torch", "joint-viterbi"), self._contender("ctc", "torch", "greedy")]
        found += [
            self._contender(name, runtime, decode, precision, shortlist)
            for name, decode, precisions in ENGINE
            for precision in precisions
            for runtime in (("onnx", "native") if precision == "int8" and name != "ctc" else ("onnx",))
            for shortlist in (False, True)
        ]
        searches = [(name, decode) for name in FOREIGN for decode in ("greedy", "beam")]
        found += [self._contender(name, "torch", decode) for name, decode in searches]
        found += [
            self._contender(name, "ctranslate2", decode, precision, shortlist)
            for name, decode in searches
            for precision in ("float32", "int8")
            for shortlist in (False, True)
        ]
        limits = [(precision, short) for precision in ("float32", "int8") for short in (False, True)]
        return [*found, *(self._contender("pcfg", "products", None, *limit) for limit in limits)]

    def build(self, contender: Contender) -> None:
        """Make sure that what a contender loads is there."""
        if contender.directory.exists():
            return
        name = contender.directory.name.split(".")[0]
        self._draw(name)
        if contender.runtime in EXPORTED:
            self._say(f"exporting {name} to onnx, {contender.precision}")
            settings = ExportSettings(contender.precision == "int8", self.shortlist())
            export_onnx(self._directory / name, contender.directory, settings)
        elif contender.runtime == "ctranslate2":
            self._say(f"converting {name} to CTranslate2, {contender.precision}")
            vmap = self.shortlist().to_vmap(self.tokenizer())
            convert(self._directory / name, contender.directory, contender.precision, vmap)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of all models."""
        path = self._directory / TOKENIZER
        if not path.exists():
            self._say(f"learning a vocabulary of {self.size.vocabulary} made-up subwords")
            with atomic_directory(path) as partial:
                learn_tokenizer(self.size.vocabulary).save(partial)
        return Tokenizer.load(path)

    def shortlist(self) -> Shortlist:
        """Return a shortlist of random types, of the size that real ones have."""
        return random_shortlist(self.tokenizer().vocabulary_size)

    def _draw(self, name: str) -> None:
        """Save a network of random weights."""
        if (self._directory / name).exists():
            return
        self._say(f"drawing the weights of {name}")
        kind, config = self.size.models()[name]
        tokenizer = self.tokenizer()
        torch.manual_seed(SEED)
        network = NETWORKS[kind][0](config, tokenizer.vocabulary_size)
        if isinstance(network, AutoregressiveNetwork):
            never_end(network)
        decoding = DecodingDefaults(network.default_strategy)
        metadata = describe(kind, config, tokenizer.vocabulary_size, decoding)
        save_checkpoint(self._directory / name, network, tokenizer, metadata)

    def _contender(
        self,
        network: str,
        runtime: str,
        decode: str | None,
        precision: str = "float32",
        shortlist: bool = False,
    ) -> Contender:
        kind, config = self.size.models()[network]
        layers = config.transformer
        shape = f"{layers.layers_encoder}-{layers.layers_decoder}"
        autoregressive = kind == "autoregressive"
        parts = [network, runtime, *([] if runtime == "torch" else [precision])]
        converted, stored = runtime in (*EXPORTED, "ctranslate2"), "onnx" if runtime in EXPORTED else runtime
        return Contender(
            name="-".join([*parts, *([decode] if decode else []), *(["shortlist"] if shortlist else [])]),
            model=f"{kind} {shape}" if autoregressive else f"{kind} {shape} λ={config.upsampling}",
            runtime=runtime,
            directory=self._directory / (".".join([network, stored, precision]) if converted else network),
            decode=decode,
            precision=precision,
            shortlist=shortlist,
            forced=autoregressive,
            worker="benchmarks.products" if runtime == "products" else WORKER,
        )


def never_end(network: AutoregressiveNetwork) -> None:
    """Make the end improbable, so that a translation is as long as it is allowed to be.

    The decoder's last norm always gives the same number in one place, and only the end's own embedding looks
    at that place.
    """
    norm, tokens = network.decoder.norm, network.embeddings.tokens.weight
    assert isinstance(norm, torch.nn.LayerNorm)
    with torch.no_grad():
        norm.weight[0], norm.bias[0] = 0.0, NEVER
        tokens[:, 0] = 0.0
        tokens[SPECIAL_TOKENS.eos, 0] = -1.0
