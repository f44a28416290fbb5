"""From a directory to a runtime: checkpoints, exported models, run directories and the bundled model."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pcfgnat.checkpoints.formats import METADATA as CHECKPOINT_METADATA
from pcfgnat.checkpoints.formats import load_metadata
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults, Metadata
from pcfgnat.checkpoints.stored import WEIGHTS
from pcfgnat.config import ConfigError
from pcfgnat.runtimes.base import Latents, Runtime, Steps, Tables
from pcfgnat.runtimes.choice import chosen_runtime, run_exported
from pcfgnat.runtimes.exported import (
    Exported,
    ExportedMetadata,
    is_exported,
    load_exported_metadata,
)
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import native_reason
from pcfgnat.runtimes.onnx.sessions import onnxruntime_is_installed
from pcfgnat.runtimes.paired import Paired, PairedLatents
from pcfgnat.storage.files import StorageError
from pcfgnat.storage.regular import require_regular_files
from pcfgnat.text import Tokenizer

BUNDLED = Path(__file__).parents[1] / "embedded" / "en-de"
ONNX = "onnx"  # a directory in a checkpoint, with the same model exported
FINAL = "final"  # a directory of a training run, with the checkpoint to use
A_RUN = ("config.toml", "state")  # what every training run has

RuntimeName = Literal["auto", "torch", "onnx", "native"]


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to translate.

    runtime_name: what runs it
    origin:       checksum of its weights
    exact:        whether all tokens are looked at, rather than a shortlist
    network:      its name and architecture
    verifier:     the model that reads its drafts, if there is one
    """

    runtime: Runtime
    tokenizer: Tokenizer
    defaults: DecodingDefaults
    runtime_name: Literal["torch", "onnx", "native", "ctranslate2"]
    origin: str
    precision: str
    exact: bool
    network: dict[str, Any]
    verifier: "Loaded | None" = None

    def verified_by(self, verifier: "Loaded") -> "Loaded":
        """Return both models as one, whose default strategy is `verify`, or `rescore` of latents."""
        ours, theirs = str(self.network.get("name")), str(verifier.network.get("name"))
        if not isinstance(self.runtime, Tables | Latents):
            raise CheckpointError(f"the model that drafts must be a pcfg, dag or flowseq network, got {ours}")
        if not isinstance(verifier.runtime, Steps):
            raise CheckpointError(f"the verifier must be an autoregressive network, got {theirs}")
        if (expected := self.tokenizer.sha256) != (found := verifier.tokenizer.sha256):
            raise CheckpointError(
                f"the verifier must have the model's tokenizer: its sha256 must be {expected}, got {found}"
            )
        runtime: Runtime
        if isinstance(self.runtime, Tables):
            runtime, strategy = Paired(self.runtime, verifier.runtime), "verify"
        else:
            runtime, strategy = PairedLatents(self.runtime, verifier.runtime), "rescore"
        defaults = replace(self.defaults, strategy=strategy)
        return replace(self, runtime=runtime, defaults=defaults, verifier=verifier)

    def job(self) -> dict[str, str]:
        """Return what translations depend on."""
        job = {
            "model": self.origin,
            "tokenizer": self.tokenizer.sha256,
            "runtime": self.runtime_name,
            "precision": self.precision,
            "exact": str(self.exact),
        }
        if self.verifier is None:
            return job
        theirs = {f"verifier_{name}": fact for name, fact in self.verifier.job().items() if name != "model"}
        return job | {"verifier": self.verifier.origin} | theirs


def bundled_model() -> Path:
    """Return the checkpoint that the package carries."""
    if not BUNDLED.is_dir():
        raise CheckpointError(f"name a model: this package has no bundled one in {BUNDLED}")
    return BUNDLED


def model_directory(directory: Path | str | None) -> Path:
    """Return the directory of a model: the bundled one if none is given, the final one of a training run."""
    if directory is None:
        return bundled_model()
    place = Path(directory)
    if not (place / CHECKPOINT_METADATA).is_file() and not is_exported(place):
        final = place / FINAL
        if (final / CHECKPOINT_METADATA).is_file():
            return final
        if all((place / name).exists() for name in A_RUN):
            raise CheckpointError(
                f"{place} is a training run without a final model: "
                "rerun `pcfgnat train` to finish it, or name one of its checkpoints"
            )
    return place


