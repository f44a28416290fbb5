"""Which extra of the package brings a module that is not installed."""

from importlib.util import find_spec

EXTRAS = {  # the smallest first: it is recommended unless the command has one of its own
    "onnx": ("onnxruntime",),
    "serve": ("fastapi", "httptools", "prometheus_client", "pydantic", "starlette", "uvicorn"),
    "evaluate": ("sacrebleu",),
    "draw": ("matplotlib",),
    "subword": ("sacremoses", "subword_nmt"),
    "train": ("matplotlib", "sacrebleu", "scipy", "tensorboard", "torch"),
    "export": ("onnx", "onnxruntime", "torch"),
    "analysis": ("matplotlib", "nltk", "sacrebleu", "textblob_aptagger", "torch"),
    "distill": ("ctranslate2", "torch"),
    "benchmark": ("ctranslate2", "matplotlib", "onnx", "onnxruntime", "sacrebleu", "torch"),
    "ray": ("ray",),
}
OWN_EXTRA = {
    "analyse": "analysis",
    "benchmark": "benchmark",
    "distill": "distill",
    "export": "export",
}  # of a command
EXPORTED_HINT = "; for exported models 'pcfgnat[onnx]' is enough"
RUNS_EXPORTED = ("translate", "draw", "serve", "warm-up")


def missing_extra(command: str, error: ModuleNotFoundError) -> str | None:
    """Return what to install for a command that failed; None if the module belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    own = OWN_EXTRA.get(command, "")
    having = [extra for extra, modules in EXTRAS.items() if module in modules]
    if not having:
        return None
    extra = own if own in having else having[0]
    exported = module == "torch" and command in RUNS_EXPORTED and find_spec("onnxruntime") is None
    hint = EXPORTED_HINT if exported else ""
    return f"`pcfgnat {command}` needs {module}: pip install 'pcfgnat[{extra}]'{hint}"
