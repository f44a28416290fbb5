"""Training steps, side by side: target tokens a second, where the time goes, and what the grammar costs."""

import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from pcfgnat.benchmark.machine import summary
from pcfgnat.benchmark.paper_size import Size
from pcfgnat.benchmark.regions import PROGRAM, REGIONS, Stopwatch, Watched
from pcfgnat.benchmark.results import Timing
from pcfgnat.benchmark.tables import Table, ms
from pcfgnat.config import to_dict
from pcfgnat.networks import NETWORKS, Batch
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
PROGRAM_MUST = 0.05
USUAL_TOKENS = 1024


@dataclass
class Steps:
    """Steps of one model: seconds, target tokens and seconds by region of each."""

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
        return sum(step[region] for step in self.regions) / sum(self.seconds)


def paper_size_configs(size: Size) -> dict[str, TrainConfig]:
    """Return a run of every model at the paper's size."""
    kinds = {name: entry for name, entry in size.models().items() if name != "pcfg2"}
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

    def step(self, watched: Watched, counted: bool) -> None:
        """Take a step; accumulated batches are one step as they are in training."""
        taken = [next(self._batches) for _ in range(self.config.batches.accumulate)]
        watched.watch = Stopwatch()
        start = time.perf_counter()
        with watched.watch.running():
            result = self.learner.step(taken, self.config.optimiser.rate / 100, PROGRESS, 0)
        seconds = time.perf_counter() - start
        if counted:
            self.steps.seconds.append(seconds)
            self.steps.tokens.append(result.tokens)
            self.steps.regions.append(watched.watch.seconds)


def measure_training(
    configs: Mapping[str, TrainConfig], data: Prepared | None, vocabulary: int, rounds: int
) -> list[Steps]:
    """Let all models take steps in turns; the first of each is not counted."""
    runners = [_Runner(name, config, data, vocabulary) for name, config in configs.items()]
    with Watched() as watched, tqdm(total=(1 + rounds) * len(runners), unit=" steps", disable=None) as bar:
        for turn in range(1 + rounds):
            for runner in runners:
                bar.set_description(runner.steps.name)
                runner.step(watched, counted=turn > 0)
                bar.update()
    return [runner.steps for runner in runners]


def training_table(found: Sequence[Steps]) -> Table:
    """Return tokens a second and shares of time."""
    table = Table(
        "training: target tokens/s, ms of a step (median), and shares of its time in %. Glancing pass and "
        f"backward are without their dynamic program, which must take at most {100 * PROGRAM_MUST:g} %",
        ["model", "tokens/s", "ms", *REGIONS],
    )
    for steps in found:
        shares = [f"{100 * steps.share(region):.1f}" for region in REGIONS]
        table.add(steps.name, f"{steps.tokens_per_second:.0f}", ms(Timing.of(steps.seconds).median), *shares)
    return table


def report_training(found: Sequence[Steps], facts: dict[str, Any], output: Path) -> str:
    """Write JSON, Markdown and a picture, and return what to print."""
    output.mkdir(parents=True, exist_ok=True)
    table, heading = training_table(found), f"Measured on {summary(facts)}."
    plain = [
        {
            **vars(steps),
            "tokens_per_second": steps.tokens_per_second,
            "shares": {region: steps.share(region) for region in REGIONS},
        }
        for steps in found
    ]
    content = json.dumps({"format": 1, "machine": facts, "training": plain}, ensure_ascii=False, indent=1)
    (output / "training.json").write_text(content + "\n", encoding="utf-8")
    picture = "![where a step's time goes](training.png)"
    (output / "training.md").write_text(
        "\n\n".join([heading, table.markdown(), picture]) + "\n", encoding="utf-8"
    )
    _draw(found, output / "training.png")
    return "\n\n".join([heading, table.text(), f"{output} has training.json, training.md, training.png"])


def _draw(found: Sequence[Steps], path: Path) -> None:
    from pcfgnat.benchmark.plots import new_figure, save_figure

    figure = new_figure(9.0, 1.6 + 0.5 * len(found))
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
    save_figure(figure, path)
