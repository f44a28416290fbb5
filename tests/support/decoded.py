"""Translations of torch's networks by a strategy that is named as on the command line."""

from collections.abc import Sequence

from pcfgnat.decoding import Request, parse_strategy
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.networks import Network
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.torch import torch_runtime

PLAIN = Request()


def translated(
    network: Network, strategy: str, sources: Sources, request: Request = PLAIN
) -> list[list[Hypothesis]]:
    runtime = torch_runtime(network)
    return parse_strategy(strategy, runtime).decode(runtime, sources, request)


def swept(
    network: Network, strategy: str, sources: Sources, penalties: Sequence[float], request: Request = PLAIN
) -> list[list[Hypothesis]]:
    runtime = torch_runtime(network)
    return parse_strategy(strategy, runtime).sweep(runtime, sources, request, penalties)
