"""Weights of 8 bits by name, in one file that all runtimes read: `weights.safetensors`.

A product's numbers lie as `[in, out]`, with a scale and an offset for each column. What is always computed
together is one product: keys and values of all decoder layers, vectors of nodes in several roles. Graphs of
onnxruntime that hold the same numbers refer to the file instead.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from safetensors.numpy import save as to_safetensors

from pcfgnat.export.graph import Graph, quantise
from pcfgnat.export.links import GATE, LinkGraph
from pcfgnat.export.network import Weights
from pcfgnat.networks import AutoregressiveNetwork, DAGNetwork, HybridNetwork, PCFGNetwork
from pcfgnat.networks.base import Network
from pcfgnat.networks.pcfg import LEFT, PARENT, RIGHT
from pcfgnat.runtimes.exported import WEIGHTS
from pcfgnat.runtimes.native import names

Tensors = dict[str, np.ndarray]


def write_weights(network: Network, directory: Path) -> None:
    """Write the weights of a network that kernels run, and let the graphs beside them refer to them."""
    tensors = native_tensors(network)
    if not tensors:
        return
    path = directory / WEIGHTS
    path.write_bytes(to_safetensors(tensors))
    places = {_digest(tensors[name].tobytes()): place for name, place in _places(path) if name in tensors}
    for graph in sorted(directory.glob("*.onnx")):
        _refer(graph, path.name, places)


def _places(path: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield where tensors begin in a file, and how many bytes they have."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            yield name, (8 + size + first, last - first)


def _refer(path: Path, weights: str, places: dict[bytes, tuple[int, int]]) -> None:
    """Replace the constants of a graph that lie in another file by references to it."""
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        place = places.get(_digest(tensor.raw_data)) if tensor.data_type == TensorProto.INT8 else None
        if place is None:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.DataLocation.EXTERNAL
        for key, value in zip(("location", "offset", "length"), (weights, *place), strict=True):
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def native_tensors(network: Network) -> Tensors:
    """Return all that kernels need of a network; nothing if there are no kernels for it."""
    if isinstance(network, HybridNetwork):
        reader = _decoder(network.reader)
        return _tensors(network.drafter) | {names.READER + name: tensor for name, tensor in reader.items()}
    if isinstance(network, PCFGNetwork | DAGNetwork | AutoregressiveNetwork):
        return _tensors(network)
    return {}


def _tensors(network: PCFGNetwork | DAGNetwork | AutoregressiveNetwork) -> Tensors:
    weights, config = _weights(network), network.config.transformer
    found = _decoder(network) | _linears(weights, names.encoder_linears(config.layers_encoder))
    found |= _norms(weights, names.encoder_norms(config.layers_encoder, config.pre_norm))
    if isinstance(network, PCFGNetwork):
        links = LinkGraph(Graph(True), network.config.rules, config.width, weights, "rules.links")
        inner = (PARENT, RIGHT, GATE) if network.config.prefix_depth > 1 else ()
        found |= _roles(names.ON_CHAIN, links, (PARENT, RIGHT, GATE))
        found |= _roles(names.OFF_CHAIN, links, (LEFT, *inner))
    elif isinstance(network, DAGNetwork):
        links = LinkGraph(Graph(True), network.config.transitions, config.width, weights, "links")
        found |= _roles(names.LINKS, links, (0, 1, GATE))
    return found


def _decoder(network: PCFGNetwork | DAGNetwork | AutoregressiveNetwork) -> Tensors:
    weights, config = _weights(network), network.config.transformer
    layers = config.layers_decoder
    found = _linears(weights, names.decoder_linears(layers))
    found |= _norms(weights, names.decoder_norms(layers, config.pre_norm))
    parts = [f"decoder.layers.{i}.cross_attention.project" for i in range(layers)]
    together = [np.concatenate([weights[part + kind] for part in parts]) for kind in (".weight", ".bias")]
    found |= _linear(names.KEYS_VALUES, *together)
    return found | _linears(weights, [names.COPY] if f"{names.COPY}.weight" in weights else [])


def _weights(network: Network) -> Weights:
    return {name: tensor.float().numpy() for name, tensor in network.state_dict().items()}


def _linears(weights: Weights, wanted: Iterable[str]) -> Tensors:
    found: Tensors = {}
    for name in wanted:
        found |= _linear(name, weights[f"{name}.weight"], weights[f"{name}.bias"])
    return found


def _linear(name: str, weight: np.ndarray, offset: np.ndarray) -> Tensors:
    values, scale = quantise(weight)
    values = np.ascontiguousarray(values.T)
    return {name: values, name + names.SCALE: scale, name + names.OFFSET: offset.astype(np.float32)}


def _roles(name: str, links: LinkGraph, roles: Sequence[int]) -> Tensors:
    """Return vectors of nodes as far as they follow from states; what positions add is in tables."""
    weight = links.projection(roles, 0).of_states
    return _linear(name, weight, np.zeros(len(weight)))


def _norms(weights: Weights, wanted: Iterable[str]) -> Tensors:
    parts = [name + part for name in wanted for part in names.NORM]
    return {part: weights[part].astype(np.float32) for part in parts}
