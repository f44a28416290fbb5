"""CTranslate2 with our weights translates as we do."""

import json
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.export.ctranslate2 import convert
from pcfgnat.networks import AutoregressiveConfig, AutoregressiveNetwork, Network, PCFGConfig, PCFGNetwork
from pcfgnat.nn import TransformerConfig
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import LearnSettings, SentencePieceTokenizer, Tokenizer
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.text.bilingual import sentences

SMALL = TransformerConfig(
    layers_encoder=2, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.1, max_positions=120
)
VARIANTS = {  # and how much each is pulled to an end, to write sentences of all lengths
    "usual": (SMALL, 0.2),
    "deep encoder, shallow decoder": (replace(SMALL, layers_encoder=3, layers_decoder=1), 0.3),
    "other layers": (replace(SMALL, pre_norm=False, activation="relu", share_embeddings=False), 1.6),
}
LIMIT = 100
TEXTS = [pair[0] for pair in sentences(40, seed=3) if len(pair[0]) < 100][:16]


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    lines = [text for pair in sentences(200) for text in pair]
    return SentencePieceTokenizer.learn(lines, LearnSettings(vocabulary_size=150))


def random_network(config: TransformerConfig, pull: float, vocabulary: int) -> AutoregressiveNetwork:
    """A network that ends its sentences and never wants a special token inside.

    Both sides ban those, but only CTranslate2 gives their share of the probability to the others.
    """
    torch.manual_seed(1)
    network = AutoregressiveNetwork(AutoregressiveConfig(config), vocabulary).eval()
    norms = [module for module in network.decoder.modules() if isinstance(module, torch.nn.LayerNorm)]
    last = norms[-1]  # around the last feed-forward, or the decoder's own
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.5)  # to have opinions
        for positions in (network.embeddings.source_positions, network.embeddings.target_positions):
            positions.weight.normal_(std=4.0)  # not to repeat themselves
        tokens = network.embeddings.tokens.weight
        last.weight[0], last.bias[0] = 0.0, 5.0
        tokens[:, 0] = 0.0
        tokens[list(SPECIAL_TOKENS.ids), 0] = -8.0
        tokens[SPECIAL_TOKENS.eos, 0] = pull
    return network


def saved(directory: Path, network: Network, name: str, tokenizer: Tokenizer) -> Path:
    decoding = DecodingDefaults(network.default_strategy)
    save_checkpoint(
        directory, network, tokenizer, describe(name, network.config, tokenizer.vocabulary_size, decoding)
    )
    return directory


def theirs(directory: Path, tokenizer: Tokenizer, beam: int, use_vmap: bool = False) -> list[list[int]]:
    """Translations as ids, begin and end left out.

    Their length penalty leaves out begin and end, ours counts them: next to no penalty makes both the same
    search. None at all would let theirs stop early.
    """
    translator = ctranslate2.Translator(str(directory), intra_threads=1)
    pieces = {piece: token for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary_size)))}
    results = translator.translate_batch(
        [tokenizer.pieces(ids) for ids in tokenizer.encode_all(TEXTS)],
        beam_size=beam,
        length_penalty=1e-6,
        disable_unk=True,
        suppress_sequences=[["<pad>"], ["<s>"]],
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        use_vmap=use_vmap,
    )
    return [[pieces[piece] for piece in result.hypotheses[0]] for result in results]


@pytest.mark.parametrize("variant", VARIANTS)
def test_translates_as_we_do(variant: str, tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    network = random_network(*VARIANTS[variant], tokenizer.vocabulary_size)
    convert(saved(tmp_path / "ours", network, "autoregressive", tokenizer), tmp_path / "theirs")
    runtime, sources = torch_runtime(network), tokenizer.encode_all(TEXTS)
    for name, beam in (("greedy", 1), ("beam:size=5", 5)):
        request = Request(length_penalty=1e-6, max_length=LIMIT)
        decoded = parse_strategy(name, runtime).decode(runtime, sources, request)
        ours = [list(found[0].ids[1:-1]) for found in decoded]
        found = theirs(tmp_path / "theirs", tokenizer, beam)
        ended = [i for i, ids in enumerate(ours) if len(ids) < LIMIT - 2]  # limits differ a little
        assert len(ended) >= 15
        assert [found[i] for i in ended] == [ours[i] for i in ended]
        assert len({tuple(ids) for ids in ours}) >= 7


def test_a_vocabulary_map_limits_what_is_written(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    network = random_network(SMALL, 0.2, tokenizer.vocabulary_size)
    checkpoint = saved(tmp_path / "ours", network, "autoregressive", tokenizer)
    allowed = tokenizer.pieces([3, 20, 21, 22, 23])
    convert(checkpoint, tmp_path / "theirs", "int8", vmap=f"\t{' '.join(allowed)}\n")
    free, mapped = (theirs(tmp_path / "theirs", tokenizer, 2, use_vmap) for use_vmap in (False, True))
    assert {token for ids in mapped for token in ids} <= {20, 21, 22, 23}
    assert free != mapped


def test_tokenizer_and_longest_length_come_along(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    network = random_network(SMALL, 0.2, tokenizer.vocabulary_size)
    convert(saved(tmp_path / "ours", network, "autoregressive", tokenizer), tmp_path / "theirs")
    assert Tokenizer.load(tmp_path / "theirs" / "tokenizer").sha256 == tokenizer.sha256
    config = json.loads((tmp_path / "theirs" / "config.json").read_text(encoding="utf-8"))
    assert config["max_positions"] == SMALL.max_positions


def test_what_cannot_be_converted(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    grammar = PCFGNetwork(PCFGConfig(SMALL), tokenizer.vocabulary_size)
    path = saved(tmp_path / "grammar", grammar, "pcfg", tokenizer)
    with pytest.raises(ValueError, match=r"runs autoregressive networks only, but .* is of kind pcfg"):
        convert(path, tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"quantization must be one of float32, .*, got 'int3'"):
        convert(path, tmp_path / "theirs", "int3")
    assert not (tmp_path / "theirs").exists()
