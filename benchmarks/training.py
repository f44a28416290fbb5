"""Training steps, side by side: `python -m benchmarks.training`.

Target tokens per second, where the time goes, and what the grammar costs; all models at the paper's size on
generated sentences, or configs on prepared text:

  python -m benchmarks.training --config configs/multi30k/*.toml --data runs/data/multi30k
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.paper_size import Size
from benchmarks.regions import PROGRAM, REGIONS, new_profile, seconds_by_region
from pcfgnat.benchmark.machine import machine, summary
from pcfgnat.config import to_dict
from pcfgnat.networks import NETWORKS, Batch
from pcfgnat.report import Report, Table
from pcfgnat.report.statistics import Timing
from pcfgnat.report.table import milliseconds
from pcfgnat.storage.toml import load_config
from pcfgnat.structures import Padded
from pcfgnat.text import Prepared, batches
from pcfgnat.text.special import SPECIAL_TOKENS
from pcfgnat.training import TrainConfig
from pcfgnat.training.collate import collated
from pcfgnat.training.config import BatchConfig
from pcfgnat.training.hardware import prepared_device
from pcfgnat.training.learner import Learner

SEED, PROGRESS = 1, 0.5
SHORTEST, LONGEST = 10, 40  # of generated sentences
USUAL_TOKENS = 1024


@dataclass
class Steps:
    """Steps of one model: seconds and target tokens of each, and seconds by region of those profiled."""

    name: str
    model: str
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    regions: list[dict[str, float]] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Median over steps."""
        return statistics.median(n / s for n, s in zip(self.tokens, self.seconds, strict=True))

    def share(self, region: str) -> float:
        """Return a region's share of all steps."""
        return sum(step[region] for step in self.regions) / sum(
            map(sum, (one.values() for one in self.regions))
        )


TRAINED = ("pcfg", "dag", "ctc", "ar", "ar12-1")  # other contenders differ in depth and upsampling only


def paper_size_configs(size: Size) -> dict[str, TrainConfig]:
    """Return a run of every kind of model at the paper's size."""
    kinds = {name: entry for name, entry in size.models().items() if name in TRAINED}
    return {
        name: TrainConfig(
            data=Path("generated"),
            output=Path("nowhere"),
            network={"name": kind, **to_dict(config)},
            objective={"name": "cross_entropy" if kind == "autoregressive" else "likelihood"},
            batches=BatchConfig(tokens=USUAL_TOKENS),
            steps=1,
        )
        for name, (kind, config) in kinds.items()
    }


def generated(vocabulary: int, tokens: int, seed: int) -> Batch:
    """Draw a batch of about so many target tokens; lengths vary, and targets are as long as their sources."""
    generator = torch.Generator().manual_seed(seed)
    first = max(SPECIAL_TOKENS.ids) + 1
    source: list[list[int]] = []
    target: list[list[int]] = []
    while sum(map(len, target)) < tokens:
        length = int(torch.randint(SHORTEST, LONGEST + 1, (), generator=generator))
        for side in (source, target):
            ids = torch.randint(first, vocabulary, (length - 2,), generator=generator).tolist()
            side.append([SPECIAL_TOKENS.bos, *ids, SPECIAL_TOKENS.eos])
    return Batch(Padded.from_lists(source), Padded.from_lists(target))


class _Runner:
    """A model in training, and its data."""

    def __init__(self, name: str, config: TrainConfig, data: Prepared | None, vocabulary: int) -> None:
        self.config = config.resolved()
        self.device = prepared_device(self.config)
        size = vocabulary if data is None else data.tokenizer.vocabulary_size
        torch.manual_seed(SEED)
        network = NETWORKS[config.network_name][0](config.network_config(), size)
        self.learner = Learner(network, self.config, self.device)
        self.steps = Steps(name, config.network_name)
        self._batches = self._generated(size) if data is None else self._read(data)

    def _generated(self, vocabulary: int) -> Iterator[Batch]:
        seed, tokens = SEED, self.config.batches.tokens or USUAL_TOKENS
        while True:
            yield generated(vocabulary, tokens, seed)
            seed += 1

    def _read(self, data: Prepared) -> Iterator[Batch]:
        corpus, epoch = data.corpus("train"), 0
        while True:
            for indices in batches(corpus, self.config.batches.settings(SEED), epoch):
                yield collated(corpus, indices, self.device)
            epoch += 1

    def step(self, counted: bool) -> None:
        """Take a timed step and a profiled one; accumulated batches are one step as they are in training."""
        seconds, tokens = self._stepped()
        with new_profile() as found:
            profiled, _ = self._stepped()
        if counted:
            self.steps.seconds.append(seconds)
            self.steps.tokens.append(tokens)
            self.steps.regions.append(seconds_by_region(found.events() or (), profiled))

    def _stepped(self) -> tuple[float, int]:
        taken = [next(self._batches) for _ in range(self.config.batches.accumulate)]
        start = time.perf_counter()
        result = self.learner.step(taken, self.config.optimiser.rate / 100, PROGRESS, 0)
        return time.perf_counter() - start, result.tokens


