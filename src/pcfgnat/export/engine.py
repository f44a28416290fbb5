"""From a checkpoint to a directory that the engine loads."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pcfgnat import __version__
from pcfgnat.checkpoints.checkpoint import Checkpoint, CheckpointError
from pcfgnat.checkpoints.metadata import Description, model_card, replaced, sha256_of
from pcfgnat.config import dump_toml, load_config, to_dict
from pcfgnat.export.graph import quantise
from pcfgnat.export.links import LinkGraph, add_rules, add_transitions
from pcfgnat.export.network import Network, Weights
from pcfgnat.export.output import exact_output, selected_output
from pcfgnat.networks import PCFG, SPECIAL_TOKENS, Collapsing, DirectedAcyclic
from pcfgnat.runtimes.onnx.description import (
    CARD,
    DESCRIPTION,
    EXACT,
    NETWORK,
    SELECTED,
    START,
    TABLES,
    TOKENIZER,
    EngineDescription,
    Shape,
    ShortlistFacts,
)
from pcfgnat.runtimes.onnx.output import SPECIAL
from pcfgnat.storage.files import write_atomically
from pcfgnat.text.shortlist import SHORTLIST, Shortlist

Exportable = PCFG | DirectedAcyclic | Collapsing


@dataclass(frozen=True)
class ExportSettings:
    """What to write.

    int8:      weights in 8 bits, activations too while it runs
    shortlist: target types that a source makes likely; without it all are looked at, always. It is used by
               default once `record_shortlist` has said that it costs next to nothing
    """

    int8: bool = False
    shortlist: Shortlist | None = None


def export_engine(checkpoint: Path | str, output: Path | str, settings: ExportSettings | None = None) -> None:
    """Write a one-pass model as the engine runs it, whole or not at all; an exported model is replaced."""
    settings = settings or ExportSettings()
    opened = Checkpoint.open(checkpoint)
    model = opened.model()
    if not isinstance(model, Exportable):
        known, found = "pcfg, dag or ctc", opened.description.model
        raise CheckpointError(f"the engine runs {known} models, but {checkpoint} is of kind {found}")
    if settings.shortlist is not None and settings.shortlist.vocabulary != opened.tokenizer.vocabulary_size:
        found = f"{settings.shortlist.vocabulary} of the shortlist"
        raise CheckpointError(f"vocabulary must be {opened.tokenizer.vocabulary_size}, got {found}")
    weights = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    description = _described(opened.description, model, settings)
    with replaced(Path(output), DESCRIPTION) as directory:
        (directory / TABLES).mkdir()
        tables = _network(model, weights, directory, settings.int8)
        tables |= _embeddings(model, weights)
        for name, table in tables.items():
            _save(directory, name, table.astype(np.float16) if settings.int8 else table)
        _output(weights["embeddings.tokens.weight"], directory, settings.int8)
        opened.tokenizer.save(directory / TOKENIZER)
        if settings.shortlist is not None:
            settings.shortlist.save(directory / SHORTLIST)
        card = model_card(opened.description, sum(map(np.size, weights.values())), Path(output).name)
        (directory / CARD).write_text(card, encoding="utf-8")
        paths = sorted(path for path in directory.rglob("*") if path.is_file())
        files = {path.relative_to(directory).as_posix(): sha256_of(path) for path in paths}
        complete = to_dict(replace(description, files=files))
        (directory / DESCRIPTION).write_text(dump_toml(complete), encoding="utf-8")


def _described(origin: Description, model: Exportable, settings: ExportSettings) -> EngineDescription:
    shape = Shape(
        width=model.config.transformer.width,
        max_source_length=model.max_source_length,
        upsampling=model.config.upsampling,
        prefix_depth=model.config.prefix_depth if isinstance(model, PCFG) else 0,
        copy_input=model.config.copy_input,
    )
    return EngineDescription(
        format=1,
        version=__version__,
        model=origin.model,  # type: ignore[arg-type]
        vocabulary=origin.vocabulary,
        precision="int8" if settings.int8 else "float32",
        origin_sha256=origin.weights_sha256,
        shape=shape,
        files={},
        config=origin.config,
        search=origin.search,
        languages=origin.languages,
        card=origin.card,
        training=origin.training,
    )


def _network(model: Exportable, weights: Weights, directory: Path, int8: bool) -> dict[str, np.ndarray]:
    """Write the network, in two parts if it can be cut, and return the tables that it reads."""
    transformer = model.config.transformer
    network = Network(transformer, weights, int8)
    graph, states = network.graph, network.states()
    tables: dict[str, np.ndarray] = {}
    if isinstance(model, PCFG):
        links = LinkGraph(graph, model.config.rules, transformer.width, weights, "rules.links")
        longest = model.config.upsampling * transformer.max_positions + 1
        tables = add_rules(links, states, model.config.prefix_depth, longest)
    elif isinstance(model, DirectedAcyclic):
        links = LinkGraph(graph, model.config.transitions, transformer.width, weights, "links")
        tables = add_transitions(links, states, model.embeddings.target_positions.limit)
    graph.output(states, "states")
    graph.save(directory / NETWORK)
    if not network.copies:
        start = Network(transformer, weights, int8)
        start.start()
        start.graph.save(directory / START)
    return tables


def _embeddings(model: Exportable, weights: Weights) -> dict[str, np.ndarray]:
    """Return positions, and what a canvas holds before anything is known: bos, blanks and eos."""
    tokens = weights["embeddings.tokens.weight"]
    held = [SPECIAL_TOKENS.bos, SPECIAL_TOKENS.unk, SPECIAL_TOKENS.eos]
    tables = {
        "source_positions": weights["embeddings.source_positions.weight"],
        "canvas_positions": weights["embeddings.target_positions.weight"],
        "canvas_tokens": tokens[held] * np.float32(model.embeddings.tokens.scale),
    }
    if (source := weights.get("embeddings.source_tokens.weight")) is not None:
        tables["source_tokens"] = source
    return tables


def _output(tokens: np.ndarray, directory: Path, int8: bool) -> None:
    """Write the output matrix, which is the target's embeddings, and the graphs that use it."""
    scale = None
    special = tokens[:SPECIAL]
    if int8:
        tokens, scale = quantise(tokens)
        special = tokens[:SPECIAL] * scale[:SPECIAL, None]
        _save(directory, "token_scales", scale)
    path = _save(directory, "tokens", tokens)
    offset = path.stat().st_size - tokens.nbytes
    rows, columns = tokens.shape
    place = Path(TABLES) / path.name
    exact_output(place, offset, (rows, columns), special, scale).save(directory / EXACT)
    selected_output(columns, special, int8).save(directory / SELECTED)


def _save(directory: Path, name: str, table: np.ndarray) -> Path:
    path = directory / TABLES / f"{name}.npy"
    np.save(path, np.ascontiguousarray(table), allow_pickle=False)
    return path


def record_shortlist(directory: Path, facts: ShortlistFacts) -> None:
    """Add to an exported model what its shortlist was found to cost."""
    path = directory / DESCRIPTION
    description = replace(load_config(EngineDescription, path), shortlist=facts)
    write_atomically(path, dump_toml(to_dict(description)).encode())
