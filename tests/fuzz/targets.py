"""Everything that reads a file or a text which may be somebody else's.

A target has seeds, contents that are as they should be, and a check, which returns or raises a ValueError for
any content whatsoever. Checksums are made right again first: whoever means harm does that too.
"""

import gzip
import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import torch

from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import DecodingError, Request, parse_strategy, strategy_text
from pcfgnat.draw import draw_terminal
from pcfgnat.export.onnx import export_onnx
from pcfgnat.networks import PCFGConfig, PCFGNetwork
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.recipes import recipe_path
from pcfgnat.runtimes.base import Runtime
from pcfgnat.runtimes.onnx import Exported, ExportedOptions, onnx_runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.settings import commented_toml
from pcfgnat.storage.growing import GrowingFiles
from pcfgnat.storage.toml import SEAL, dump_toml, load_toml, sealed_toml
from pcfgnat.structures import ParseTree, SupportTree
from pcfgnat.text import (
    LearnSettings,
    PairReader,
    ParallelCorpus,
    SentencePieceTokenizer,
    SubwordTokenizer,
    TextPair,
    Tokenizer,
    write_corpus,
)
from pcfgnat.text.glossary import read_glossary, terms_in
from pcfgnat.text.pipeline import RawSteps
from pcfgnat.training.recipe import resolve_recipe
from pcfgnat.training.record.logs import CsvLog
from pcfgnat.training.record.state import RunState, StateStore
from tests.text.bilingual import sentences

PLACES = b'data = "data"\noutput = "run"\nwarm_start = "teacher"\n'
FORMAT_1 = Path(__file__).parents[1] / "checkpoints" / "format1" / "pcfg"
TEXTS = ["Der Bär läuft.", "", " ﬁ ½ e\u0301 ☃ 漢字 \u2028 \x7f", "x" * 300]


class Target(ABC):
    """Reads contents, with a directory of its own to put them into."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def close(self) -> None:
        shutil.rmtree(self.place)

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Return contents that can be read."""

    @abstractmethod
    def check(self, content: bytes) -> None:
        """Read a content; anything but a ValueError is a finding."""

    def written(self, name: str, content: bytes) -> Path:
        path = self.place / name
        path.write_bytes(content)
        return path


class Config(Target):
    def seeds(self) -> list[bytes]:
        return [PLACES + recipe_path("pcfg").read_bytes()]

    def check(self, content: bytes) -> None:
        config = resolve_recipe(str(self.written("config.toml", content))).config
        commented_toml(config)


class Metadata(Target):
    """A checkpoint whose settings are a stranger's."""

    def seeds(self) -> list[bytes]:
        self._directory = saved(self.place / "saved")
        return [unsealed(self._directory / "checkpoint.toml")]

    def check(self, content: bytes) -> None:
        (self._directory / "checkpoint.toml").write_bytes(content)
        Checkpoint.open(self._directory).network()


class OldMetadata(Target):
    """The same of format 1."""

    def seeds(self) -> list[bytes]:
        self._directory = Path(shutil.copytree(FORMAT_1, self.place / "saved"))
        return [unsealed(self._directory / "checkpoint.toml")]

    def check(self, content: bytes) -> None:
        (self._directory / "checkpoint.toml").write_bytes(content)
        Checkpoint.open(self._directory).network()


class ExportedMetadata(Target):
    """An exported model whose settings are a stranger's; its files are whole."""

    def seeds(self) -> list[bytes]:
        self._directory = self.place / "exported"
        export_onnx(saved(self.place / "saved"), self._directory)
        return [(self._directory / "exported.toml").read_bytes()]

    def check(self, content: bytes) -> None:
        (self._directory / "exported.toml").write_bytes(content)
        translate(onnx_runtime(Exported.open(self._directory), ExportedOptions(threads=1)))


class ExportedTable(Target):
    """Positions of an exported model."""

    def seeds(self) -> list[bytes]:
        self._directory = self.place / "exported"
        export_onnx(saved(self.place / "saved"), self._directory)
        self._plain = load_toml(self._directory / "exported.toml")
        self._path = self._directory / "tables" / "source_positions.npy"
        return [self._path.read_bytes()]

    def check(self, content: bytes) -> None:
        self._path.write_bytes(content)
        files = self._plain["files"] | {f"tables/{self._path.name}": hashlib.sha256(content).hexdigest()}
        metadata = dump_toml(self._plain | {"files": files})
        (self._directory / "exported.toml").write_text(metadata, encoding="utf-8")
        onnx_runtime(Exported.open(self._directory), ExportedOptions(threads=1))


