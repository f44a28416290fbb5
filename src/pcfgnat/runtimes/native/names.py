"""Names of what `weights.safetensors` holds, in the order in which kernels number them."""

from collections.abc import Iterator

KEYS_VALUES, COPY = "decoder.keys_values", "copy"  # products that all decoder layers share
ON_CHAIN, OFF_CHAIN = "rules.on_chain", "rules.off_chain"  # vectors of a grammar's nodes
LINKS = "links"  # vectors of a graph's vertices
SCALE, OFFSET = ".scale", ".offset"  # of the columns of a product
NORM = (".weight", ".bias")
READER = "reader."  # before the names of the second decoder of a hybrid


def encoder_linears(layers: int) -> Iterator[str]:
    """Yield the products of an encoder."""
    for i in range(layers):
        name = f"encoder.layers.{i}"
        yield f"{name}.self_attention.project"
        yield f"{name}.self_attention.output"
        yield f"{name}.feed_forward.widen"
        yield f"{name}.feed_forward.output"


def encoder_norms(layers: int, pre_norm: bool) -> Iterator[str]:
    """Yield the norms of an encoder."""
    for i in range(layers):
        yield f"encoder.layers.{i}.around_self.norm"
        yield f"encoder.layers.{i}.around_feed.norm"
    if pre_norm:
        yield "encoder.norm"


def decoder_linears(layers: int) -> Iterator[str]:
    """Yield the products of the layers of a decoder."""
    for i in range(layers):
        name = f"decoder.layers.{i}"
        yield f"{name}.self_attention.project"
        yield f"{name}.self_attention.output"
        yield f"{name}.feed_forward.widen"
        yield f"{name}.feed_forward.output"
        yield f"{name}.cross_attention.query"
        yield f"{name}.cross_attention.output"


def decoder_norms(layers: int, pre_norm: bool) -> Iterator[str]:
    """Yield the norms of a decoder."""
    for i in range(layers):
        for part in ("self", "cross", "feed"):
            yield f"decoder.layers.{i}.around_{part}.norm"
    if pre_norm:
        yield "decoder.norm"
