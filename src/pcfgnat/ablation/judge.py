"""How good the model of a cell is, decoded in several ways."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcfgnat.ablation.grid import Cell
from pcfgnat.ablation.outcome import Outcome
from pcfgnat.analysis import TextPairs
from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.evaluation import Measures, measures_for
from pcfgnat.text import Prepared
from pcfgnat.translator import TranslateOptions, Translator

WARM_UP_SENTENCES = 4


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

    texts: TextPairs
    measures: Measures
    translator: Translator
    training: dict[str, Any]

    @classmethod
    def of(cls, cell: Cell, judge: Judge) -> "Exam":
        """Load both."""
        data = Prepared.open(judge.data or cell.config.data)
        texts = TextPairs.prepared(data.directory, "test").first(judge.limit)
        language = str(data.report.settings.get("target_language", ""))
        measures = measures_for(language, data.tokenizer.kind == "subwords")
        final = cell.config.output / "final"
        training = Checkpoint.open(final).metadata.training
        return cls(texts, measures, Translator.load(final, judge.device), training)

    def outcome(self, question: Outcome, decoding: dict[str, Any]) -> Outcome:
        """Translate the test set in one way, and score it."""
        beta = decoding.get("beta")
        options = TranslateOptions(
            strategy=decoding.get("decode"), length_penalty=None if beta is None else float(beta)
        )
        translator = self.translator.with_options(options)
        source, _ = self.texts.sides_for(translator.tokenizer)
        translator(source[:WARM_UP_SENTENCES])  # kernels are compiled at their first use
        begin = time.perf_counter()
        lines = [str(translation) for translation in translator.stream(source)]
        seconds = time.perf_counter() - begin
        scores = self.measures.score(lines, self.texts.target)
        return replace(
            question,
            status="done",
            bleu=scores.bleu,
            chrf=scores.chrf,
            length_ratio=scores.length_ratio,
            sentences_per_second=len(lines) / max(seconds, 1e-9),
            valid_bleu=float(self.training["valid_bleu"]),
            steps=int(self.training["steps"]),
            hours=float(self.training["hours"]),
            signatures={"BLEU": scores.bleu_signature, "chrF": scores.chrf_signature},
        )
