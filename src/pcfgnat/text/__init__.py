"""From text to ids and batches: tokenizers, parallel corpora mapped into memory, and their preparation.

No torch and no network: ids are numpy arrays and lists.
"""

from pcfgnat.text.batches import Batches, BatchSettings, batches, cut, padded, share
from pcfgnat.text.cleaning import CleaningSettings
from pcfgnat.text.corpus import CorpusWriter, ParallelCorpus, write_corpus
from pcfgnat.text.lines import LineReader, PairReader, TextError, TextPair, open_lines, read_lines
from pcfgnat.text.prepare import PrepareSettings, prepare
from pcfgnat.text.prepared import Prepared, PrepareReport, SideReport, SplitReport
from pcfgnat.text.tokenizer import LearnSettings, SentencePieceTokenizer, SubwordTokenizer, Tokenizer

__all__ = [
    "BatchSettings",
    "Batches",
    "CleaningSettings",
    "CorpusWriter",
    "LearnSettings",
    "LineReader",
    "PairReader",
    "ParallelCorpus",
    "PrepareReport",
    "PrepareSettings",
    "Prepared",
    "SentencePieceTokenizer",
    "SideReport",
    "SplitReport",
    "SubwordTokenizer",
    "TextError",
    "TextPair",
    "Tokenizer",
    "batches",
    "cut",
    "open_lines",
    "padded",
    "prepare",
    "read_lines",
    "share",
    "write_corpus",
]
