"""Which exported networks the kernels run, and what they have to know of them."""

from dataclasses import dataclass
from typing import Any

from pcfgnat.runtimes.exported import TABLES, WEIGHTS, ExportedMetadata
from pcfgnat.runtimes.native import names

NETWORKS = ("pcfg", "dag", "autoregressive", "hybrid")  # which kernels exist for
WHOLE, HEAD = 32, 16  # widths, and those of heads, must be multiples of these: whole vectors


@dataclass(frozen=True)
class Size:
    """A Transformer, and how its rules are scored: heads, and whether a gate mixes them."""

    width: int
    ffn: int
    heads: int
    pre_norm: bool
    is_gelu: bool
    layers_encoder: int
    layers_decoder: int
    layers_reader: int
    rule_heads: int
    gated: bool

    @classmethod
    def of(cls, metadata: ExportedMetadata) -> "Size":
        """Read it from what a network's settings were."""
        network = metadata.network
        transformer: dict[str, Any] = network["transformer"]
        rules: dict[str, Any] = network.get("rules") or network.get("transitions") or {}
        heads = int(rules.get("heads", 1))
        return cls(
            width=int(transformer["width"]),
            ffn=int(transformer["ffn"]),
            heads=int(transformer["heads"]),
            pre_norm=bool(transformer["pre_norm"]),
            is_gelu=transformer["activation"] == "gelu",
            layers_encoder=int(transformer["layers_encoder"]),
            layers_decoder=int(transformer["layers_decoder"]),
            layers_reader=int(network.get("layers_reader", transformer["layers_decoder"])),
            rule_heads=heads,
            gated=bool(rules.get("gate", False)) and heads > 1,
        )

    def columns(self, name: str, layers: int, depth: int = 0) -> tuple[int, int]:
        """Return the inner size and the number of columns that a product must have.

        layers: of the decoder whose keys and values it may be
        depth:  of a grammar's prefix trees
        """
        gate = self.rule_heads if self.gated else 0
        part = name.removeprefix(names.READER)
        if part.endswith("feed_forward.output"):
            return self.ffn, self.width
        several = {
            names.KEYS_VALUES: 2 * self.width * layers,
            names.ON_CHAIN: 2 * self.width + gate,
            names.OFF_CHAIN: 3 * self.width + gate if depth > 1 else self.width,
            names.LINKS: 2 * self.width + gate,
        }
        if part.endswith("self_attention.project"):
            return self.width, 3 * self.width
        if part.endswith("feed_forward.widen"):
            return self.width, self.ffn
        return self.width, several.get(part, self.width)

    @property
    def kind(self) -> tuple[int, bool, bool]:
        """What all kernels of layers are given."""
        return self.heads, self.pre_norm, self.is_gelu


def native_reason(metadata: ExportedMetadata) -> str | None:
    """Return why the kernels do not run an exported network; None if they do."""
    name = metadata.network_name
    if name not in NETWORKS:
        return f"there are no kernels for {name} networks"
    if WEIGHTS not in metadata.files:
        return f"it has no {WEIGHTS}: export it with --int8"
    if f"{TABLES}/source_tokens.npy" in metadata.files:
        return "source and target have separate embeddings"
    size = Size.of(metadata)
    if size.width != metadata.shape.width or min(size.heads, size.rule_heads) < 1:
        return f"its network is {size.width} wide with {size.heads} heads, its shape {metadata.shape.width}"
    for what, number, multiple in (
        ("width", size.width, WHOLE),
        ("ffn", size.ffn, WHOLE),
        ("width of a head", size.width // size.heads, HEAD),
        ("width of a head of rules", size.width // size.rule_heads, HEAD if size.rule_heads > 1 else 1),
    ):
        if number % multiple:
            return f"its {what} is {number}, not a multiple of {multiple}"
    return None
