"""A training step never waits for its device, and finds there what it finds on the CPU."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.networks import Batch, CanvasNetwork
from pcfgnat.nn import emission, waiting
from pcfgnat.objectives import Glancing, Likelihood, Loss, Ngrams, Step
from pcfgnat.structures import Padded, backend
from tests.support.transfers import META, no_transfers
from tests.support.zoo import SMALL, UNDROPPED, made

SOURCE = [[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3]]
TARGET = [[2, 9, 3], [2, 5, 5, 6, 3], [2, 4, 6, 3]]
GLANCED = Glancing(0.5, 0.1)
OBJECTIVES = {
    "plain": Likelihood(),
    "glancing": Likelihood(GLANCED),
    "forced": Likelihood(replace(GLANCED, force_emit=True)),
    "shortlist": Likelihood(replace(GLANCED, shortlist=4)),
    "n-grams": Ngrams(GLANCED, n=2),
    "trigrams": Ngrams(GLANCED, n=3),
}
TREES = ["pcfg", "pcfg of depth 2", "dag"]
CASES = [(name, objective) for name in TREES for objective in OBJECTIVES] + [
    (name, objective) for name in ("ctc", "slots") for objective in ("plain", "glancing")
]


def batch(seeds: list[int] | None = None) -> Batch:
    given = None if seeds is None else torch.tensor(seeds)
    return Batch(Padded.from_lists(SOURCE), Padded.from_lists(TARGET), given)


def moved(given: Batch) -> Batch:
    seeds = None if given.seeds is None else given.seeds.to(META)
    return Batch(given.source.to(META), given.target.to(META), seeds)


def loose(given: Batch) -> Batch:
    """Return the batch with two columns more, filled with rubbish."""
    source, target = (
        Padded(torch.constant_pad_nd(side.ids, (0, 2), value=-7), side.lengths)
        for side in (given.source, given.target)
    )
    return Batch(source, target, given.seeds)


def gradients(network: CanvasNetwork, loss: Loss) -> dict[str, Tensor]:
    network.zero_grad()
    loss.value.backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("seeds", [None, [1, 2, 3]])
def test_a_step_never_waits(name: str, kind: str, seeds: list[int] | None) -> None:
    """`.item()`, `.cpu()`, `bool(tensor)`, `nonzero()` and indices that are masks all raise on meta."""
    network = made(name, SMALL, copy_input=True).to(META).train()
    step, given = Step(network, OBJECTIVES[kind]), moved(batch(seeds))
    with no_transfers():
        loss: Loss = step(given, 0.5)
        found = gradients(network, loss)
    assert found
    assert {weight.device for weight in found.values()} == {META}
    with pytest.raises((RuntimeError, NotImplementedError)):
        loss.sentences  # noqa: B018


@pytest.mark.parametrize("name", TREES)
def test_the_plain_loop_never_waits(name: str) -> None:
    network = made(name).to(META).train()
    step, given = Step(network, OBJECTIVES["glancing"]), moved(batch())
    with no_transfers(), backend("reference"):
        assert gradients(network, step(given, 0.5))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_devices_compute_is_what_the_cpu_computes(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read off tensors, so columns of padding stay, but the numbers are here to be compared."""
    monkeypatch.setattr(emission, "NEGLIGIBLE", 0.0)  # which only the CPU leaves out
    network, objective = made(name, UNDROPPED, copy_input=True).train(), OBJECTIVES[kind]
    found = []
    for at_hand in (True, False):
        monkeypatch.setattr(waiting, "at_hand", lambda _, here=at_hand: here)
        loss = objective.loss(network, batch([1, 2, 3]) if at_hand else loose(batch([1, 2, 3])), 0.5)
        found.append((loss, gradients(network, loss)))
    (here, here_gradients), (there, there_gradients) = found
    assert_close(there.value, here.value)
    assert (there.sentences, there.tokens, there.skipped) == (here.sentences, here.tokens, here.skipped)
    assert there.metrics == pytest.approx(here.metrics)
    assert there_gradients.keys() == here_gradients.keys()
    for weight, expected in here_gradients.items():
        assert_close(there_gradients[weight], expected, rtol=1e-6, atol=1e-9, msg=weight)


def test_transfers_are_seen() -> None:
    there, here = torch.zeros(3, device=META), torch.zeros(3)
    transfers: list[Callable[[], Tensor]] = [
        lambda: torch.tensor([1, 2], device=META),
        lambda: there[[0, 1]],
        lambda: there[torch.tensor([0, 1])],
        lambda: here.to(META),
        lambda: there + here,
        lambda: there.new_tensor([1.0]),
    ]
    for transfer in transfers:
        with no_transfers(), pytest.raises(RuntimeError, match="device"):
            transfer()
    with no_transfers():
        assert (torch.where(there > 0, there, 1.0) * 2).device == META
        assert (here[[0, 1]] + 1).tolist() == [1.0, 1.0]
