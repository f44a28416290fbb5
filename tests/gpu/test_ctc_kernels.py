"""The kernels of CTC against reference and enumeration: on a GPU if there is one, else in the interpreter."""

import math
import os

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.structures import CTC, Padded, backend
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.ctc.triton import operators
from tests.support.grammars import random_target
from tests.support.lattices import ctc_oracle, random_ctc
from tests.support.oracle import log_sum

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")  # log 0 = -inf
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
Answers = tuple[Tensor, ...]


def on_device(target: Padded) -> Padded:
    return Padded(target.ids.to(DEVICE), target.lengths.to(DEVICE))


def answers(name: str, log_probs: Tensor, slots: Tensor, target: Padded) -> Answers:
    """log P, its gradient under different weights of the sentences, best score and best positions."""
    leaf = log_probs.detach().clone().requires_grad_()
    with backend(name):
        posterior = CTC(leaf, slots, blank=0).posterior(target)
        total = posterior.log_partition
        weights = torch.linspace(0.5, 2.0, len(slots), device=DEVICE, dtype=total.dtype)
        (gradient,) = torch.autograd.grad(total, leaf, weights)
        found = posterior.argmax()
    return total.detach(), gradient, found.score, found.position


def awkward(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Padded]:
    """Repeats, no token, one slot, peaked and improbable scores, -inf, no alignment, NaN as padding."""
    slots = [6, 5, 3, 1, 6, 5, 4, 5, 2]
    ids = [[1, 2, 2, 3], [4, 4, 4], [], [2], [1, 2, 1, 2, 1], [3, 3], [5], [2, 2, 2, 2], [1, 0]]
    log_probs = random_ctc(slots, vocabulary=6).log_probs.clone()
    log_probs[4] = random_ctc(slots, vocabulary=6, scale=20.0).log_probs[4]
    log_probs[5] -= 300.0
    log_probs[6, 2:4, 1:] = -math.inf  # a blank between is forced
    log_probs[0, :, 4] = -math.inf  # beside the target
    for own, count in zip(log_probs, slots, strict=True):
        own[count:] = math.nan
    return (
        log_probs.to(DEVICE, dtype),
        torch.tensor(slots, device=DEVICE),
        on_device(Padded.from_lists(ids)),
    )