class StrategyText(Target):
    """How to decode, as people and other programs ask for it."""

    def seeds(self) -> list[bytes]:
        places = [path for path in FORMAT_1.parent.iterdir() if path.is_dir()]
        self._runtimes = [torch_runtime(Checkpoint.open(place).network()) for place in places]
        return [b"beam:size=8", b"greedy:lengths=3", b"viterbi", b"sample:"]

    def check(self, content: bytes) -> None:
        text, found = content.decode(), 0
        for runtime in self._runtimes:
            with suppress(DecodingError):
                strategy = parse_strategy(text, runtime)
                assert parse_strategy(strategy_text(strategy), runtime) == strategy
                found += 1
        if not found:
            raise ValueError("no network has such a strategy")


class Weights(Target):
    def seeds(self) -> list[bytes]:
        self._directory = saved(self.place / "saved")
        self._plain = load_toml(self._directory / "checkpoint.toml")
        return [(self._directory / "model.safetensors").read_bytes()]

    def check(self, content: bytes) -> None:
        (self._directory / "model.safetensors").write_bytes(content)
        plain = self._plain | {"weights_sha256": hashlib.sha256(content).hexdigest()}
        (self._directory / "checkpoint.toml").write_text(sealed_toml(plain), encoding="utf-8")
        Checkpoint.open(self._directory).network()


class SentencePiece(Target):
    def seeds(self) -> list[bytes]:
        return [vocabulary("identity"), vocabulary("nmt_nfkc")]

    def check(self, content: bytes) -> None:
        use(SentencePieceTokenizer(content))


class Subwords(Target):
    def seeds(self) -> list[bytes]:
        return [b"ein@@ 17\nB\xc3\xa4r 4\nl\xc3\xa4uft\n", "\ufeffa\r\nb@@ 1 #fairseq:overwrite\n".encode()]

    def check(self, content: bytes) -> None:
        use(SubwordTokenizer(content))


class Codes(Target):
    def seeds(self) -> list[bytes]:
        return [
            b"#version: 0.2\nl \xc3\xa4\nl\xc3\xa4 u\nf t</w>\nx x\n",
            b"e r\nr </w>\n< /w>\nB \xc3\xa4\n",
        ]

    def check(self, content: bytes) -> None:
        use(SubwordTokenizer("e@@\nx@@\nBär\n".encode(), steps=RawSteps(content)).for_raw_text())


