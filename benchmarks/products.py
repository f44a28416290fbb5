"""The matrix products of a one-pass model, counted and timed on their own: what no runtime can undercut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.synthetic import shortlist_size
from pcfgnat.benchmark.contender import Contender
from pcfgnat.benchmark.runners import Runner
from pcfgnat.benchmark.worker import main
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.config import from_dict
from pcfgnat.networks import PCFGConfig


@dataclass(frozen=True)
class Product:
    """`[rows, inner] × [inner, columns]`, `count` times; `weights` if the right side is a learned matrix."""

    rows: int
    inner: int
    columns: int
    count: int
    weights: bool = True

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each pair of numbers that meet."""
        return 2 * self.rows * self.inner * self.columns * self.count


def pcfg_products(config: PCFGConfig, source: int, batch: int, types: int) -> list[Product]:
    """List the products of a pcfg model for sources of `source` tokens that scores `types` output tokens.

    What is the same for all sentences of a length is not counted: what positions contribute to the scores of
    rules, and the decoder's first self-attention with the queries that follow it, unless input is copied.
    """
    shape, width = config.transformer, config.transformer.width
    chain = config.upsampling * source + 1
    nodes = (chain - 1) * config.geometry.block + 2
    encoder, decoder = shape.layers_encoder, shape.layers_decoder
    rows, memory = batch * nodes, batch * source
    anew = decoder if config.copy_input else decoder - 1
    found = [
        *_projections(memory, width, encoder),
        *_attention(source, source, shape.heads, width, batch * encoder),
        *_feed_forward(memory, width, shape.ffn, encoder),
        *_projections(rows, width, anew),
        *_attention(nodes, nodes, shape.heads, width, batch * anew),
        Product(rows, width, width, anew + decoder),  # queries and output of the attention to the encoder
        Product(memory, width, 2 * width, decoder),
        *_attention(nodes, source, shape.heads, width, batch * decoder),
        *_feed_forward(rows, width, shape.ffn, decoder),
        Product(rows, width, types, 1),
    ]
    if config.copy_input:
        found.append(Product(memory, width, width, 1))
    heads = config.rules.heads
    found += [
        Product(batch * chain, width, width, 2),  # parents and right children
        Product(rows - batch * chain, width, width, 1),  # left children
        Product(chain * config.geometry.block, width // heads, chain, batch * heads, weights=False),
    ]
    return found


def _projections(rows: int, width: int, count: int) -> list[Product]:
    """Queries, keys and values of self-attention, and its output."""
    return [Product(rows, width, 3 * width, count), Product(rows, width, width, count)]


def _feed_forward(rows: int, width: int, ffn: int, count: int) -> list[Product]:
    return [Product(rows, width, ffn, count), Product(rows, ffn, width, count)]


def _attention(queries: int, keys: int, heads: int, width: int, count: int) -> list[Product]:
    return [
        Product(queries, width // heads, keys, heads * count, weights=False),
        Product(queries, keys, width // heads, heads * count, weights=False),
    ]


class ProductsRunner(Runner):
    """Multiplies as a pcfg model does: in float32 by torch, or what can be int8 by onnxruntime.

    A product that happens several times runs as often; its inputs are the same each time.
    """

    def __init__(self, contender: Contender, threads: int) -> None:
        torch.set_num_threads(threads)
        metadata = Checkpoint.open(contender.directory).metadata
        self._config = from_dict(PCFGConfig, metadata.architecture, "network")
        self._vocabulary, self._shortlist = metadata.vocabulary, bool(contender.shortlist)
        self._int8, self._threads = contender.precision == "int8", threads
        self._ready: dict[tuple[int, int], list[Callable[[], object]]] = {}

    @property
    def description(self) -> str:
        """What multiplies."""
        return "products int8" if self._int8 else "products float32"

    def run(self, texts: Sequence[str], length: int) -> list[str]:
        """Multiply everything once for so many texts of so many tokens."""
        key = (length, len(texts))
        if key not in self._ready:
            types = self._vocabulary
            if self._shortlist:
                types = min(types, shortlist_size(length))
            products = pcfg_products(self._config, length, len(texts), types)
            self._ready[key] = [self._prepared(product) for product in products]
        for multiply in self._ready[key]:
            multiply()
        return []

    def _prepared(self, product: Product) -> Callable[[], object]:
        if self._int8 and product.weights:
            return _int8(product, self._threads)
        return _float32(product)


def _float32(product: Product) -> Callable[[], object]:
    left = torch.randn(product.rows, product.inner)
    right = torch.randn(product.columns, product.inner).t()
    result = torch.empty(product.rows, product.columns)

    def multiply() -> None:
        for _ in range(product.count):
            torch.mm(left, right, out=result)

    return multiply


def _int8(product: Product, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(_graph(product), options, providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(0)
    given = {"left": draw.integers(0, 256, (product.rows, product.inner), dtype=np.uint8)}

    def multiply() -> None:
        for _ in range(product.count):
            session.run(None, given)

    return multiply


def _graph(product: Product) -> bytes:
    """Return a network of one product of bytes with a fixed matrix of signed bytes."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(1)
    right = draw.integers(-127, 128, (product.inner, product.columns), dtype=np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["left", "right"], ["result"])],
        "product",
        [helper.make_tensor_value_info("left", TensorProto.UINT8, [product.rows, product.inner])],
        [helper.make_tensor_value_info("result", TensorProto.INT32, [product.rows, product.columns])],
        [numpy_helper.from_array(right, "right")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    content: bytes = model.SerializeToString()
    return content


if __name__ == "__main__":  # the process of a contender
    main(ProductsRunner)
