"""How good the model of a cell is, decoded in several ways."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcfgnat.ablation.grid import Cell
from pcfgnat.ablation.outcome import Outcome
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.evaluation import EvaluationSet, Measures, judge_model, measures_for
from pcfgnat.export.onnx import ExportSettings, export_onnx
from pcfgnat.runtimes.exported import load_exported_metadata
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.text import Prepared
from pcfgnat.text.shortlist import SHORTLIST
from pcfgnat.translator import TranslateOptions, Translator


@dataclass(frozen=True)
class Judge:
    """What cells are judged on: the test part of `data`, or of their own, or its first sentences.

    int8: whether models are exported in 8 bits first, with the shortlist of their data if it has one
    """

    data: Path | None = None
    limit: int | None = None
    device: str = "cpu"
    threads: int | None = None
    int8: bool = False

    def question(self, cell: Cell, decoding: dict[str, Any]) -> Outcome:
        """Return what is to be found out, without the answer."""
        first = "" if self.limit is None else f", first {self.limit}"
        test = f"{self.data or cell.config.data} test{first}"
        settings = {**cell.values, **decoding}
        question = Outcome(cell.name, settings, cell.fingerprint, test, "open")
        return replace(question, precision="int8") if self.int8 else question

    def translator(self, cell: Cell) -> Translator:
        """Load a cell's trained model, after exporting it if wanted."""
        final, exported = cell.config.output / "final", cell.config.output / "int8"
        if not self.int8:
            return Translator.load(final, self.device, runtime="torch")
        if not exported.exists():
            export_onnx(final, exported, ExportSettings(True, Prepared.open(cell.config.data).shortlist()))
        exact = None if SHORTLIST not in load_exported_metadata(exported).files else False
        return Translator.load(exported, onnx=ExportedOptions(self.threads, exact))

    def texts(self, cell: Cell) -> EvaluationSet:
        """Return what a cell is judged on."""
        return EvaluationSet.prepared(self.data or cell.config.data, "test").first(self.limit)


@dataclass(frozen=True)
class Exam:
    """The test set and a cell's trained model, with what is known of its training."""

    texts: EvaluationSet
    measures: Measures
    translator: Translator
    training: dict[str, Any]

    @classmethod
    def of(cls, cell: Cell, judge: Judge) -> "Exam":
        """Load both."""
        texts = judge.texts(cell)
        training = Checkpoint.open(cell.config.output / "final").metadata.training
        measures = measures_for(texts.target_language, texts.tokenised)
        return cls(texts, measures, judge.translator(cell), training)

    def outcome(self, question: Outcome, decoding: dict[str, Any]) -> Outcome:
        """Translate the test set in one way, and score it."""
        translator = decoded(self.translator, decoding)
        judged = judge_model(question.cell, translator, self.texts, self.measures)
        scores = judged.report.scores
        return replace(
            question,
            status="done",
            bleu=scores.bleu,
            chrf=scores.chrf,
            length_ratio=scores.length_ratio,
            repeated_words=scores.repeated_words,
            missing_words=scores.missing_words,
            sentences_per_second=judged.report.sentences_per_second,
            valid_bleu=float(self.training["valid_bleu"]),
            steps=int(self.training["steps"]),
            hours=float(self.training["hours"]),
            signatures={"BLEU": scores.bleu_signature, "chrF": scores.chrf_signature},
        )


def decoded(translator: Translator, decoding: dict[str, Any]) -> Translator:
    """Return a translator that decodes in one of the ways of a grid."""
    penalty = decoding.get("length_penalty")
    options = TranslateOptions(
        strategy=decoding.get("decode"), length_penalty=None if penalty is None else float(penalty)
    )
    return translator.with_options(options)
