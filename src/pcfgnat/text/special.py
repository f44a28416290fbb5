"""The ids of the special tokens, the same in every vocabulary."""

from pcfgnat.grammar.search import SpecialTokens

SPECIAL_TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3)
