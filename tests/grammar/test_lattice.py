import math
import subprocess
import sys

import numpy as np
import pytest

from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.structures import SupportTree
from tests.support.grammars import oracle, random_grammar
from tests.support.lattices import dag_oracle, random_dag
from tests.support.oracle import derivations
from tests.support.oracle_lattices import paths


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
    eight = np.zeros((8, 2))
    LatticeScores("pcfg", 1, eight.astype(int), eight, chain, prefix)
    for wrong in (2, 7, 9):
        states = np.zeros((wrong, 2))
        with pytest.raises(ValueError, match=f"a pcfg of 4 chain nodes has 8 states, got {wrong}"):
            LatticeScores("pcfg", 1, states.astype(int), states, chain, prefix)
    for lefts, rules in ((1, 0), (3, 0), (2, 1)):
        message = f"depth 1 have 2 left children and 0 rules, got {lefts} and {rules}"
        with pytest.raises(ValueError, match=message):
            LatticeScores("pcfg", 1, eight.astype(int), eight, np.zeros((4, lefts, 4)), np.zeros((4, rules)))


def test_a_dag_has_a_state_for_each_vertex() -> None:
    lattice = random_dag([5], seed=3)
    ids, chain = np.zeros((5, 2), int), lattice.transitions[0].numpy()[:, None]
    scores = LatticeScores("dag", 0, ids, np.zeros((5, 2)), chain, np.zeros((5, 0)))
    assert scores.first_symbol == 1
    expected = [0.0] * 6  # vertex i is symbol i + 1
    for path in paths(5):
        for vertex in path:
            expected[vertex + 1] += math.exp(dag_oracle(lattice, 0).path_score(path))
    assert scores.reach() == pytest.approx(np.array(expected), abs=1e-12)
    with pytest.raises(ValueError, match="a dag of 5 chain nodes has 5 states, got 4"):
        LatticeScores("dag", 0, ids[:4], np.zeros((4, 2)), chain, np.zeros((5, 0)))


def test_it_needs_no_torch() -> None:
    code = "import sys, pcfgnat.grammar.lattice, pcfgnat.draw; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
