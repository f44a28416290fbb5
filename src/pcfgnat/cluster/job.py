"""The shards of a corpus, translated by a pool of actors."""

import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.storage.shards import Shard, ShardedFile, write_shard
from pcfgnat.translator import TranslateOptions, Translator, exported_for, job_record
from pcfgnat.translator.loading import RuntimeName


@dataclass(frozen=True)
class ClusterJob:
    """What every worker must know; paths must mean the same on all machines.

    pieces: write subwords instead of text, for training text that was split beforehand
    """

    model: Path
    source: Path
    options: TranslateOptions
    device: str = "cpu"
    threads: int = 1
    exact: bool | None = None
    pieces: bool = False

    def translator(self, device: str | None = None) -> Translator:
        """Load the model; on another device it has the runtime that it would have on the job's own."""
        onnx = ExportedOptions(threads=self.threads, exact=self.exact)
        runtime: RuntimeName = "torch" if exported_for(self.model, self.device) is None else "auto"
        translator = Translator.load(self.model, device or self.device, self.options, runtime, onnx)
        return translator.for_corpus_text() if self.pieces else translator

    def record(self, shard_lines: int) -> dict[str, str]:
        """Return everything that the output depends on, but for the text itself.

        The model is loaded here as the workers load it, but on the CPU: there may be no other device here.
        """
        facts = job_record(self.translator("cpu"), self.model, shard_lines)
        return {**facts, "pieces": str(self.pieces)}


class ShardTranslator:
    """A worker: loads the model once, then turns shards into files."""

    def __init__(self, job: ClusterJob, directory: Path) -> None:
        self._job, self._directory = job, directory
        self._translator = job.translator()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Translate the shards that Ray Data gives as columns, and pass on what they were."""
        for row in zip(*(batch[name].tolist() for name in ("first", "lines", "start", "stop")), strict=True):
            self.translate(Shard(*row))
        return batch

    def translate(self, shard: Shard) -> None:
        """Translate one shard."""
        found = self._translator(shard.read(self._job.source))
        texts = [" ".join(result.pieces) if self._job.pieces else result.text for result in found]
        write_shard(self._directory, shard, texts)


def translate_shards(
    job: ClusterJob, output: ShardedFile, workers: int, address: str | None = None
) -> Iterator[int]:
    """Translate all shards that are missing, and give the number of lines of each one that is done.

    `address` is that of a Ray cluster (`auto`: the one of this machine); without it there is one for the time
    of the job, on this machine alone. A worker that dies is replaced, and its shard done again.
    """
    missing = output.missing()
    if not missing:
        return
    data, failure = _ray(address)
    rows = data.from_items([asdict(shard) for shard in missing], override_num_blocks=len(missing))
    done = rows.map_batches(
        ShardTranslator,
        fn_constructor_args=(job, output.directory.absolute()),
        batch_size=1,
        compute=data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(missing))),
        num_cpus=job.threads,
        num_gpus=0 if job.device == "cpu" else 1,
    )
    try:
        for row in done.iter_rows():
            yield int(row["lines"])
    except failure as error:
        reason = str(error).strip().split("\n")[-1]
        raise ValueError(f"the cluster gave up: {reason}") from error


def _ray(address: str | None) -> tuple[Any, type[Exception]]:
    """Join or start a cluster; return Ray Data, and the class of its errors."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError("a cluster needs Ray: pip install 'pcfgnat[ray]'") from error
    if not ray.is_initialized():
        dashboard = None if address else False
        ray.init(
            address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.WARNING
        )
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data, ray.exceptions.RayError
