import math
import subprocess
import sys

import numpy as np
import pytest

from pcfgnat.structures import SupportTree
from pcfgnat.structures.lattice import LatticeScores
from tests.grammars import oracle, random_grammar
from tests.oracle import derivations


def scores_of(chain_length: int, depth: int, seed: int = 0) -> LatticeScores:
    grammar = random_grammar(SupportTree(chain_length, depth), seed=seed)
    tables = (grammar.scores.chain[0].numpy(), grammar.scores.prefix[0].numpy())
    states = SupportTree(chain_length, depth).num_nodes
    return LatticeScores("pcfg", depth, np.zeros((states, 1), int), np.zeros((states, 1)), *tables)


@pytest.mark.parametrize(("chain_length", "depth"), [(2, 1), (7, 0), (6, 1), (4, 2), (3, 3)])
def test_reach_is_the_share_of_derivations_that_use_a_node(chain_length: int, depth: int) -> None:
    support = SupportTree(chain_length, depth)
    grammar = oracle(random_grammar(support, seed=3), 0)
    expected = [0.0] * support.num_nodes
    for derivation in derivations(support):
        for node in derivation.nodes:
            expected[node] += math.exp(grammar.structure_score(derivation))
    assert scores_of(chain_length, depth, seed=3).reach() == pytest.approx(np.array(expected), abs=1e-12)


def test_sizes_must_fit_each_other() -> None:
    chain, prefix = np.zeros((4, 2, 4)), np.zeros((4, 0))
    two, eight = (np.zeros((count, 2)) for count in (2, 8))
    LatticeScores("pcfg", 1, eight.astype(int), eight, chain, prefix)
    with pytest.raises(ValueError, match="a pcfg of 4 chain nodes has 8 states, got 2"):
        LatticeScores("pcfg", 1, two.astype(int), two, chain, prefix)
    with pytest.raises(ValueError, match="depth 1 have 2 left children and 0 rules, got 1 and 0"):
        LatticeScores("pcfg", 1, eight.astype(int), eight, chain[:, :1], prefix)


def test_it_needs_no_torch() -> None:
    code = "import sys, pcfgnat.structures.lattice, pcfgnat.draw; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