@pytest.mark.parametrize("tile", [32, 4])
def test_values_gradients_and_best_alignments(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller tile needs several rounds for the states of a target."""
    monkeypatch.setattr(operators, "SMALLEST_TILE", tile)
    monkeypatch.setattr(operators, "LARGEST_TILE", tile)
    case = awkward()
    fast, plain = answers("triton", *case), answers("reference", *case)
    assert plain[0].isfinite().tolist() == [True] * 7 + [False] * 2  # too few slots, and a blank inside
    for found, expected in zip(fast, plain, strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_equals_enumeration(seed: int) -> None:
    own, target = random_ctc([4, 3], vocabulary=3, seed=seed), random_target([2, 3], vocabulary=3, seed=seed)
    given = (own.log_probs.to(DEVICE), own.num_slots.to(DEVICE), on_device(target))
    total, _, score, position = answers("triton", *given)
    for b, ids in enumerate(target.to_lists()):
        alignments = ctc_oracle(own, b).of(ids)
        assert float(total[b]) == pytest.approx(log_sum([weight for weight, _ in alignments]))
        if alignments:
            assert float(score[b]) == pytest.approx(alignments[0][0])
            assert tuple(position[b, : int(own.num_slots[b])].tolist()) == alignments[0][1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_lower_precision_sums_in_float32(dtype: torch.dtype) -> None:
    """The same rounded scores in float64 tell what the sum should be."""
    own = random_ctc([9, 7], vocabulary=6)
    given = (own.num_slots.to(DEVICE), on_device(Padded.from_lists([[1, 2, 2, 3], [4, 5]])))
    rounded = own.log_probs.to(DEVICE, dtype)
    fast, exact = answers("triton", rounded, *given), answers("reference", rounded.double(), *given)
    assert fast[0].dtype == torch.float32
    assert fast[1].dtype == dtype
    assert_close(fast[0].double(), exact[0], rtol=1e-6, atol=1e-5)
    assert_close(fast[1].double(), exact[1], rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-2)
    assert fast[3].tolist() == exact[3].tolist()


def test_nothing_to_do() -> None:
    own = random_ctc([4, 2])
    slots = own.num_slots.to(DEVICE)
    empty = on_device(Padded.from_lists([[], []]))
    fast = answers("triton", own.log_probs.to(DEVICE), slots, empty)
    assert_close(fast, answers("reference", own.log_probs.to(DEVICE), slots, empty))
    assert fast[3].tolist() == [[-1] * 4] * 2
    with backend("triton"):
        none = CTC(own.log_probs[:0].to(DEVICE), slots[:0], 0).posterior(Padded(empty.ids[:0], slots[:0]))
        assert none.log_partition.shape == none.argmax().score.shape == (0,)


def operands(dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    log_probs, slots, target = awkward(dtype)
    posterior = CTC(log_probs[:3], slots[:3], 0).posterior(Padded(target.ids[:3, :4], target.lengths[:3]))
    weights: Weights = posterior._problem(posterior._weights)
    return weights.tokens, weights.blanks, weights.repeated, weights.num_slots, weights.lengths


def test_operators_keep_torchs_rules() -> None:
    given = tuple(part[:1].clone() for part in operands())
    torch.library.opcheck(operators.ctc_forward, given)
    total, table = operators.ctc_forward(*given)
    torch.library.opcheck(operators.ctc_backward, (*given, total, table, torch.ones_like(total)))
    torch.library.opcheck(operators.ctc_best, given)


def test_second_derivatives_and_torch_func() -> None:
    tokens, blanks, *sizes = operands()
    tokens = tokens.nan_to_num(nan=-1.0, neginf=-50.0).requires_grad_()
    blanks = blanks.nan_to_num(nan=-1.0).requires_grad_()
    found = []
    for function in (operators.log_partition, operators.plain_log_partition):
        value = function(tokens, blanks, *sizes).sum()
        first = torch.autograd.grad(value, (tokens, blanks), create_graph=True)
        penalty = first[0].square().sum() + first[1].square().sum()
        found.append((*first, *torch.autograd.grad(penalty, (tokens, blanks))))
    for fast, plain in zip(*found, strict=True):
        assert_close(fast, plain)
    assert float(found[0][2].abs().sum()) > 0
    given = tokens.detach(), blanks.detach()
    gradient = torch.func.grad(lambda own: operators.log_partition(own, given[1], *sizes).sum())
    assert_close(gradient(given[0]), found[0][0].detach())
    many = torch.stack([given[0], given[0] - 1.0])
    together = torch.func.vmap(lambda own: operators.log_partition(own, given[1], *sizes))(many)
    assert_close(together, torch.stack([operators.log_partition(own, given[1], *sizes) for own in many]))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch's own tracer
def test_compiled_autocast_and_checkpointed() -> None:
    tokens, blanks, *sizes = operands(torch.float32)

    def loss(tokens: Tensor, blanks: Tensor) -> Tensor:
        return operators.log_partition(tokens * 2.0, blanks, *sizes).sum()

    def recomputed(tokens: Tensor, blanks: Tensor) -> Tensor:
        found: Tensor = torch.utils.checkpoint.checkpoint(loss, tokens, blanks, use_reentrant=False)
        return found

    def mixed(tokens: Tensor, blanks: Tensor) -> Tensor:
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            return loss(tokens, blanks)

    traced = torch.compile(loss, backend="aot_eager", fullgraph=True)
    found = []
    for function in (loss, recomputed, mixed, traced):
        leaves = tuple(part.clone().requires_grad_() for part in (tokens, blanks))
        value = function(*leaves)
        found.append((value.detach(), *torch.autograd.grad(value, leaves)))
    for other in found[1:]:
        assert_close(other, found[0])
