"""Which strategies decode which of the small networks."""

STRUCTURED = ("viterbi", "joint-viterbi", "lookahead", "greedy", "sample", "mbr")
STRATEGIES: dict[str, tuple[str, ...]] = {
    "pcfg": STRUCTURED,
    "pcfg of depth 2": STRUCTURED,
    "dag": STRUCTURED,
    "ctc": ("greedy", "beam", "sample"),
    "slots": ("greedy", "sample"),
    "autoregressive": ("beam", "greedy", "sample"),
}
PAIRS = [(name, strategy) for name, known in STRATEGIES.items() for strategy in known]
SEARCHES = [
    *[pair for pair in PAIRS if pair[1] != "sample"],
    *[
        ("ctc", "beam:size=3"),
        ("slots", "greedy:lengths=3"),
        ("autoregressive", "beam:size=2"),
        ("pcfg", "mbr:size=5,order=2"),
    ],
]
# those that compare all lengths
BY_LENGTH = [pair for pair in PAIRS if pair[1] in ("viterbi", "joint-viterbi")]