def measure_training(
    configs: Mapping[str, TrainConfig], data: Prepared | None, vocabulary: int, rounds: int
) -> list[Steps]:
    """Let all models take steps in turns; the first of each is not counted."""
    runners = [_Runner(name, config, data, vocabulary) for name, config in configs.items()]
    with tqdm(total=(1 + rounds) * len(runners), unit=" turns", disable=None) as bar:
        for turn in range(1 + rounds):
            for runner in runners:
                bar.set_description(runner.steps.name)
                runner.step(counted=turn > 0)
                bar.update()
    return [runner.steps for runner in runners]


def training_table(found: Sequence[Steps]) -> Table:
    """Return tokens per second and shares of time."""
    rows = [
        [
            steps.name,
            f"{steps.tokens_per_second:.0f}",
            milliseconds(Timing.of(steps.seconds).median),
            *(f"{100 * steps.share(region):.1f}" for region in REGIONS),
        ]
        for steps in found
    ]
    title = (
        "training: target tokens/s, ms of a step (median), and shares of a profiled step in %; "
        "glancing pass and backward without their dynamic program"
    )
    return Table(["model", "tokens/s", "ms", *REGIONS], rows, title=title)


def training_report(found: Sequence[Steps], facts: dict[str, Any]) -> Report:
    """Return the table, all figures and a picture of the shares."""
    plain = [
        {
            **vars(steps),
            "tokens_per_second": steps.tokens_per_second,
            "shares": {region: steps.share(region) for region in REGIONS},
        }
        for steps in found
    ]
    heading, picture = f"Measured on {summary(facts)}.", "![where a step's time goes](training.png)"
    text = "\n\n".join([heading, training_table(found).markdown(), picture])
    data = {"format": 1, "machine": facts, "training": plain}
    return Report("training", text, data, lambda figure: _draw(figure, found), (9.0, 1.6 + 0.5 * len(found)))


def _draw(figure: Any, found: Sequence[Steps]) -> None:
    axes = figure.subplots()
    names = [steps.name for steps in found]
    left = [0.0] * len(found)
    for index, region in enumerate(REGIONS):
        shares = [100 * steps.share(region) for steps in found]
        axes.barh(names, shares, left=left, label=region, color="black" if region == PROGRAM else f"C{index}")
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("share of a step's time, %")
    axes.set_xlim(0, 100)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--config",
        nargs="+",
        type=Path,
        default=[],
        metavar="TOML",
        help="(default: all at the paper's size)",
    )
    add("--data", type=Path, metavar="DIR", help="prepared text (default: generated sentences)")
    add("--threads", type=int, default=1, metavar="N", help="(default: 1)")
    add("--rounds", type=int, default=10, metavar="N", help="turns of each model (default: 10)")
    add(
        "--output", type=Path, default=Path("runs/benchmark"), metavar="DIR", help="(default: runs/benchmark)"
    )
    options = parser.parse_args(arguments)
    facts, size = machine(), Size()
    configs = {
        f"{path.parent.name}/{path.stem}": load_config(TrainConfig, path) for path in options.config
    } or paper_size_configs(size)
    configs = {name: replace(config, threads=options.threads) for name, config in configs.items()}
    data = None if options.data is None else Prepared.open(options.data)
    found = measure_training(configs, data, size.vocabulary, options.rounds)
    report = training_report(found, facts)
    report.write(options.output)
    print(report.text)


if __name__ == "__main__":
    main()
