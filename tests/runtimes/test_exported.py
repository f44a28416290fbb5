"""Exported models as people use them: loaded like checkpoints, without torch, or refused."""

import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.cli import main
from pcfgnat.export.onnx import ExportSettings, export_onnx, record_shortlist
from pcfgnat.runtimes.exported_runtime import ExportedRuntime
from pcfgnat.runtimes.native.base import NativeRuntime
from pcfgnat.runtimes.onnx import ExportedOptions, OnnxRuntime, ShortlistFacts
from pcfgnat.text.shortlist import Shortlist
from pcfgnat.translator import TranslateOptions, Translator, bundled_model, describe_model
from tests.runtimes.models import save_model

WHO = ("I", "Tom", "My old friend", "We", "The children")
DOES = ("saw", "can't find", "will never forget", "wanted to buy", "lost")
WHAT = (
    "a small red house.",
    "it yesterday?",
    "the train station in Boston!",
    "your book, because it rained.",
)
SENTENCES = [" ".join(words) for words in product(WHO, DOES, WHAT)]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    export_onnx(save_model(tmp_path / "model", "depth 1"), tmp_path / "model" / "onnx")
    return tmp_path / "model" / "onnx"


@pytest.mark.parametrize("strategy", ["viterbi", "greedy", "lookahead"])
def test_the_bundled_model_translates_as_in_torch(
    strategy: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "bundled-float32"
    if not place.exists():
        export_onnx(bundled_model(), place)
    options = TranslateOptions(strategy=strategy, length_penalty=1.3, batch=16)
    ours = Translator.load(place, options=options)(SENTENCES)
    theirs = Translator.load(options=options, runtime="torch")(SENTENCES)
    assert len(SENTENCES) == 100
    assert [found.pieces for found in ours] == [found.pieces for found in theirs]
    assert [found.score for found in ours] == pytest.approx([found.score for found in theirs], abs=1e-3)


@pytest.mark.parametrize("runtime", ["native", "onnx"])
def test_the_bundled_export_loses_little(runtime: Literal["native", "onnx"]) -> None:
    quick = Translator.load(runtime=runtime)
    assert isinstance(quick.runtime, OnnxRuntime if runtime == "onnx" else NativeRuntime)
    assert quick.runtime.metadata.precision == "int8"
    is_default = quick.job() == Translator.load().job()
    assert is_default == (runtime == "native")
    theirs = Translator.load(runtime="torch")
    assert not isinstance(theirs.runtime, ExportedRuntime)
    assert (quick.strategy, quick.request) == (theirs.strategy, theirs.request)
    same = [a.text == b.text for a, b in zip(quick(SENTENCES), theirs(SENTENCES), strict=True)]
    assert np.mean(same) > 0.75


def test_no_torch_is_imported(exported: Path, tmp_path: Path) -> None:
    loads = ""
    for name, strategies in {
        "depth 1": ("viterbi", "joint-viterbi", "lookahead", "greedy", "sample", "mbr"),
        "dag": ("viterbi", "sample"),
        "ctc": ("greedy", "beam", "sample"),
        "slots": ("greedy:lengths=3", "sample"),
        "autoregressive": ("beam", "greedy", "sample"),
    }.items():
        place = tmp_path / "exported" / name
        export_onnx(save_model(tmp_path / name, name), place)
        for strategy in strategies:
            options = f"TranslateOptions(strategy={strategy!r})"
            loads += f"assert Translator.load({str(place)!r}, options={options})('w1 w2').score < 0\n"
    program = (
        "import sys\n"
        "from pcfgnat.translator import TranslateOptions, Translator\n"
        "from pcfgnat.cli import main\n"
        f"{loads}"
        f"verifier = {str(tmp_path / 'exported' / 'autoregressive')!r}\n"
        f"pair = Translator.load({str(exported)!r}, verifier=verifier)\n"
        "assert pair('w1 w2').verification is not None\n"
        f"beam = ['translate', '--model', {str(tmp_path / 'exported' / 'ctc')!r}, '--decode', 'beam', 'w3']\n"
        "assert main(beam) == 0\n"
        f"assert main(['translate', '--model', {str(exported)!r}, '--tree', 'w3 w4']) == 0\n"
        "assert main(['translate', 'Hello.']) == 0\n"
        "print(sorted({'torch', 'onnx'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_onnxruntime(exported: Path) -> None:
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "hidden = lambda name, *more: None if name == 'onnxruntime' else find(name, *more)\n"
        "importlib.util.find_spec = hidden\n"
        "sys.modules['onnxruntime'] = None\n"
        "from pcfgnat.cli import main\n"
        f"code = main(['translate', '--model', {str(exported)!r}, 'w1'])\n"
        f"sys.exit(code + main(['translate', '--model', {str(exported.parent)!r}, 'w1']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2  # only the first one failed: the other ran on torch
    assert "is an exported model, which needs onnxruntime: pip install 'pcfgnat[onnx]'" in done.stderr


def test_a_checkpoint_runs_on_the_export_inside_it(exported: Path) -> None:
    checkpoint = exported.parent
    assert isinstance(Translator.load(checkpoint).runtime, OnnxRuntime)
    assert isinstance(Translator.load(exported).runtime, OnnxRuntime)
    assert not isinstance(Translator.load(checkpoint, runtime="torch").runtime, OnnxRuntime)
    for strategy in Translator.load(checkpoint, runtime="torch").strategies:  # every one runs on both
        options = TranslateOptions(strategy=strategy)
        assert isinstance(Translator.load(checkpoint, options=options).runtime, OnnxRuntime)
    with pytest.raises(CheckpointError, match="it must run on cpu, got torch"):
        Translator.load(exported, runtime="torch")
    with pytest.raises(CheckpointError, match="it must run on cpu, got cuda"):
        Translator.load(exported, "cuda")
    save_model(checkpoint.parent / "bare", "depth 1")
    with pytest.raises(CheckpointError, match="must be an exported model or have one in"):
        Translator.load(checkpoint.parent / "bare", runtime="onnx")
    assert describe_model(exported).network == describe_model(checkpoint).network
    assert describe_model(exported).network_name == "pcfg"


def test_an_export_of_other_weights_is_refused(exported: Path) -> None:
    moved = exported.parent.parent / "moved"
    exported.rename(moved)
    save_model(exported.parent, "depth 0")
    moved.rename(exported)
    with pytest.raises(CheckpointError, match=r"was exported from other weights than .*: export again"):
        Translator.load(exported.parent)


@pytest.mark.parametrize("name", ["network.onnx", "tables/tokens.npy", "tokenizer/vocabulary.txt"])
def test_damage_is_found(exported: Path, name: str) -> None:
    path = exported / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged: its sha256 must be"):
        Translator.load(exported)
    path.write_bytes(content[:10])
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged: its sha256 must be"):
        Translator.load(exported)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"cannot read .*{path.name}: No such file"):
        Translator.load(exported)


def test_metadata_must_not_point_elsewhere(exported: Path) -> None:
    path = exported / "exported.toml"
    path.write_text(path.read_text().replace('"network.onnx"', '"../../network.onnx"'))
    with pytest.raises(CheckpointError, match=r"must name files below it, got '../../network\.onnx'"):
        Translator.load(exported)
    path.write_text("format = 2\n")
    with pytest.raises(CheckpointError, match=r"exported\.toml: missing: version"):
        Translator.load(exported)


def test_nothing_else_is_replaced(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"must not exist, be empty or have a exported\.toml to be"):
        export_onnx(exported.parent, tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.txt").exists()
    before = (exported / "exported.toml").read_bytes()
    export_onnx(exported.parent, exported)
    assert (exported / "exported.toml").read_bytes() == before
    assert not list(exported.parent.glob(".*"))


def test_the_shortlist_is_used_if_it_costs_little(tmp_path: Path) -> None:
    save_model(tmp_path / "model", "depth 1")
    few = Shortlist(np.array([7], np.uint32), np.zeros(45, np.int64), np.zeros(0, np.uint32))
    export_onnx(tmp_path / "model", tmp_path / "out", ExportSettings(shortlist=few))
    exact = Translator.load(tmp_path / "out")("w1 w9 w17 w5").pieces
    record_shortlist(tmp_path / "out", ShortlistFacts(bleu_lost=0.11, sentences=9, tokens=1.0))
    assert Translator.load(tmp_path / "out")("w1 w9 w17 w5").pieces == exact
    record_shortlist(tmp_path / "out", ShortlistFacts(bleu_lost=0.1, sentences=9, tokens=1.0))
    short = Translator.load(tmp_path / "out")("w1 w9 w17 w5").pieces
    assert set(short) <= {"w1", "w9", "w17", "w5", "w3"}
    assert short != exact
    wanted = ExportedOptions(exact=True)
    assert Translator.load(tmp_path / "out", onnx=wanted)("w1 w9 w17 w5").pieces == exact


def test_info_says_what_it_is(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(exported), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["network"], facts["precision"], facts["longest source"]) == ("pcfg", "float32", 24)
    shutil.rmtree(exported / "tables")
    assert main(["info", str(exported)]) == 2
    assert "cannot read" in capsys.readouterr().err
