import pytest
import torch
from benchmarks.products import Product, pcfg_products
from benchmarks.synthetic import learn_tokenizer, random_shortlist, sentences

from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.networks import PCFGConfig, PCFGNetwork
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import SentencePieceTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return learn_tokenizer(400)


@pytest.mark.parametrize("length", [3, 10, 57])
def test_sentences_have_exactly_the_length_that_is_wanted(
    length: int, tokenizer: SentencePieceTokenizer
) -> None:
    found = sentences(tokenizer, length, 20)
    assert {len(tokenizer.encode(text)) for text in found} == {length}
    assert len(set(found)) > 10
    assert found == sentences(tokenizer, length, 20)


def test_a_sentence_needs_room_for_its_ends(tokenizer: SentencePieceTokenizer) -> None:
    with pytest.raises(ValueError, match="length must be more than 2, for begin and end, got 2"):
        sentences(tokenizer, 2, 1)


def test_the_shortlist_has_something_for_every_type() -> None:
    shortlist = random_shortlist(1000)
    types = shortlist.types([2, 500, 3])
    assert 430 < len(types) <= 461
    assert 500 in types
    assert len(set(types.tolist())) == len(types)


def test_the_paper_size_is_known_to_take_17_billion_operations() -> None:
    products = pcfg_products(PCFGConfig(), source=25, batch=1, types=32000)
    known_before = 5 * 2 * 202 * 512**2 + 4 * 202**2 * 512  # of the nodes of an empty canvas
    assert sum(product.flops for product in products) == pytest.approx(17.37e9 - known_before, rel=0.001)


@pytest.mark.parametrize("copy_input", [True, False])
def test_products_are_those_of_the_network(copy_input: bool) -> None:
    shape = TransformerConfig(layers_encoder=1, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.0)
    config = PCFGConfig(
        shape, upsampling=2, rules=LinkConfig(heads=2, positions=False), copy_input=copy_input
    )
    model = PCFGNetwork(config, 50).eval()
    runtime, sources = torch_runtime(model), [[2, *range(10, 17), 3]] * 3
    strategy = parse_strategy("greedy", runtime)
    with torch.profiler.profile(with_flops=True) as profile:
        strategy.decode(runtime, sources, Request())
    counted = sum(
        event.flops for event in profile.events() if event.name in ("aten::addmm", "aten::mm", "aten::bmm")
    )
    products = [p for p in pcfg_products(config, source=9, batch=3, types=50) if p.weights]
    gate = Product(3 * 19, 16, 2, 1)  # of main-chain nodes over heads: too small to be listed
    chain = next(p for p in pcfg_products(config, 9, 3, 50) if not p.weights and p.columns == 19)
    rows, memory = 3 * 38, 3 * 9  # torch projects what is copied after it is repeated, and every start anew
    by_torch_only = Product(rows - memory, 16, 16, 1) if copy_input else Product(rows, 16, 5 * 16, 1)
    assert counted == sum(product.flops for product in [*products, gate, chain, by_torch_only])
