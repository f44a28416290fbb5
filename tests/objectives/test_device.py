"""A training step never waits for its device, and finds there what it finds on the CPU."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.networks import Batch, Network, SlotsConfig, SlotsNetwork
from pcfgnat.nn import TransformerConfig, emission, waiting
from pcfgnat.objectives import (
    AXE,
    OAXE,
    Corrected,
    CrossEntropy,
    Disco,
    FlowSeq,
    Glancing,
    Imputer,
    Likelihood,
    Loss,
    Masked,
    Ngrams,
    Objective,
    Smart,
    Step,
)
from pcfgnat.structures import Padded, backend
from tests.support.sentences import VOCABULARY
from tests.support.transfers import META, no_transfers
from tests.support.zoo import SMALL, UNDROPPED, autoregressive, flowseq, made, opinionated

SOURCE = [[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3], [2, 4, 3]]
TARGET = [[2, 9, 3], [2, 5, 5, 6, 3], [2, 4, 6, 3], [2, 3]]
SEEDS = [1, 2, 3, 4]
GLANCED = Glancing(0.5, 0.1)
OBJECTIVES: dict[str, Objective] = {
    "plain": Likelihood(),
    "glancing": Likelihood(GLANCED),
    "forced": Likelihood(replace(GLANCED, force_emit=True)),
    "shortlist": Likelihood(replace(GLANCED, shortlist=4)),
    "n-grams": Ngrams(GLANCED, n=2),
    "trigrams": Ngrams(GLANCED, n=3),
    "cross-entropy": CrossEntropy(),
    "masked": Masked(),
    "smart": Smart(),
    "corrected": Corrected(replaced=1.0),
    "disco": Disco(),
    "imputer": Imputer(),
    "flowseq": FlowSeq(),
    "axe": AXE(slots_per_token=1.5),
    "oaxe": OAXE(least_probability=0.0, cross_entropy=0.9),
}
TREES = ["pcfg", "pcfg of depth 2", "dag"]
OF_TREES = ["plain", "glancing", "forced", "shortlist", "n-grams", "trigrams"]
CASES = [
    *((name, objective) for name in TREES for objective in OF_TREES),
    *((name, objective) for name in ("ctc", "slots") for objective in ("plain", "glancing")),
    *((name, objective) for name in ("slots", "cmlmc") for objective in ("masked", "smart", "corrected")),
    ("autoregressive", "cross-entropy"),
    ("disco", "disco"),
    ("imputer", "imputer"),
    ("flowseq", "flowseq"),
    ("slots with a blank", "axe"),
]
SUMMED = [(name, "glancing", True) for name in (*TREES, "ctc", "slots")]  # several targets of a source
ON_THE_HOST = [("slots", "oaxe")]  # its assignment is found on the CPU


def built(name: str, transformer: TransformerConfig) -> Network:
    if name == "slots with a blank":
        torch.manual_seed(0)
        return opinionated(SlotsNetwork(SlotsConfig(transformer, blank=True), VOCABULARY))
    if name in ("autoregressive", "flowseq"):
        return autoregressive(transformer) if name == "autoregressive" else flowseq(transformer)
    return made(name, transformer, copy_input=True)


def batch(seeds: list[int] | None = None) -> Batch:
    given = None if seeds is None else torch.tensor(seeds)
    return Batch(Padded.from_lists(SOURCE), Padded.from_lists(TARGET), given)


def grouped(given: Batch) -> Batch:
    """Return the batch with the first two targets as alternatives of one source."""
    groups = torch.tensor([0, 0, 1, 2], device=given.source.ids.device)
    return replace(given, groups=groups, num_sources=3)


def moved(given: Batch) -> Batch:
    seeds = None if given.seeds is None else given.seeds.to(META)
    return Batch(given.source.to(META), given.target.to(META), seeds)


def loose(given: Batch) -> Batch:
    """Return the batch with two columns more, filled with rubbish."""
    source, target = (
        Padded(torch.constant_pad_nd(side.ids, (0, 2), value=-7), side.lengths)
        for side in (given.source, given.target)
    )
    return replace(given, source=source, target=target)


def gradients(network: Network, loss: Loss) -> dict[str, Tensor]:
    network.zero_grad()
    loss.value.backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(None, marks=pytest.mark.slow)])
def test_a_step_never_waits(name: str, kind: str, seeds: list[int] | None) -> None:
    """`.item()`, `.cpu()`, `bool(tensor)`, `nonzero()` and indices that are masks all raise on meta."""
    network = built(name, SMALL).to(META).train()
    step, given = Step(network, OBJECTIVES[kind]), moved(batch(seeds))
    with no_transfers():
        loss: Loss = step(given, 0.5)
        found = gradients(network, loss)
    assert found
    assert {weight.device for weight in found.values()} == {META}
    with pytest.raises((RuntimeError, NotImplementedError)):
        loss.sentences  # noqa: B018


def test_several_targets_never_wait() -> None:
    network = made("pcfg").to(META).train()
    step, given = Step(network, OBJECTIVES["glancing"]), grouped(moved(batch(SEEDS)))
    with no_transfers():
        assert gradients(network, step(given, 0.5))


@pytest.mark.parametrize("name", TREES)
def test_the_plain_loop_never_waits(name: str) -> None:
    network = made(name).to(META).train()
    step, given = Step(network, OBJECTIVES["glancing"]), moved(batch())
    with no_transfers(), backend("reference"):
        assert gradients(network, step(given, 0.5))


@pytest.mark.parametrize(
    ("name", "kind", "several"), [*((*case, False) for case in CASES + ON_THE_HOST), *SUMMED]
)
def test_what_devices_compute_is_what_the_cpu_computes(
    name: str, kind: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read off tensors, so columns of padding stay, but the numbers are here to be compared."""
    monkeypatch.setattr(emission, "NEGLIGIBLE", 0.0)  # which only the CPU leaves out
    network, objective = built(name, UNDROPPED).train(), OBJECTIVES[kind]
    given = grouped(batch(SEEDS)) if several else batch(SEEDS)
    found = []
    for at_hand in (True, False):
        monkeypatch.setattr(waiting, "at_hand", lambda _, here=at_hand: here)
        loss = objective.loss(network, given if at_hand else loose(given), 0.5)
        found.append((loss, gradients(network, loss)))
    (here, here_gradients), (there, there_gradients) = found
    assert_close(there.value, here.value)
    assert (there.sentences, there.tokens, there.skipped) == (here.sentences, here.tokens, here.skipped)
    assert there.metrics == pytest.approx(here.metrics)
    assert there_gradients.keys() == here_gradients.keys()
    for weight, expected in here_gradients.items():
        assert_close(there_gradients[weight], expected, rtol=1e-6, atol=1e-9, msg=weight)


@pytest.mark.parametrize(("name", "kind"), CASES + ON_THE_HOST)
def test_autocast_changes_little(name: str, kind: str) -> None:
    network, objective = built(name, UNDROPPED).float().train(), OBJECTIVES[kind]
    exact = objective.loss(network, batch(SEEDS), 0.5).value
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.loss(network, batch(SEEDS), 0.5)
    assert loss.value.dtype == torch.float32
    assert all(weight.isfinite().all() for weight in gradients(network, loss).values())
    assert loss.value.item() == pytest.approx(exact.item(), rel=0.2)  # another best tree may be revealed


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
