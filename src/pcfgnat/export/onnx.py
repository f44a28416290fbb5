"""From a checkpoint to a directory that onnxruntime runs."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pcfgnat import __version__
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, Metadata, model_card, sha256_of
from pcfgnat.config import to_dict
from pcfgnat.export.correcting import TwoViewGraph, mapped_tables
from pcfgnat.export.disentangled import DisentangledGraph
from pcfgnat.export.graph import quantise
from pcfgnat.export.hybrid import write_hybrid
from pcfgnat.export.network import NetworkGraph, Weights
from pcfgnat.export.one_pass import Tables, write_one_pass
from pcfgnat.export.output import exact_output, selected_output
from pcfgnat.export.ranges import activation_ranges, named_weights
from pcfgnat.export.stepwise import StepwiseGraph
from pcfgnat.export.weights import write_weights
from pcfgnat.networks import (
    AutoregressiveNetwork,
    CanvasNetwork,
    CMLMCNetwork,
    DiscoNetwork,
    HybridNetwork,
    ImputerNetwork,
    PredictedLengthNetwork,
    SlotsNetwork,
)
from pcfgnat.runtimes.exported import (
    CARD,
    DECODER,
    ENCODER,
    EXACT,
    METADATA,
    SELECTED,
    TABLES,
    TOKENIZER,
)
from pcfgnat.runtimes.onnx import ONNX_RUNTIMES, ExportedMetadata, Shape, ShortlistFacts
from pcfgnat.runtimes.output import SPECIAL
from pcfgnat.storage.files import StorageError, replaced_directory, write_atomically
from pcfgnat.storage.toml import dump_toml, load_config
from pcfgnat.text.shortlist import SHORTLIST, Shortlist
from pcfgnat.text.special import SPECIAL_TOKENS

Exportable = CanvasNetwork | AutoregressiveNetwork | HybridNetwork


@dataclass(frozen=True)
class ExportSettings:
    """What to write.

    int8:      weights in 8 bits, activations too while it runs
    shortlist: target types that a source makes likely; without it all are looked at, always. It is used by
               default once `record_shortlist` has said that it costs next to nothing
    """

    int8: bool = False
    shortlist: Shortlist | None = None


def export_onnx(checkpoint: Path | str, output: Path | str, settings: ExportSettings | None = None) -> None:
    """Write a network for onnxruntime, whole or not at all; an exported one is replaced."""
    settings = settings or ExportSettings()
    opened = Checkpoint.open(checkpoint)
    network = opened.network()
    if opened.metadata.network_name not in ONNX_RUNTIMES or not isinstance(network, Exportable):
        known, found = ", ".join(ONNX_RUNTIMES), opened.metadata.network_name
        raise CheckpointError(f"onnxruntime runs {known} networks, but {checkpoint} is of kind {found}")
    if settings.shortlist is not None and settings.shortlist.vocabulary != opened.tokenizer.vocabulary_size:
        found = f"{settings.shortlist.vocabulary} of the shortlist"
        raise CheckpointError(f"vocabulary must be {opened.tokenizer.vocabulary_size}, got {found}")
    try:
        with replaced_directory(Path(output), METADATA) as directory:
            _write(directory, opened, network, settings, Path(output).name)
    except StorageError as error:
        raise CheckpointError(str(error)) from error


def _write(
    directory: Path, opened: Checkpoint, network: Exportable, settings: ExportSettings, name: str
) -> None:
    card = model_card(opened.metadata, sum(weight.numel() for weight in network.parameters()), name)
    ranges = activation_ranges(network) if settings.int8 else {}
    (directory / TABLES).mkdir()
    if isinstance(network, HybridNetwork):
        weights, tables = write_hybrid(network, ranges, directory, settings.int8)
    else:
        weights = named_weights(network, ranges)
        tables = _graphs(network, weights, directory, settings.int8)
    tables |= _embeddings(network, weights)
    for key, table in tables.items():
        _save(directory, key, table.astype(np.float16) if settings.int8 else table)
    _output(weights, directory, settings.int8)
    if settings.int8:
        write_weights(network, directory)
    opened.tokenizer.save(directory / TOKENIZER)
    if settings.shortlist is not None:
        settings.shortlist.save(directory / SHORTLIST)
    (directory / CARD).write_text(card, encoding="utf-8")
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {path.relative_to(directory).as_posix(): sha256_of(path) for path in paths}
    metadata = replace(_described(opened.metadata, network, settings), files=files)
    (directory / METADATA).write_text(dump_toml(to_dict(metadata)), encoding="utf-8")


def _described(origin: Metadata, network: Exportable, settings: ExportSettings) -> ExportedMetadata:
    config = network.config
    shape = Shape(
        width=config.transformer.width,
        max_source_length=network.max_source_length,
        max_canvas_length=network.embeddings.target_positions.limit,
        copy_input=isinstance(network, CanvasNetwork | HybridNetwork) and config.copy_input,
        geometry=None
        if isinstance(network, PredictedLengthNetwork | AutoregressiveNetwork)
        else config.geometry,
        blank=isinstance(network, SlotsNetwork) and network.config.blank,
    )
    return ExportedMetadata(
        format=2,
        version=__version__,
        vocabulary=origin.vocabulary,
        precision="int8" if settings.int8 else "float32",
        origin_sha256=origin.weights_sha256,
        shape=shape,
        files={},
        network=origin.network,
        decoding=origin.decoding,
        languages=origin.languages,
        card=origin.card,
        training=origin.training,
    )


def _graphs(
    network: CanvasNetwork | AutoregressiveNetwork, weights: Weights, directory: Path, int8: bool
) -> Tables:
    """Write the network and return the tables that it reads: cut in two where a loop needs that."""
    if isinstance(network, PredictedLengthNetwork | ImputerNetwork):
        kind = _graph_kind(network)
        encoder, decoder = (kind(network.config.transformer, weights, int8) for _ in range(2))
        encoder.encode()
        encoder.graph.save(directory / ENCODER)
        decoder.decode()
        decoder.graph.save(directory / DECODER)
        return {}
    if isinstance(network, AutoregressiveNetwork):
        reader, writer = (StepwiseGraph(network.config.transformer, weights, int8) for _ in range(2))
        reader.encode_source()
        reader.graph.save(directory / ENCODER)
        writer.decode_tokens()
        writer.graph.save(directory / DECODER)
        return {}
    return write_one_pass(network, weights, directory, int8)


def _graph_kind(network: CanvasNetwork) -> type[NetworkGraph]:
    """Return what builds the encoder and the decoder of a network that is cut in two."""
    if isinstance(network, DiscoNetwork):
        return DisentangledGraph
    return TwoViewGraph if isinstance(network, CMLMCNetwork) else NetworkGraph


def _embeddings(network: Exportable, weights: Weights) -> Tables:
    """Return positions, and what a canvas holds before anything is known: bos, blanks and eos."""
    if isinstance(network, CMLMCNetwork):
        return mapped_tables(weights, network.embeddings.tokens.scale)
    tokens = weights["embeddings.tokens.weight"]
    held = [SPECIAL_TOKENS.bos, SPECIAL_TOKENS.unk, SPECIAL_TOKENS.eos]
    tables = {
        "source_positions": weights["embeddings.source_positions.weight"],
        "canvas_positions": weights["embeddings.target_positions.weight"],
        "canvas_tokens": tokens[held] * np.float32(network.embeddings.tokens.scale),
    }
    if (source := weights.get("embeddings.source_tokens.weight")) is not None:
        tables["source_tokens"] = source
    return tables


def _output(weights: Weights, directory: Path, int8: bool) -> None:
    """Write the output matrix, which is the target's embeddings, and the graphs that use it."""
    tokens, scale = weights["embeddings.tokens.weight"], None
    known = weights.get("decoder.norm.range")
    bound = None if known is None else (float(known[0]), float(known[1]))
    special = tokens[:SPECIAL]
    if int8:
        tokens, scale = quantise(tokens)
        special = tokens[:SPECIAL] * scale[:SPECIAL, None]
        _save(directory, "token_scales", scale)
    path = _save(directory, "tokens", tokens)
    offset = path.stat().st_size - tokens.nbytes
    rows, columns = tokens.shape
    place = Path(TABLES) / path.name
    exact_output(place, offset, (rows, columns), special, scale, bound).save(directory / EXACT)
    selected_output(columns, special, int8, bound).save(directory / SELECTED)


def _save(directory: Path, name: str, table: np.ndarray) -> Path:
    path = directory / TABLES / f"{name}.npy"
    np.save(path, np.ascontiguousarray(table), allow_pickle=False)
    return path


def record_shortlist(directory: Path, facts: ShortlistFacts) -> None:
    """Add to an exported model what its shortlist was found to cost."""
    path = directory / METADATA
    metadata = replace(load_config(ExportedMetadata, path), shortlist=facts)
    write_atomically(path, dump_toml(to_dict(metadata)).encode())
