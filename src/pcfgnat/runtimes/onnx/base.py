"""What all models on onnxruntime share: sessions, tables and the output layer."""

from collections.abc import Sequence
from functools import cache, partial

from pcfgnat.runtimes.exported import EXACT, SELECTED, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.onnx.inputs import Embedded
from pcfgnat.runtimes.onnx.output import OnnxOutput
from pcfgnat.runtimes.onnx.sessions import Session, open_session
from pcfgnat.runtimes.output import OutputLayer

OUTPUTS = ("best", "place", "mass", "special")


class OnnxRuntime(ExportedRuntime):
    """An exported model on onnxruntime."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self.embedded = Embedded(exported)
        self.output: OutputLayer = OnnxOutput(
            self.embedded.tokens,
            self.embedded.scales,
            cache(partial(self.session, EXACT, OUTPUTS)),
            cache(partial(self.session, SELECTED, OUTPUTS)),
        )

    def session(self, name: str, required: Sequence[str]) -> Session:
        """Load one of the model's graphs."""
        return open_session(self.exported.path(name), self.threads, required)
