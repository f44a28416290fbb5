import math

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.nn import Embeddings, PositionEmbedding, TokenEmbedding, TransformerConfig
from pcfgnat.nn.embeddings import sinusoids

SMALL = TransformerConfig(width=8, heads=2, max_positions=5, dropout=0.0)


def test_one_table_goes_in_and_out() -> None:
    tokens = TokenEmbedding(6, 8)
    ids = torch.tensor([[1, 5, 1]])
    assert_close(tokens(ids), tokens.weight[ids] * math.sqrt(8))
    states = torch.randn(20, 8)
    assert_close(tokens.scores(states), states @ tokens.weight.t())


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9])
def test_scores_of_few_states_are_the_same_without_gradients(rows: int) -> None:
    tokens, states = TokenEmbedding(50, 8).double(), torch.randn(rows, 8, dtype=torch.float64)
    with torch.inference_mode():
        assert_close(tokens.scores(states), states @ tokens.weight.t())


def test_sinusoids() -> None:
    table = sinusoids(4, 6)
    assert_close(table[0], torch.tensor([0.0, 1.0] * 3))
    assert_close(table[:, 0], torch.arange(4).sin())
    assert_close(table[3, 5], torch.tensor(3 / 10000 ** (4 / 6)).cos())
    assert sinusoids(3, 5).shape == (3, 5)


def test_positions_are_learned_and_limited() -> None:
    positions = PositionEmbedding(5, 8)
    assert_close(positions(3), positions.weight[:3])
    assert_close(positions(2, start=3), positions.weight[3:])
    with pytest.raises(ValueError, match="a sentence must have at most 5 positions, got 6"):
        positions(6)
    with pytest.raises(ValueError, match="a sentence must have at most 5 positions, got 6"):
        positions(1, start=5)
    positions(3).sum().backward()
    assert positions.weight.grad is not None
    assert positions.weight.grad[:, 0].tolist() == [1, 1, 1, 0, 0]


def test_source_and_target_share_tokens_but_not_positions() -> None:
    embeddings = Embeddings(9, SMALL, target_positions=7)
    ids, mask = torch.tensor([[2, 5, 3]]), torch.ones(1, 3, dtype=torch.bool)
    source, target = embeddings.source(ids, mask), embeddings.target(ids, mask)
    assert_close(source - embeddings.source_positions(3), target - embeddings.target_positions(3))
    assert_close(embeddings.target_step(ids[:, 1:2], 1), target[:, 1:2])
    assert embeddings.target_positions.limit == 7
    assert sum("tokens" in name for name, _ in embeddings.named_parameters()) == 1


def test_the_source_may_have_a_table_of_its_own() -> None:
    embeddings = Embeddings(9, TransformerConfig(width=8, heads=2, share_embeddings=False))
    assert sum("tokens" in name for name, _ in embeddings.named_parameters()) == 2
    ids, mask = torch.tensor([[2, 5, 3]]), torch.ones(1, 3, dtype=torch.bool)
    embeddings.eval().source(ids, mask).sum().backward()  # type: ignore[no-untyped-call]
    assert embeddings.tokens.weight.grad is None
    assert embeddings.source_tokens is not None
    assert embeddings.source_tokens.weight.grad is not None


def test_ids_of_padding_are_not_looked_at() -> None:
    embeddings = Embeddings(9, SMALL)
    mask = torch.tensor([[True, True, False]])
    for side in (embeddings.source, embeddings.target):
        clean, garbage = side(torch.tensor([[2, 3, 0]]), mask), side(torch.tensor([[2, 3, 10**9]]), mask)
        assert torch.equal(clean, garbage)
