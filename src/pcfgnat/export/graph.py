"""A graph for onnxruntime, written node by node: what is fused and what is quantised is decided here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from jaxtyping import Float
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 18, 9  # onnxruntime reads these since 1.15
FUSED = "com.microsoft"  # operators that onnxruntime has beyond the standard

# Weights have 7 bits and a sign: without VNNI, x86 adds two products of 8 bits in 16, which would overflow.
LARGEST_WEIGHT = 63
LARGEST_ACTIVATION, ZERO = 127, 128
LEVELS = 255
TINY = 1e-30  # a row of zeros stays one

Range = tuple[float, float]  # the least and the greatest of some numbers; 0 lies between


@dataclass(frozen=True)
class Quantised:
    """Rows in 8 bits, to be shared by several products: `scale · step · (values - zero)`.

    step:  what one stands for
    zero:  what stands for 0
    scale: a factor for each row, if any
    """

    values: str
    step: str
    zero: str
    scale: str | None = None


@dataclass
class Graph:
    """Nodes in order, and their constants; a name stands for a value.

    ranges: of what size the numbers of some values are
    """

    int8: bool
    ranges: dict[str, Range] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> str:
        """Declare an input."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind: int = TensorProto.FLOAT) -> None:
        """Declare a value as an output, under a name of its own."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def constant(self, array: np.ndarray) -> str:
        """Keep an array in the graph."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def whole(self, *numbers: int) -> str:
        """Keep a vector of whole numbers, as axes and shapes are given."""
        return self.constant(np.array(numbers, dtype=np.int64))

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> str:
        """Add a node of one output."""
        return self.op_with(kind, inputs, 1, attributes, domain)[0]

    def op_with(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> list[str]:
        """Add a node of several outputs."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, domain=domain)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in (attributes or {}).items())
        self.nodes.append(node)
        return names

    def linear(
        self, x: str, weight: Float[np.ndarray, "out in"], bias: Float[np.ndarray, "out"] | None = None
    ) -> str:
        """Multiply rows `[R, in]` by a weight as torch stores it, in 8 bits if the graph has them."""
        offset = [] if bias is None else [self.constant(bias)]
        if not self.int8:
            return self.op("Gemm", [x, self.constant(weight), *offset], {"transB": 1})
        values, scale = quantise(weight)
        return self.product(self.quantised(x), self.constant(values.T), self.constant(scale), *offset)

    def quantised(self, x: str) -> Quantised:
        """Turn rows into 8 bits such that none depends on its neighbours.

        What is known of the range of `x` is used; otherwise each row is divided by its greatest number.
        """
        if (known := self.ranges.get(x)) is not None:
            width, origin = eight_bits(known)
            step = self.constant(np.array(width, dtype=np.float32))
            zero = self.constant(np.array(origin, dtype=np.uint8))
            return Quantised(self.op("QuantizeLinear", [x, step, zero]), step, zero)
        zero = self.constant(np.array(ZERO, dtype=np.uint8))
        step = self.constant(np.array(1 / LARGEST_ACTIVATION, dtype=np.float32))
        largest = self.op("ReduceMax", [self.op("Abs", [x]), self.whole(1)], {"keepdims": 1})
        scale = self.op("Max", [largest, self.constant(np.array(TINY, dtype=np.float32))])
        values = self.op("QuantizeLinear", [self.op("Div", [x, scale]), step, zero])
        return Quantised(values, step, zero, scale)

    def product(self, rows: Quantised, columns: str, scale: str, bias: str = "") -> str:
        """Multiply 8-bit rows by 8-bit columns that have a scale each, and add a bias, if there is one."""
        inputs = [rows.values, columns, rows.step, scale, rows.zero]
        if rows.scale is None:
            return self.op("MatMulIntegerToFloat", [*inputs, "", bias] if bias else inputs, domain=FUSED)
        found = self.op("Mul", [self.op("MatMulIntegerToFloat", inputs, domain=FUSED), rows.scale])
        return self.op("Add", [found, bias]) if bias else found

    def reshape(self, x: str, shape: str) -> str:
        """Reshape; numbers of the shape may be -1 (what is left) or 0 (as it is)."""
        return self.op("Reshape", [x, shape])

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Cut along an axis."""
        return self.op_with("Split", [x, self.whole(*sizes)], len(sizes), {"axis": axis})

    def size(self, x: str, axis: int) -> str:
        """Return the size of an axis, as a vector of one number."""
        return self.op("Shape", [x], {"start": axis, "end": axis + 1})

    def join(self, *sizes: str) -> str:
        """Put vectors together, such as sizes to a shape."""
        return self.op("Concat", list(sizes), {"axis": 0})

    def model(self) -> onnx.ModelProto:
        """Return the graph as a model, without what no output needs."""
        needed = {output.name for output in self.outputs}
        nodes = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        constants = [constant for constant in self.constants if constant.name in needed]
        graph = helper.make_graph(nodes[::-1], "pcfgnat", self.inputs, self.outputs, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="pcfgnat")

    def save(self, path: Path) -> None:
        """Write the graph with its constants."""
        onnx.save(self.model(), str(path))

    def external(self, path: Path, offset: int, kind: int, shape: Sequence[int]) -> str:
        """Use numbers that lie in a file beside the graph, from a byte on."""
        name = f"c{len(self.constants)}"
        tensor = TensorProto(
            name=name, data_type=kind, dims=shape, data_location=TensorProto.DataLocation.EXTERNAL
        )
        length = int(np.prod(shape)) * helper.tensor_dtype_to_np_dtype(kind).itemsize
        for key, value in (("location", path.as_posix()), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)
        return name


def eight_bits(known: Range) -> tuple[float, int]:
    """Return a step and the number that stands for 0, such that 0 … 255 cover a range; 0 is exact."""
    low, high = known
    if not low <= 0 <= high or low == high:
        raise ValueError(f"a range must have 0 and something else in it, got {low} … {high}")
    step = (high - low) / LEVELS
    return step, round(-low / step)


def symmetric(bound: float) -> Range:
    """Return the range of numbers of at most this size, with 0 in the middle of 0 … 255."""
    return -bound * ZERO / LARGEST_ACTIVATION, bound


def quantise(
    weight: Float[np.ndarray, "out in"],
) -> tuple[np.ndarray, Float[np.ndarray, "out"]]:
    """Return int8 numbers and the scale of each row, such that `values · scale` is about the weight."""
    largest = np.abs(weight).max(axis=1)
    scale = np.where(largest > 0, largest / LARGEST_WEIGHT, 1.0).astype(np.float32)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale
