"""The Triton kernels against the reference: on a GPU if there is one, else in the interpreter.

The default suite runs this file in a separate process (`test_interpreted.py`), `make test-gpu` on a GPU.
"""

import math
import os

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.structures import DAG, RHPCFG, Padded, RuleScores, Search, SupportTree, backend
from pcfgnat.structures.rhpcfg import dispatch
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.rhpcfg.triton import functions, launch, operators
from pcfgnat.structures.semiring import LogSemiring
from tests.support.grammars import random_scores, random_target
from tests.support.lattices import random_dag

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")  # log 0 = -inf
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
Leaves = tuple[Tensor, Tensor, Tensor]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 4 nodes and 16 positions, so that small problems need several."""
    monkeypatch.setattr(launch, "TILE", 64)
    monkeypatch.setattr(launch, "LARGEST_WIDTH", 16)


def leaves_of(scores: RuleScores, dtype: torch.dtype = torch.float64) -> Leaves:
    chain, prefix, emit = (
        part.to(DEVICE, dtype, copy=True).requires_grad_()
        for part in (scores.chain, scores.prefix, scores.emit)
    )
    return chain, prefix, emit


def on_device(target: Padded) -> Padded:
    return Padded(target.ids.to(DEVICE), target.lengths.to(DEVICE))


def awkward(depth: int, dtype: torch.dtype = torch.float64) -> tuple[Leaves, Tensor, Padded]:
    """Plain, peaked and improbable scores, an impossible token, a target too long, NaN as padding."""
    tree, sizes = SupportTree(6, depth), [6, 5, 6, 4, 2]
    plain, peaked = (random_scores(tree, sizes, scale=scale, seed=depth) for scale in (1.0, 20.0))
    parts = [
        torch.stack([own[0], sharp[1], own[2], own[3], own[4]])
        for own, sharp in (
            (getattr(plain, name), getattr(peaked, name)) for name in ("chain", "prefix", "emit")
        )
    ]
    parts[0][2] -= 300.0  # far below what probabilities can be in float32
    parts[2][3, 1, :] = -math.inf  # the root of this sentence emits nothing
    parts[0][4, :, :, 2:] = math.nan
    parts[0][4, 2:] = math.nan
    parts[1][4, 2:] = math.nan
    parts[2][4, 2 + tree.block :] = math.nan
    target = random_target([6, 5, 4, 3, 3])
    return leaves_of(RuleScores(*parts), dtype), torch.tensor(sizes, device=DEVICE), on_device(target)


def answers(name: str, leaves: Leaves, sizes: Tensor, target: Padded) -> tuple[Tensor, ...]:
    """log P, its gradients under different weights of the sentences, best score and best positions."""
    with backend(name):
        posterior = RHPCFG(RuleScores(*leaves), sizes).posterior(target)
        total = posterior.log_partition
        weights = torch.linspace(0.5, 2.0, len(sizes), device=DEVICE, dtype=total.dtype)
        gradients = torch.autograd.grad(total, leaves, weights, materialize_grads=True)
        found = posterior.argmax()
    return total.detach(), *gradients, found.score, found.position


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_values_gradients_and_best_trees(depth: int) -> None:
    case = awkward(depth)
    fast, plain = answers("triton", *case), answers("reference", *case)
    assert plain[0].isfinite().tolist() == [True, True, True, False, False]
    for found, expected in zip(fast, plain, strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_several_tiles_of_nodes_and_positions() -> None:
    scores = random_scores(SupportTree(11, 1), [11], scale=3.0)
    case = leaves_of(scores), torch.tensor([11], device=DEVICE), on_device(random_target([19]))
    for found, expected in zip(answers("triton", *case), answers("reference", *case), strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_depth_three_where_a_prefix_state_has_several_derivations() -> None:
    scores = random_scores(SupportTree(3, 3), [3])
    case = leaves_of(scores), torch.tensor([3], device=DEVICE), on_device(random_target([7]))
    for found, expected in zip(answers("triton", *case), answers("reference", *case), strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_lower_precision_sums_in_float32(dtype: torch.dtype) -> None:
    """The same rounded scores in float64 tell what the sum should be."""
    scores = random_scores(SupportTree(6, 1), [6, 4])
    leaves = leaves_of(scores, dtype)
    sizes, target = torch.tensor([6, 4], device=DEVICE), on_device(random_target([5, 4]))
    exact = tuple(leaf.detach().double().requires_grad_() for leaf in leaves)
    fast, plain = answers("triton", leaves, sizes, target), answers("reference", exact, sizes, target)  # type: ignore[arg-type]
    assert fast[0].dtype == torch.float32
    assert_close(fast[0].double(), plain[0], rtol=1e-6, atol=1e-5)
    for found, leaf, expected in zip(fast[1:4], leaves, plain[1:4], strict=True):
        assert found.dtype == leaf.dtype
        assert_close(found.double(), expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_viterbi_of_every_length(depth: int) -> None:
    tree = SupportTree(5, depth)
    chain, prefix, emit = (leaf.detach() for leaf in leaves_of(random_scores(tree, [5, 3], seed=depth)))
    limit = min(tree.max_length, 8)
    tables = []
    for name in ("triton", "reference"):
        with backend(name):
            best, sizes = emit.max(-1).values, torch.tensor([5, 3], device=DEVICE)
            tables.append(dispatch.best_by_length(tree, best, chain, prefix, sizes, limit))
    fast, plain = tables
    assert_close(fast.scores, plain.scores)
    for length in (2, 3, limit):
        possible = (fast.scores[:, length] > -math.inf).tolist()
        found, expected = fast.nodes([length] * 2), plain.nodes([length] * 2)
        assert found == [nodes if some else () for nodes, some in zip(expected, possible, strict=True)]
    assert fast.nodes([limit + 1] * 2) == [(), ()]


def test_a_graph_is_a_grammar_of_depth_0() -> None:
    own, target = random_dag([6, 4]), on_device(random_target([4, 3]))
    lattice = DAG(own.transitions.to(DEVICE), own.emit.to(DEVICE), own.num_nodes.to(DEVICE))
    found = []
    for name in ("triton", "reference"):
        with backend(name):
            best = lattice.posterior(target).argmax()
            paths = [h.nodes for h in lattice.mode(Search("joint-viterbi"))]
            found.append((lattice.log_prob(target), best.score, best.position, paths))
    for fast, plain in zip(found[0][:3], found[1][:3], strict=True):
        assert_close(fast, plain)
    assert found[0][3] == found[1][3]


def test_nothing_to_do() -> None:
    scores = RuleScores.zeros(SupportTree(3, 1), 2, 4, device=DEVICE)
    sizes = torch.tensor([3, 3], device=DEVICE)
    with backend("triton"):
        empty = RHPCFG(scores, sizes).log_prob(on_device(Padded.from_lists([[], []])))
        short = RHPCFG(scores, sizes).log_prob(on_device(Padded.from_lists([[1], []])))
        none = RHPCFG(RuleScores.zeros(SupportTree(3, 1), 0, 4, device=DEVICE), sizes[:0])
        nobody = none.log_prob(on_device(Padded(torch.zeros(0, 3, dtype=torch.int64), sizes[:0])))
    assert empty.tolist() == short.tolist() == [-math.inf, -math.inf]
    assert nobody.shape == (0,)


def operands(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    leaves, sizes, target = awkward(1, dtype)
    tokens = leaves[2].detach()[:3].gather(2, target.ids[:3, None].expand(-1, leaves[2].shape[1], -1))
    weights = Weights(
        SupportTree(6, 1),
        tokens,
        leaves[0].detach()[:3],
        leaves[1].detach()[:3],
        sizes[:3],
        target.lengths[:3],
    )
    heads = functions._heads(LogSemiring(), weights)
    return heads, weights.chain, weights.chain_lengths, weights.lengths, 1


def test_operators_keep_torchs_rules() -> None:
    heads, chain, sizes, lengths, depth = operands()
    plain = (heads[:1], chain[:1], sizes[:1], lengths[:1])
    torch.library.opcheck(operators.chain_inside, (*plain, depth))
    _, spans, rights = operators.chain_inside(*plain, depth)
    weight = torch.ones(1, device=DEVICE, dtype=heads.dtype)
    torch.library.opcheck(operators.chain_outside, (*plain, spans, rights, weight, depth))
    torch.library.opcheck(operators.chain_best, (*plain, depth))
    spans, back = operators.chain_best(*plain, depth)
    starts = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    torch.library.opcheck(operators.chain_trace, (spans, back, *plain[2:], starts, depth))


def test_second_derivatives_and_torch_func() -> None:
    heads, chain, sizes, lengths, depth = operands()
    leaves = heads.requires_grad_(), chain.requires_grad_()
    found = []
    for function in (operators.log_partition, operators.plain_log_partition):
        value = function(*leaves, sizes, lengths, depth).sum()
        first = torch.autograd.grad(value, leaves, create_graph=True)
        penalty = sum((part**2).sum() for part in first)
        assert isinstance(penalty, Tensor)
        found.append((*first, *torch.autograd.grad(penalty, leaves)))
    for fast, plain in zip(*found, strict=True):
        assert_close(fast, plain)
    gradient = torch.func.grad(
        lambda some: operators.log_partition(some, chain.detach(), sizes, lengths, depth).sum()
    )
    assert_close(gradient(heads.detach()), found[0][0].detach())
    many = torch.stack([heads.detach(), heads.detach() - 1.0])
    with torch.no_grad():
        together = torch.func.vmap(lambda some: operators.log_partition(some, chain, sizes, lengths, depth))(
            many
        )
        apart = [operators.log_partition(some, chain, sizes, lengths, depth) for some in many]
    assert_close(together, torch.stack(apart))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch's own tracer
def test_compiled_autocast_and_checkpointed() -> None:
    tensors = operands(torch.float32)[:4]
    heads, chain, sizes, lengths = (tensor[:1] for tensor in tensors)

    def loss(heads: Tensor, chain: Tensor) -> Tensor:
        return operators.log_partition(heads * 2.0, chain, sizes, lengths, 1).sum()

    def recomputed(heads: Tensor, chain: Tensor) -> Tensor:
        found: Tensor = torch.utils.checkpoint.checkpoint(loss, heads, chain, use_reentrant=False)
        return found

    def mixed(heads: Tensor, chain: Tensor) -> Tensor:
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            return loss(heads, chain)

    traced = torch.compile(loss, backend="aot_eager", fullgraph=True)
    found = []
    for function in (loss, traced, recomputed, mixed):
        leaves = heads.clone().requires_grad_(), chain.clone().requires_grad_()
        value = function(*leaves)
        found.append((value.detach(), *torch.autograd.grad(value, leaves)))
    for other in found[1:]:
        for one, expected in zip(other, found[0], strict=True):
            assert_close(one, expected)
