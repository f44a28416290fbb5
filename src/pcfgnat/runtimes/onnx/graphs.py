"""What a graph may contain: no loops and no branches, so that every node runs once.

onnxruntime cannot bound how long a graph runs, and the package `onnx`, which could read one, is not needed to
run it. So the file's messages are walked here as far as attributes of nodes, as protobuf encodes them.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

from pcfgnat.checkpoints.metadata import CheckpointError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
GRAPH_OF_MODEL, FUNCTIONS_OF_MODEL = 7, 25
NODE_OF_GRAPH, OP_OF_NODE, ATTRIBUTE_OF_NODE = 1, 4, 5
GRAPHS_OF_ATTRIBUTE = (6, 11)

Buffer = bytes | mmap.mmap
Span = tuple[int, int]  # of bytes: first, one past the last


def require_straight_graph(path: Path) -> None:
    """Raise an error if nodes contain graphs, as loops and branches do, or if functions are defined."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise CheckpointError(f"{path} is not a graph that onnxruntime can run: it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            try:
                found = _first_jump(buffer)
            except (IndexError, ValueError) as error:
                reason = "it is not a message of protobuf"
                raise CheckpointError(f"{path} is not a graph that onnxruntime can run: {reason}") from error
    if found is not None:
        raise CheckpointError(f"{path} must have no loops, branches or functions, got {found}")


def _first_jump(buffer: Buffer) -> str | None:
    """Return the name of the first node that contains a graph; None if every node is simple."""
    for field, graph in _fields(buffer, (0, len(buffer))):
        if field == FUNCTIONS_OF_MODEL:
            return "a function"
        if field != GRAPH_OF_MODEL:
            continue
        for part, node in _fields(buffer, graph):
            if part == NODE_OF_GRAPH and _contains_graph(buffer, node):
                return _operation(buffer, node)
    return None


def _contains_graph(buffer: Buffer, node: Span) -> bool:
    attributes = (span for field, span in _fields(buffer, node) if field == ATTRIBUTE_OF_NODE)
    return any(
        field in GRAPHS_OF_ATTRIBUTE for attribute in attributes for field, _ in _fields(buffer, attribute)
    )


def _operation(buffer: Buffer, node: Span) -> str:
    names = [buffer[start:stop] for field, (start, stop) in _fields(buffer, node) if field == OP_OF_NODE]
    return names[-1].decode("utf-8", "replace")[:40] if names else "a node without a name"


def _fields(buffer: Buffer, span: Span) -> Iterator[tuple[int, Span]]:
    """Yield number and bytes of each field of a message that has a length; others are passed over."""
    place, stop = span
    while place < stop:
        key, place = _varint(buffer, place)
        wire = key & 7
        if wire == VARINT:
            _, place = _varint(buffer, place)
        elif wire == BYTES:
            size, place = _varint(buffer, place)
            yield key >> 3, (place, place + size)
            place += size
        elif wire in (FIXED64, FIXED32):
            place += 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"a field's type must be 0, 1, 2 or 5, got {wire}")
    if place != stop:
        raise ValueError(f"a message must end at byte {stop}, got {place}")


def _varint(buffer: Buffer, place: int) -> tuple[int, int]:
    """Return a number of up to ten bytes, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = buffer[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number must have at most ten bytes, got more")
