"""How good the model of a cell is, decoded in several ways."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcfgnat.ablation.grid import Cell
from pcfgnat.ablation.outcome import Outcome
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.evaluation import EvaluationSet, Measures, judge_model, measures_for
from pcfgnat.translator import TranslateOptions, Translator


@dataclass(frozen=True)
class Judge:
    """What cells are judged on: the test part of `data`, or of their own, or its first sentences."""

    data: Path | None = None
    limit: int | None = None
    device: str = "cpu"

    def question(self, cell: Cell, decoding: dict[str, Any]) -> Outcome:
        """Return what is to be found out, without the answer."""
        first = "" if self.limit is None else f", first {self.limit}"
        test = f"{self.data or cell.config.data} test{first}"
        return Outcome(cell.name, {**cell.values, **decoding}, cell.fingerprint, test, "open")


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
        texts = EvaluationSet.prepared(judge.data or cell.config.data, "test").first(judge.limit)
        final = cell.config.output / "final"
        training = Checkpoint.open(final).metadata.training
        measures = measures_for(texts.target_language, texts.tokenised)
        return cls(texts, measures, Translator.load(final, judge.device), training)

    def outcome(self, question: Outcome, decoding: dict[str, Any]) -> Outcome:
        """Translate the test set in one way, and score it."""
        penalty = decoding.get("length_penalty")
        options = TranslateOptions(
            strategy=decoding.get("decode"), length_penalty=None if penalty is None else float(penalty)
        )
        judged = judge_model(question.cell, self.translator.with_options(options), self.texts, self.measures)
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
