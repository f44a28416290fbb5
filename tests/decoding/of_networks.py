"""Which strategies decode which of the small networks."""

STRUCTURED = ("viterbi", "joint-viterbi", "lookahead", "greedy", "sample", "mbr")
STRATEGIES: dict[str, tuple[str, ...]] = {
    "pcfg": STRUCTURED,
    "pcfg of depth 2": STRUCTURED,
    "dag": STRUCTURED,
    "ctc": ("greedy", "beam", "sample"),
    "slots": ("greedy", "sample", "mask-predict", "update-all"),
    "cmlmc": ("greedy", "sample", "mask-predict", "update-all"),
    "imputer": ("greedy", "beam", "sample", "imputation"),
    "disco": ("greedy", "sample", "mask-predict", "update-all", "easy-first"),
    "autoregressive": ("beam", "greedy", "sample"),
    "flowseq": ("greedy", "sample", "importance"),
    "hybrid": (*STRUCTURED, "beam", "verify", "rescore"),
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
# those whose tokens are not all predicted by one pass over an empty canvas
REFINED = ("mask-predict", "update-all", "easy-first", "imputation")
# those that compare all lengths
BY_LENGTH = [pair for pair in PAIRS if pair[1] in ("viterbi", "joint-viterbi") and pair[0] != "hybrid"]


def has_tree(name: str, strategy: str) -> bool:
    """Whether a translation comes with its derivation; what the reader of a hybrid writes has none."""
    written = name == "hybrid" and strategy in ("greedy", "sample", "beam", "verify")
    return "viterbi" in STRATEGIES[name] and not written
