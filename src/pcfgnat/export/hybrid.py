"""A hybrid network as graphs: the encoder once, and a decoder for each head."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pcfgnat.export.graph import Range
from pcfgnat.export.network import NetworkGraph, Weights
from pcfgnat.export.one_pass import Tables, write_one_pass
from pcfgnat.export.ranges import named_weights
from pcfgnat.export.stepwise import StepwiseGraph
from pcfgnat.networks import HybridNetwork
from pcfgnat.runtimes.exported import DECODER, ENCODER

LAST_RANGE = "decoder.norm.range"


def write_hybrid(
    network: HybridNetwork, ranges: Mapping[str, Range], directory: Path, int8: bool
) -> tuple[Weights, Tables]:
    """Write all graphs; return weights for what both heads share, and the tables that they read.

    `encoder.onnx` gives out keys and values of both decoders; `network.onnx` is the drafter's, `decoder.onnx`
    the reader's.
    """
    drafter, reader = network.drafter, network.reader
    drafts = named_weights(drafter, _own(ranges, "drafter"))
    reads = named_weights(reader, _own(ranges, "reader"))
    encoder = StepwiseGraph(reader.config.transformer, reads, int8)
    memory, _ = encoder.memory()
    encoder.graph.output(encoder.keys_values(memory), "keys_values")
    other = NetworkGraph(drafter.config.transformer, drafts, int8, encoder.graph)
    encoder.graph.output(other.keys_values(memory), "draft_keys_values")
    if other.copies:
        encoder.graph.output(memory, "memory")
    encoder.graph.save(directory / ENCODER)
    tables = write_one_pass(drafter, drafts, directory, int8, encoder=False)
    writer = StepwiseGraph(reader.config.transformer, reads, int8)
    writer.decode_tokens()
    writer.graph.save(directory / DECODER)
    tables["reader_positions"] = reads["embeddings.target_positions.weight"]
    if LAST_RANGE in drafts:  # of states of either head
        both = np.stack([drafts[LAST_RANGE], reads[LAST_RANGE]])
        drafts = {**drafts, LAST_RANGE: np.array([both[:, 0].min(), both[:, 1].max()])}
    return drafts, tables


def _own(ranges: Mapping[str, Range], part: str) -> dict[str, Range]:
    """Return the ranges of a part of the network under that part's own names."""
    return {name.removeprefix(f"{part}."): bound for name, bound in ranges.items()}
