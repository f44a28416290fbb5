"""What kernels know of a model: an array of addresses and numbers, in this order."""

(
    # stacks of layers
    ENCODER,
    DECODER,
    READER,
    # tokens: rows of signed bytes, three numbers of each as a column, its scale as an input; all as a weight
    VOCABULARY,
    TOKENS,
    ENTRIES,
    TOKEN_SCALES,
    ALL_TOKENS,
    SHORTLIST,
    # what is added to tokens, and what stands on an empty canvas
    SOURCE_POSITIONS,
    CANVAS_POSITIONS,
    READER_POSITIONS,
    CANVAS_TOKENS,
    # weights: keys and values of encoder states for all layers, what is copied of them
    KEYS_VALUES,
    READER_KEYS_VALUES,
    COPY,
    # rules: weights of vectors of nodes, what positions add to these, how they are scored
    ON_CHAIN,
    OFF_CHAIN,
    CHAIN_POSITIONS,
    OTHER_POSITIONS,
    RULE_HEADS,
    GATED,
    BLOCK,
    FIRST_NODE,
    PREFIX_RULES,
    PREFIX_COUNT,
    SIZE,
) = range(27)
