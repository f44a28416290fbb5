"""`pcfgnat cluster-translate`: workers without a cluster, and a real one on this machine."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest

from pcfgnat.cli import main
from pcfgnat.cluster import ClusterJob
from pcfgnat.cluster.job import ShardTranslator
from pcfgnat.storage.shards import ShardedFile
from pcfgnat.translator import TranslateOptions, Translator
from tests.cli.conftest import World, short_sentences
from tests.text.bilingual import write_lines

COMMAND = (sys.executable, "-m", "pcfgnat", "cluster-translate")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "source.de", ["", *(text for text, _ in short_sentences(11)), ""])


def test_a_worker_translates_as_a_translator_does(world: World, tmp_path: Path, source: Path) -> None:
    for model, pieces in ((world.teacher, False), (world.marked, True)):
        options = TranslateOptions(strategy="greedy")
        output = ShardedFile.begun(source, tmp_path / f"output-{pieces}", {}, shard_lines=5)
        worker = ShardTranslator(ClusterJob(model, source, options, pieces=pieces), output.directory)
        rows = [asdict(shard) for shard in output.missing()]
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        assert worker(columns) is columns
        output.merge()
        found = Translator.load(model, options=options)(source.read_text(encoding="utf-8").splitlines())
        expected = [" ".join(result.pieces) if pieces else result.text for result in found]
        assert output.output.read_text(encoding="utf-8").splitlines() == expected


def test_samples_do_not_depend_on_the_worker(world: World, tmp_path: Path, source: Path) -> None:
    job = ClusterJob(world.teacher, source, TranslateOptions(strategy="sample", seed=3))
    outputs = [ShardedFile.begun(source, tmp_path / name, {}, shard_lines=5) for name in ("one", "other")]
    for output, order in zip(outputs, (1, -1), strict=True):
        worker = ShardTranslator(job, output.directory)
        for shard in output.missing()[::order]:
            worker.translate(shard)
        output.merge()
    assert outputs[0].output.read_bytes() == outputs[1].output.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_real_cluster_with_a_worker_killed(world: World, tmp_path: Path, source: Path) -> None:
    """Then the whole command is killed, too."""
    pytest.importorskip("ray")
    write_lines(source, [text for text, _ in short_sentences(60)] * 5)
    expected = tmp_path / "expected"
    model = ("--model", str(world.teacher), "--input", str(source), "--decode", "greedy")
    assert main(["translate", *model, "--output", str(expected)]) == 0
    output = tmp_path / "output"
    arguments = (*COMMAND, *model, "--output", str(output), "--shard-lines", "3", "--workers", "2")
    with (tmp_path / "said").open("wb") as said:
        driver = subprocess.Popen(arguments, stdout=said, stderr=said)
        wait_for(tmp_path / "output.shards", 5, driver)
        family = psutil.Process(driver.pid).children(recursive=True)
        victims = [child for child in family if "ShardTranslator" in "".join(child.cmdline())]
        assert victims
        victims[0].kill()
        wait_for(tmp_path / "output.shards", 20, driver)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        psutil.wait_procs(family, timeout=60)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "output.shards").glob("0*")}
    assert 20 <= len(before) < 100
    result = subprocess.run(arguments, capture_output=True, check=False, text=True)
    assert result.returncode == 0, result.stderr
    assert f"300 lines in {output}" in result.stdout
    assert output.read_bytes() == expected.read_bytes()
    assert all(path.stat().st_mtime_ns == written for path, written in before.items())
    shards = [path.name for path in (tmp_path / "output.shards").iterdir()]
    assert len(shards) == 101  # and the manifest


def wait_for(directory: Path, shards: int, driver: "subprocess.Popen[bytes]") -> None:
    while driver.poll() is None and not (directory.exists() and len(os.listdir(directory)) > shards):
        time.sleep(0.01)
    assert driver.poll() is None