class Text(Target):
    def seeds(self) -> list[bytes]:
        plain = "".join(f"{source}\n" for source, _ in sentences(5)).encode()
        return [plain, b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"), gzip.compress(plain, mtime=0)]

    def check(self, content: bytes) -> None:
        packed = content[:2] == b"\x1f\x8b"
        path = self.written("text.gz" if packed else "text", content)
        for _ in PairReader(TextPair(path, path)):
            pass


class Tree(Target):
    def seeds(self) -> list[bytes]:
        tree = ParseTree(SupportTree(4, 2), (1, 2, 5, 9, 13), (2, 7, 8, 9, 3))
        scored = tree.with_words(["<s>", "a b", "Bär", "(c", "</s>"]).with_scores(
            [-1.5, 0.0, -2.0, -3.0, 0.0], [-1.0] * 5
        )
        return [tree.to_json().encode(), scored.to_json().encode(), scored.to_brackets().encode()]

    def check(self, content: bytes) -> None:
        text = content.decode()
        tree = ParseTree.from_brackets(text, 2, len) if text.startswith("(") else ParseTree.from_json(text)
        assert tree.to_json() == ParseTree.from_json(tree.to_json()).to_json()
        tree.to_brackets()
        if len(tree) < 100:
            draw_terminal(tree.to_dict(), 80, colour=False)


class Corpus(Target):
    """One of the five files of a corpus, chosen by the content's first byte."""

    def seeds(self) -> list[bytes]:
        with write_corpus(self.place / "corpus", 10) as writer:
            writer.add([([2, 5, 3], [2, 6, 7, 3]), ([2, 3], [2, 9, 3])])
        self._files = {path: path.read_bytes() for path in sorted((self.place / "corpus").iterdir())}
        plain = [
            unsealed(path) if path.suffix == ".toml" else content for path, content in self._files.items()
        ]
        return [bytes([number]) + content for number, content in enumerate(plain)]

    def check(self, content: bytes) -> None:
        paths = list(self._files)
        chosen = paths[(content[0] if content else 0) % len(paths)]
        for path, whole in self._files.items():
            path.write_bytes(content[1:] if path == chosen else whole)
        if chosen.suffix != ".toml":
            self._reseal(chosen)
        corpus = ParallelCorpus(self.place / "corpus")
        corpus.verify()
        assert sum(len(source) for source, _ in corpus) == int(np.sum(corpus.source_lengths, dtype=np.int64))

    def _reseal(self, changed: Path) -> None:
        path = self.place / "corpus" / "corpus.toml"
        plain = load_toml(path)
        side, kind = changed.name.split(".")
        plain[side][f"{kind}_sha256"] = hashlib.sha256(changed.read_bytes()).hexdigest()
        path.write_text(sealed_toml(plain), encoding="utf-8")


class Log(Target):
    def seeds(self) -> list[bytes]:
        return [b"step,loss,nll\n1,0.5,\n2,nan,0.25\n3,inf,1e-9\n"]

    def check(self, content: bytes) -> None:
        log = CsvLog(self.written("log.csv", content), 2)
        log.column("loss")
        log.add({"step": 3, "loss": 1.0})


class State(Target):
    def seeds(self) -> list[bytes]:
        self._store = StateStore(self.place / "state")
        self._store.save(RunState(step=3, recent_losses=[0.5]), {"model:x": torch.zeros(2)})
        return [unsealed(self._store.saves()[0] / "state.toml")]

    def check(self, content: bytes) -> None:
        (self._store.saves()[0] / "state.toml").write_bytes(content)
        self._store.needed_steps()
        self._store.load(lambda text: None)


class Record(Target):
    """What says how far a translation has come."""

    def seeds(self) -> list[bytes]:
        files = GrowingFiles([self.place / "out"], self.place / "record", {"job": "j"})
        with files:
            files.append(["one\n"], 1, hashlib.sha256(b"a\n").hexdigest())
        self._partial = (self.place / "out.partial").read_bytes()
        return [unsealed(self.place / "record")]

    def check(self, content: bytes) -> None:
        self.written("record", content)
        self.written("out.partial", self._partial)
        (self.place / "out").unlink(missing_ok=True)
        with GrowingFiles([self.place / "out"], self.place / "record", {"job": "j"}):
            pass


class Glossary(Target):
    def seeds(self) -> list[bytes]:
        return ["house\tGebäude\n\nNew York\tNeu York\n".encode()]

    def check(self, content: bytes) -> None:
        terms_in("The house in New York.", read_glossary(self.written("terms.tsv", content)))


TARGETS: tuple[type[Target], ...] = (
    *(Config, Metadata, OldMetadata, ExportedMetadata, ExportedTable, StrategyText, Weights),
    *(SentencePiece, Subwords, Codes, Text, Tree, Corpus, Log, State, Record, Glossary),
)


def use(tokenizer: Tokenizer) -> None:
    """Let a tokenizer do what translation asks of it."""
    ids = tokenizer.encode_all(TEXTS)
    for sentence in ids:
        tokenizer.decode(sentence)
    tokenizer.pieces(range(min(tokenizer.vocabulary_size, 50)))


def translate(runtime: Runtime) -> None:
    parse_strategy("viterbi", runtime).decode(runtime, [[2, 5, 6, 3]], Request())


def unsealed(path: Path) -> bytes:
    """Return the text of a file without its seal."""
    seal, text = path.read_text(encoding="utf-8").split("\n", 1)
    assert seal.startswith(SEAL)
    return text.encode()


@cache
def vocabulary(normalization: str) -> bytes:
    texts = [text for pair in sentences(100) for text in pair]
    settings = LearnSettings(vocabulary_size=150, normalization=normalization)  # type: ignore[arg-type]
    return SentencePieceTokenizer.learn(texts, settings)._content


def saved(directory: Path) -> Path:
    torch.manual_seed(0)
    config = PCFGConfig(
        TransformerConfig(1, 1, width=8, ffn=8, heads=2, max_positions=16),
        upsampling=2,
        rules=LinkConfig(heads=2),
    )
    decoding = DecodingDefaults("viterbi")
    tokenizer = SentencePieceTokenizer(vocabulary("identity"))
    save_checkpoint(directory, PCFGNetwork(config, 150), tokenizer, describe("pcfg", config, 150, decoding))
    return directory
