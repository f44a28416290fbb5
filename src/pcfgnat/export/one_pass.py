"""Networks that follow from the source in one pass as a graph: decoder and rules, mostly with the encoder."""

from pathlib import Path

import numpy as np

from pcfgnat.export.links import LinkGraph, add_rules, add_transitions
from pcfgnat.export.network import NetworkGraph, Weights
from pcfgnat.networks import CanvasNetwork, CTCNetwork, DAGNetwork, PCFGNetwork
from pcfgnat.runtimes.exported import NETWORK, START

Tables = dict[str, np.ndarray]


def write_one_pass(
    network: CanvasNetwork, weights: Weights, directory: Path, int8: bool, encoder: bool = True
) -> Tables:
    """Write the graph and return its tables; without the encoder, it reads what another graph encoded."""
    config, transformer = network.config, network.config.transformer
    whole = NetworkGraph(transformer, weights, int8)
    graph, states = whole.graph, whole.states() if encoder else whole.encoded_states()
    tables: Tables = {}
    if isinstance(network, PCFGNetwork):
        links = LinkGraph(graph, config.rules, transformer.width, weights, "rules.links")
        longest = config.geometry.chain_lengths(network.embeddings.target_positions.limit)
        tables = add_rules(links, states, config.prefix_depth, longest)
    elif isinstance(network, DAGNetwork):
        links = LinkGraph(graph, config.transitions, transformer.width, weights, "links")
        tables = add_transitions(links, states, network.embeddings.target_positions.limit)
    else:
        assert isinstance(network, CTCNetwork)
    graph.output(states, "states")
    graph.save(directory / NETWORK)
    if not whole.copies:
        start = NetworkGraph(transformer, weights, int8)
        start.start()
        start.graph.save(directory / START)
    return tables
