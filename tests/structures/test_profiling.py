"""What a profiler sees of the dynamic programs."""

import threading

import pytest
import torch
from benchmarks.structures import random_grammar, random_target
from torch.profiler import ProfilerActivity, profile

from pcfgnat.structures import CTC, DAG, Independent, Padded, SequenceDistribution, backend
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled

TARGET = Padded.from_lists([[1, 2, 3]])


def distribution(kind: str) -> tuple[SequenceDistribution, Padded]:
    torch.manual_seed(0)
    size, emit = torch.tensor([6]), torch.randn(1, 6, 8).log_softmax(-1).requires_grad_()
    if kind == "dag":
        later = torch.ones(6, 6).triu(1).bool()
        links = torch.randn(1, 6, 6).masked_fill(~later, -torch.inf).log_softmax(-1).nan_to_num(-torch.inf)
        return DAG(links, emit, size), TARGET
    if kind == "ctc":
        return CTC(emit, size, blank=0), TARGET
    if kind == "independent":
        return Independent(emit[:, :3], torch.tensor([3])), TARGET
    grammar = random_grammar(1, 3, 1, torch.float32)
    grammar.scores.emit.requires_grad_()
    return grammar, random_target(1, 5)


@pytest.mark.parametrize("name", ["reference", "numba"])
@pytest.mark.parametrize("kind", ["rhpcfg", "dag", "ctc", "independent"])
def test_the_dynamic_program_has_a_name(kind: str, name: str) -> None:
    found, target = distribution(kind)
    with backend(name), profile(activities=[ProfilerActivity.CPU], acc_events=True) as forward:
        value = found.log_prob(target).sum()
    with backend(name), profile(activities=[ProfilerActivity.CPU], acc_events=True) as best:
        found.posterior(target).argmax()
    assert torch.isfinite(value)
    for seen in (forward, best):
        assert DYNAMIC_PROGRAM in [event.name for event in seen.events() or ()]


@pytest.mark.parametrize("kind", ["rhpcfg", "ctc"])
def test_a_kernel_s_gradient_has_the_name_too(kind: str) -> None:
    found, target = distribution(kind)
    with backend("numba"):
        value = found.log_prob(target).sum()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as backward:
        value.backward()  # type: ignore[no-untyped-call]
    events = [event for event in backward.events() or () if event.name == DYNAMIC_PROGRAM]
    assert events
    assert all(event.cpu_parent is not None for event in events)


def test_threads_do_not_share_a_record() -> None:
    @profiled("outer")
    def nested(depth: int) -> int:
        return depth if depth == 0 else 1 + nested(depth - 1)

    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(nested(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [50] * 4
    assert nested.__name__ == "nested"
