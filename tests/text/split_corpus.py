"""A small corpus as the paper's pipeline leaves it, by sacremoses and subword-nmt themselves."""

import io
from dataclasses import dataclass
from functools import cache

import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from pcfgnat.text import SubwordTokenizer
from pcfgnat.text.pipeline import MosesSettings, RawSteps

ENGLISH = [
    "It's a well-known house, isn't it?",
    'The old man said: "We don\'t sell state-of-the-art houses."',
    "Mr. Miller lives in the U.S. (near Boston) & pays 1,250.50 $ a month.",
    "Is the new house older than the old one... or not?",
    "See www.example.org for new houses: 12:30 today!",
]
GERMAN = [
    "Das ist ein wohl-bekanntes Haus, nicht wahr?",
    'Der alte Mann sagte: "Wir verkaufen keine Häuser."',
    "Herr Müller wohnt in den USA (bei Boston) & zahlt 1.250,50 $ im Monat.",
    "Ist das neue Haus älter als das alte... oder nicht?",
    "Siehe www.example.org für neue Häuser: 12:30 heute!",
]


def tokenised(text: str, language: str, aggressive: bool = True) -> str:
    """Return a text as Moses' three scripts have it."""
    plain = MosesPunctNormalizer(language, perl_parity=True).normalize(text)
    printable = regex.sub(r"\p{C}", " ", plain)
    found = MosesTokenizer(language).tokenize(printable, aggressive_dash_splits=aggressive)
    return " ".join(found)


@dataclass(frozen=True)
class SplitCorpus:
    """Both sides, split, with the codes and all types."""

    codes: bytes
    english: list[str]
    german: list[str]

    @property
    def types(self) -> list[str]:
        letters = {own for line in self.english + self.german for own in line.replace("@@", "")} - {" "}
        words = {word for line in self.english + self.german for word in line.split()}
        return sorted(words | letters | {f"{letter}@@" for letter in letters})

    @property
    def vocabulary(self) -> bytes:
        return "".join(f"{own}\n" for own in self.types).encode()

    def bpe(self) -> BPE:
        return BPE(io.StringIO(self.codes.decode()), vocab=set(self.types))

    def tokenizer(self, moses: str = "aggressive") -> SubwordTokenizer:
        settings = MosesSettings("en", "de", moses == "aggressive") if moses else None
        return SubwordTokenizer(self.vocabulary, steps=RawSteps(self.codes, settings))


@cache
def split_corpus() -> SplitCorpus:
    english = [tokenised(line, "en") for line in ENGLISH]
    german = [tokenised(line, "de") for line in GERMAN]
    codes = io.StringIO()
    learn_bpe(io.StringIO("".join(f"{line}\n" for line in english + german)), codes, 60)
    bpe = BPE(io.StringIO(codes.getvalue()))
    return SplitCorpus(codes.getvalue().encode(), *(list(map(bpe.segment, own)) for own in (english, german)))
