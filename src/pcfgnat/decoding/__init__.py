"""Decoding: strategies are typed values, written once for every runtime, and free of torch.

`STRATEGIES` lists them; which of them apply follows from the protocol that a runtime offers.
"""

from typing import Any

from pcfgnat.config import ConfigError, from_dict, parsed_value, to_dict
from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.collapse import CollapsedBeam, CollapsedSample, Slotwise
from pcfgnat.decoding.consensus import MinimumRisk
from pcfgnat.decoding.easy_first import EasyFirst
from pcfgnat.decoding.importance import Importance, LatentRescore
from pcfgnat.decoding.imputation import Imputation
from pcfgnat.decoding.latents import LatentGreedy, LatentSample
from pcfgnat.decoding.masked import MaskPredict, UpdateAll
from pcfgnat.decoding.rescore import Rescore
from pcfgnat.decoding.searched import SearchedBeam, SearchedGreedy
from pcfgnat.decoding.slots import SlotGreedy, SlotSample
from pcfgnat.decoding.stepwise import Beam, GreedySteps, SampleSteps
from pcfgnat.decoding.structured import Greedy, JointViterbi, Lookahead, Sample, Viterbi
from pcfgnat.decoding.verify import Verify
from pcfgnat.runtimes.base import Runtime

STRATEGIES: tuple[type[Strategy], ...] = (
    *(Viterbi, JointViterbi, Lookahead, Greedy, Sample, MinimumRisk),
    *(Slotwise, CollapsedBeam, CollapsedSample),
    *(SlotGreedy, SlotSample),
    *(MaskPredict, UpdateAll, EasyFirst),
    *(Imputation,),
    *(LatentGreedy, LatentSample, Importance),
    *(Beam, GreedySteps, SampleSteps),
    *(Verify, Rescore, LatentRescore),
    *(SearchedBeam, SearchedGreedy),
)


def strategies_of(runtime: Runtime) -> dict[str, type[Strategy]]:
    """Return the strategies that a runtime can be decoded by, by name.

    Where two models run as one, names that both have are the second one's.
    """
    offered = {kind.protocol for kind in STRATEGIES}
    offered = {protocol for protocol in offered if isinstance(runtime, protocol)}  # slow, so once for each
    return {kind.name: kind for kind in STRATEGIES if kind.protocol in offered}


def parse_strategy(text: str, runtime: Runtime) -> Strategy:
    """Read `NAME` or `NAME:setting=value,setting=value`, such as `beam:size=8`, for a runtime."""
    name, _, settings = text.partition(":")
    known = strategies_of(runtime)
    if name not in known:
        raise DecodingError(f"the strategy must be one of {', '.join(known)} for this model, got {name!r}")
    values: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise DecodingError(f"a setting of a strategy must look like name=value, got {setting!r}")
        values[key.strip()] = parsed_value(value.strip())
    try:
        return from_dict(known[name], values, name)
    except ConfigError as error:
        raise DecodingError(str(error)) from error


def strategy_text(strategy: Strategy) -> str:
    """Return what `parse_strategy` reads, with all settings but switches that are off by default."""
    values = {key: value for key, value in to_dict(strategy).items() if value or key not in strategy.switches}
    settings = ",".join(f"{key}={_written(value)}" for key, value in values.items())
    return f"{strategy.name}:{settings}" if settings else strategy.name


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


__all__ = [
    "STRATEGIES",
    "Beam",
    "CollapsedBeam",
    "DecodingError",
    "EasyFirst",
    "Greedy",
    "Importance",
    "Imputation",
    "JointViterbi",
    "Lookahead",
    "MaskPredict",
    "MinimumRisk",
    "Request",
    "Rescore",
    "Sample",
    "SlotGreedy",
    "Strategy",
    "UpdateAll",
    "Verify",
    "Viterbi",
    "parse_strategy",
    "strategies_of",
    "strategy_text",
]