def exported_for(directory: Path, device: str = "cpu", runtime: RuntimeName = "auto") -> Path | None:
    """Return the exported model that is run for a directory; None if torch runs it."""
    if is_exported(directory):
        if runtime == "torch" or device != "cpu":
            wanted = "torch" if runtime == "torch" else device
            raise CheckpointError(f"{directory} is an exported model: it must run on cpu, got {wanted}")
        return directory
    inside = directory / ONNX
    if runtime == "torch" or not is_exported(inside):
        if runtime in ("onnx", "native"):
            raise CheckpointError(f"{directory} must be an exported model or have one in {inside}")
        return None
    if runtime in ("onnx", "native"):
        return inside
    runs = onnxruntime_is_installed() or native_reason(load_exported_metadata(inside)) is None
    return inside if device == "cpu" and runs else None


def exported_alone(directory: Path) -> bool:
    """Return whether a checkpoint has its exported model but no weights, as in a wheel of this package."""
    return is_exported(directory / ONNX) and not (directory / WEIGHTS).exists()


def load_model(
    directory: Path, device: str = "cpu", runtime: RuntimeName = "auto", onnx: ExportedOptions | None = None
) -> Loaded:
    """Load a checkpoint or an exported model."""
    exported = exported_for(directory, device, runtime)
    if exported is None:
        return _load_checkpoint(directory, device)
    assert runtime != "torch"
    found = Exported.open(exported)
    metadata = found.metadata
    if exported != directory:
        _check_origin(directory, found)
    name, running = chosen_runtime(found, runtime, onnx), run_exported(found, onnx, runtime)
    exact, origin = running.shortlist is None, metadata.origin_sha256
    facts = (origin, metadata.precision, exact, metadata.network)
    return Loaded(running, found.tokenizer, metadata.decoding, name, *facts)


def _load_checkpoint(directory: Path, device: str) -> Loaded:
    if exported_alone(directory):
        if device == "cpu" and not onnxruntime_is_installed():
            raise ModuleNotFoundError(f"{directory} runs on onnxruntime only", name="onnxruntime")
        raise CheckpointError(
            f"{directory} has no {WEIGHTS} for torch, only an exported model: run it on onnxruntime, on cpu"
        )
    from pcfgnat.checkpoints.checkpoint import Checkpoint
    from pcfgnat.runtimes.torch import torch_runtime

    checkpoint = Checkpoint.open(directory)
    metadata = checkpoint.metadata
    runtime = torch_runtime(checkpoint.network(device=device))
    facts = (metadata.weights_sha256, "float32", True, metadata.network)
    return Loaded(runtime, checkpoint.tokenizer, metadata.decoding, "torch", *facts)


def load_converted(
    directory: Path, converted: Path, precision: Literal["float32", "int8"], threads: int
) -> Loaded:
    """Load what CTranslate2 runs of a checkpoint that was converted."""
    from pcfgnat.runtimes.ctranslate2 import CTranslate2Runtime

    metadata = _checkpoint_metadata(directory)
    tokenizer = Tokenizer.load(converted / "tokenizer")
    runtime = CTranslate2Runtime(converted, tokenizer, threads)
    facts = (metadata.weights_sha256, precision, True, metadata.network)
    return Loaded(runtime, tokenizer, metadata.decoding, "ctranslate2", *facts)


def describe_model(directory: Path) -> Metadata | ExportedMetadata:
    """Read the metadata of a checkpoint, of an exported model or of the result of a training run."""
    directory = model_directory(directory)
    if is_exported(directory):
        return load_exported_metadata(directory)
    return _checkpoint_metadata(directory)


def _checkpoint_metadata(directory: Path) -> Metadata:
    if not (directory / CHECKPOINT_METADATA).is_file():
        raise CheckpointError(f"{directory} must be a checkpoint, but it has no {CHECKPOINT_METADATA}")
    try:
        require_regular_files(directory)
        return load_metadata(directory / CHECKPOINT_METADATA)
    except (ConfigError, StorageError) as error:
        raise CheckpointError(f"{directory} is not a usable checkpoint: {error}") from error


def _check_origin(checkpoint: Path, exported: Exported) -> None:
    """Raise an error if an export was made from other weights than those that lie beside it."""
    if _checkpoint_metadata(checkpoint).weights_sha256 != exported.metadata.origin_sha256:
        raise CheckpointError(
            f"{exported.directory} was exported from other weights than those of {checkpoint}: export again"
        )
