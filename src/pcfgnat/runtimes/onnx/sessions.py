"""Graphs on onnxruntime."""

import importlib.util
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.machine import first_line
from pcfgnat.runtimes.onnx.graphs import require_straight_graph

Session = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def onnxruntime_is_installed() -> bool:
    """Whether onnxruntime can be imported."""
    return importlib.util.find_spec("onnxruntime") is not None


def open_session(path: Path, threads: int, required: Collection[str] = ()) -> Session:
    """Load a graph that has the required outputs, as a function from named inputs to named outputs."""
    try:
        import onnxruntime
    except ImportError as error:
        raise CheckpointError(
            f"{path.parent} is an exported model, which needs onnxruntime: pip install 'pcfgnat[onnx]'"
        ) from error
    require_straight_graph(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # the exporter has fused what is worth it; more than this would fuse sums and norms, which is slower
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # it would turn 8 bits into floats and back around every reshape
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # threads of one graph shall not spin while another one runs
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class of their own
        reason = first_line(error)
        raise CheckpointError(f"{path} is not a graph that onnxruntime can run: {reason}") from error
    outputs = [output.name for output in session.get_outputs()]
    if missing := sorted(set(required) - set(outputs)):
        raise CheckpointError(f"{path} must have the output {missing[0]}, got {', '.join(outputs)}")

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            return dict(zip(outputs, session.run(outputs, dict(inputs)), strict=True))
        except Exception as error:  # as above
            raise CheckpointError(f"{path} does not fit its metadata: {first_line(error)}") from error

    return run
