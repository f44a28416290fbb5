"""Random lattices for tests; padding is -inf."""

import torch
from torch import Tensor

from pcfgnat.structures import CTC, DAG
from tests.support.grammars import masked_log_softmax
from tests.support.oracle_lattices import CTCOracle, DAGOracle


def random_normal(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_tokens(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    """Log-probabilities of tokens; the last axis is the vocabulary."""
    return random_normal(*shape, scale=scale, seed=seed).log_softmax(-1)


def random_transitions(num_nodes: list[int], scale: float = 1.0, seed: int = 0) -> Tensor:
    """`[B, M, M]`: every vertex but the last goes to any later one of its sentence."""
    width = max(num_nodes)
    vertex = torch.arange(width)
    later = vertex[:, None] < vertex
    legal = later & (vertex < torch.tensor(num_nodes)[:, None, None])
    return masked_log_softmax(random_normal(len(num_nodes), width, width, scale=scale, seed=seed), legal)


def random_dag(num_nodes: list[int], vocabulary: int = 5, scale: float = 1.0, seed: int = 0) -> DAG:
    emit = random_tokens(len(num_nodes), max(num_nodes), vocabulary, scale=scale, seed=seed + 1)
    return DAG(random_transitions(num_nodes, scale, seed), emit, torch.tensor(num_nodes))


def random_ctc(
    num_slots: list[int], vocabulary: int = 4, blank: int = 0, scale: float = 1.0, seed: int = 0
) -> CTC:
    log_probs = random_tokens(len(num_slots), max(num_slots), vocabulary, scale=scale, seed=seed)
    return CTC(log_probs, torch.tensor(num_slots), blank)


def dag_oracle(lattice: DAG, index: int) -> DAGOracle:
    size = int(lattice.num_nodes[index])
    return DAGOracle(lattice.transitions[index, :size, :size].tolist(), lattice.emit[index, :size].tolist())


def ctc_oracle(ctc: CTC, index: int) -> CTCOracle:
    return CTCOracle(ctc.log_probs[index, : int(ctc.num_slots[index])].tolist(), ctc.blank)
