"""Lattices of translations, from models to pictures."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.draw import lattice_scene, lattice_svg
from pcfgnat.draw.scene import Scene
from pcfgnat.networks import (
    AutoregressiveConfig,
    AutoregressiveNetwork,
    DAGConfig,
    DAGNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
)
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import Translator
from pcfgnat.translator.lattice import Lattice, lattice_of

WORDS = ["one", "two", "three", "<b>four", "fi@@", "ve", "."]
TOKENIZER = SubwordTokenizer("\n".join(WORDS).encode())
SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=1, width=16, ffn=24, heads=2, dropout=0.0, max_positions=12
)
LINKS = LinkConfig(heads=2)
TEXT = "one two three fi@@ ve ."


def translator(name: str, upsampling: int = 2) -> Translator:
    torch.manual_seed(5)
    vocabulary = TOKENIZER.vocabulary_size
    network: Network
    if name == "dag":
        network = DAGNetwork(DAGConfig(SMALL, upsampling=upsampling, transitions=LINKS), vocabulary)
    elif name == "autoregressive":
        network = AutoregressiveNetwork(AutoregressiveConfig(SMALL), vocabulary)
    else:
        config = PCFGConfig(SMALL, upsampling=upsampling, prefix_depth=2, rules=LINKS)
        network = PCFGNetwork(config, vocabulary)
    for weight in network.parameters():
        weight.data *= 1.5
    return Translator(torch_runtime(network.eval()), TOKENIZER, DecodingDefaults(network.default_strategy))


@pytest.fixture(params=["pcfg", "dag"])
def lattice(request: pytest.FixtureRequest) -> Lattice:
    return lattice_of(translator(request.param), TEXT)


def test_visited_nodes_are_those_of_the_tree(lattice: Lattice) -> None:
    found = translator(lattice.kind)(TEXT)
    assert lattice.text == found.text
    assert found.tree is not None
    visited = [node for node in lattice.nodes if node.visited]
    assert [node.node for node in visited] == list(found.tree.nodes)
    assert tuple(node.word for node in visited) == found.tree.words
    assert [node.node for node in lattice.nodes] == list(range(1, found.tree.support.num_nodes))
    assert [n.node for n in visited if n.main_chain] == [found.tree.nodes[i] for i in found.tree.main_chain]
    assert found.tree.rule_log_probs is not None
    chosen = [[rule for rule in node.rules if rule.chosen] for node in visited]
    children = list(found.tree.children)
    for rules, (left, right) in zip(chosen, children, strict=True):
        nodes = found.tree.nodes
        expected = [] if right is None else [(None if left is None else nodes[left], nodes[right])]
        assert [(rule.left, rule.right) for rule in rules] == expected


def test_probabilities(lattice: Lattice) -> None:
    for node in lattice.nodes:
        assert 0 <= node.reach <= 1
        assert len(node.tokens) == 5
        assert len(node.rules) <= 6
        assert sum(token.probability for token in node.tokens) <= 1 + 1e-6
        assert sum(rule.probability for rule in node.rules) <= 1 + 1e-6
        chances = [token.probability for token in node.tokens]
        assert chances == sorted(chances, reverse=True)
        assert not any(rule.chosen for rule in node.rules) or node.visited


def test_lattices_are_plain_data(lattice: Lattice) -> None:
    data = json.loads(lattice.to_json())
    assert data == json.loads(json.dumps(lattice.to_dict()))
    assert set(data) == {"source", "text", "kind", "prefix_depth", "nodes"}
    assert set(data["nodes"][0]) == {"node", "main_chain", "visited", "word", "reach", "tokens", "rules"}


def drawn(lattice: Lattice, page: int = 2000) -> Scene:
    return lattice_scene(lattice.to_dict(), page=page)


@pytest.mark.parametrize("page", [300, 900, 5000])
def test_every_node_is_drawn_in_order(lattice: Lattice, page: int) -> None:
    scene = drawn(lattice, page)
    assert [box.node for box in scene.boxes] == [node.node for node in lattice.nodes]
    tops = sorted({box.y for box, node in zip(scene.boxes, lattice.nodes, strict=True) if node.main_chain})
    read = sorted(scene.boxes, key=lambda box: (sum(box.y >= top for top in tops), box.x))
    assert [box.node for box in read] == [node.node for node in lattice.nodes]
    assert len(tops) == 1 or page < 5000
    assert all(box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= scene.width for box in scene.boxes)
    assert all(
        0 <= y <= scene.height for stroke in scene.strokes for _, y in (stroke.points[0], stroke.points[-1])
    )


def test_the_path_is_strong_and_the_rest_is_faint(lattice: Lattice) -> None:
    scene = drawn(lattice)
    roles = {box.node: box.role for box in scene.boxes}
    for node in lattice.nodes:
        assert (roles[node.node] == "unvisited") == (not node.visited)
    taken = {stroke.ends for stroke in scene.strokes if stroke.role != "unvisited"}
    rules = [(node.node, rule) for node in lattice.nodes for rule in node.rules if rule.chosen]
    assert taken == {
        (n, child) for n, rule in rules for child in (rule.left, rule.right) if child is not None
    }
    used = min(stroke.strength for stroke in scene.strokes if stroke.role != "unvisited")
    other = max((stroke.strength for stroke in scene.strokes if stroke.role == "unvisited"), default=0.0)
    assert used >= 0.35
    assert other <= 0.6


def test_alternatives_show_up_under_the_mouse(lattice: Lattice) -> None:
    unvisited = next(node for node in lattice.nodes if not node.visited and node.rules)
    title = next(box.title for box in drawn(lattice).boxes if box.node == unvisited.node)
    assert "not used" in title
    assert all(f"token {token.word} " in title for token in unvisited.tokens)
    assert title.count("\nrule ") == len(unvisited.rules)


def test_lattices_are_escaped(lattice: Lattice) -> None:
    node = replace(lattice.nodes[2], word="<script>&")
    bad = replace(lattice, nodes=(*lattice.nodes[:2], node, *lattice.nodes[3:]))
    root = ElementTree.fromstring(lattice_svg(bad.to_dict(), caption="</svg><script>"))
    assert not [element for element in root.iter() if "script" in element.tag]


def test_what_has_no_lattice() -> None:
    with pytest.raises(ValueError, match="needs a network whose nodes are joined by rules: pcfg or dag"):
        lattice_of(translator("autoregressive"), TEXT)
    with pytest.raises(ValueError, match="needs a text, got an empty one"):
        lattice_of(translator("dag"), " ")
    with pytest.raises(ValueError, match="of one piece, got one split into"):
        lattice_of(translator("dag"), "one two . " * 10)
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        lattice_of(translator("dag"), TEXT, top=0)
    with pytest.raises(ValueError, match="a lattice must have nodes"):
        lattice_scene({"nodes": [], "prefix_depth": 1})
