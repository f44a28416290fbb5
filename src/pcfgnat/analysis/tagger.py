"""Part-of-speech tags of English words: NLTK's averaged perceptron with the weights of textblob-aptagger."""

import hashlib
import io
import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pcfgnat.analysis.subject import AnalysisError

NAME = "NLTK PerceptronTagger with the weights of textblob-aptagger 0.2.0 (trontagger-0.1.0, Penn tags)"
FILE, SHA256 = "trontagger-0.1.0.pickle", "1109164b3d28dce58f96b763128bab2fd8754c3921fd3330de2724ac6d1ada7c"
MISSING = "tags need NLTK and textblob-aptagger: pip install 'pcfgnat[analysis]'"

Tagger = Callable[[Sequence[str]], list[str]]


@lru_cache(maxsize=1)
def english_tagger() -> Tagger:
    """Load the tagger; raise an error if it is not installed, or its weights are not the known ones."""
    spec = find_spec("textblob_aptagger")  # found, and never imported
    if spec is None or spec.origin is None or find_spec("nltk") is None:
        raise AnalysisError(MISSING)
    from nltk.tag.perceptron import PerceptronTagger

    path = Path(spec.origin).with_name(FILE)
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise AnalysisError(f"{path} must have the sha256 {SHA256}, got {found}")
    tagger = PerceptronTagger(load=False)
    tagger.model.weights, tagger.tagdict, tagger.classes = PlainUnpickler(io.BytesIO(content)).load()
    tagger.model.classes = tagger.classes
    return lambda words: [tag for _, tag in tagger.tag(list(words))]


class PlainUnpickler(pickle.Unpickler):
    """Reads numbers, strings, dicts, lists, tuples and sets, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        """Allow sets, which are the only thing that needs a name."""
        if (module, name) == ("__builtin__", "set"):
            return set
        raise pickle.UnpicklingError(f"only plain data is read, got {module}.{name}")
