"""What a resumable translation depends on, but for the text itself: the same for all commands."""

import hashlib
from pathlib import Path

from pcfgnat.config import to_dict
from pcfgnat.runtimes.exported import is_exported
from pcfgnat.storage.toml import dump_toml
from pcfgnat.translator.loading import ONNX, describe_model
from pcfgnat.translator.translator import Translator


def job_record(translator: Translator, directory: Path, chunk: int) -> dict[str, str]:
    """Return every fact that changes the translations: model, runtime, exactness, decoding.

    `directory` is what the translator was loaded from, `chunk` the number of lines translated at a time. How
    sentences are put together counts only where it changes their translations. The device does not count.
    """
    record = {**translator.job(), "network": _digest({"network": describe_model(directory).network})}
    if record["runtime"] in ("onnx", "native"):
        exported = describe_model(directory if is_exported(directory) else directory / ONNX)
        record["exported"] = _digest(to_dict(exported))
    verifier = None if translator.loaded is None else translator.loaded.verifier
    if verifier is not None:
        record["verifier_network"] = _digest({"network": verifier.network})
    if "int8" in (record["precision"], record.get("verifier_precision")):
        # exports of version 0.1 scale activations by all sentences of a batch
        options = translator.options
        record["batch"] = f"{options.batch} sentences, {options.batch_tokens} tokens"
        record["window"] = f"{min(options.window, chunk)} of {chunk} lines"
    return record


def _digest(data: dict[str, object]) -> str:
    return hashlib.sha256(dump_toml(data).encode()).hexdigest()
