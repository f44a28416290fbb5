"""FlowSeq is not exported, and says so in one line."""

from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults
from pcfgnat.export.onnx import export_onnx
from pcfgnat.networks import FlowSeqNetwork
from pcfgnat.text import SubwordTokenizer
from tests.support.zoo import flowseq


def test_networks_of_latents_are_refused(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer("\n".join(f"w{i}" for i in range(8)).encode())
    network = FlowSeqNetwork(flowseq().config, tokenizer.vocabulary_size)
    metadata = describe("flowseq", network.config, tokenizer.vocabulary_size, DecodingDefaults("greedy"))
    save_checkpoint(tmp_path / "model", network, tokenizer, metadata)
    with pytest.raises(CheckpointError, match=r"onnxruntime runs .*, but .* is of kind flowseq"):
        export_onnx(tmp_path / "model", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
