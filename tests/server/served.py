"""A model whose speed the tests decide, and a server that runs in this process."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import uvicorn
from fastapi import FastAPI
from jaxtyping import Float, Int64

from pcfgnat.checkpoints.metadata import Card, DecodingDefaults
from pcfgnat.grammar.canvas import GRAPH
from pcfgnat.grammar.decoding import Grammars, LengthTable
from pcfgnat.grammar.tables import best_by_length
from pcfgnat.runtimes.base import Sources
from pcfgnat.server import ServedModel
from pcfgnat.server.models import facts_of
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import Translator

IMAGE = "<img/src=x/onerror=document.title='pwned'>"
SCRIPT = "</svg><script>document.title='pwned'</script>"
WORDS = ["one", "two", "three", "four", "se@@", "ven", "poison", IMAGE, SCRIPT, "&amp;", '"', "]]>"]
TOKENIZER = SubwordTokenizer("\n".join(WORDS).encode())


class Echo:
    """Repeats its source, its tree a chain; it waits while `gate` is closed, and fails on `poison`."""

    max_source_length = 12

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[int] = []
        self.calls = 0  # those at the gate included

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield graphs in which every vertex leads to the next."""
        self.calls += 1
        assert self.gate.wait(60)
        self.batches.append(len(sources))
        if any(TOKENIZER.encode("poison")[1] in source for source in sources):
            raise RuntimeError("poisoned")
        most, count = max(map(len, sources)), len(sources)
        chain = np.full((count, most, 1, most), -np.inf)
        chain[:, np.arange(most - 1), 0, np.arange(1, most)] = 0.0
        prefix, lengths = np.zeros((count, most, 0)), np.array([len(source) for source in sources])

        def tabulate(token_scores: Float[np.ndarray, "B m"], limit: int) -> LengthTable:
            return best_by_length(token_scores, chain, prefix, lengths, limit, 1)

        tokens = np.array([[*source, *[0] * (most - len(source))] for source in sources])
        yield range(count), Grammars(chain, prefix, lengths, GRAPH, Repeated(tokens), tabulate)


@dataclass(frozen=True)
class Repeated:
    """Every node emits one token, each as probable as the others."""

    tokens: Int64[np.ndarray, "B M"]

    def everywhere(self) -> tuple[Float[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of every node."""
        return np.full(self.tokens.shape, -1.0), self.tokens

    def at(
        self, nodes: Sequence[Int64[np.ndarray, "_"]]
    ) -> list[tuple[Float[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
        """Return the same of some nodes of each sentence."""
        return [(np.full(len(own), -1.0), self.tokens[i, own]) for i, own in enumerate(nodes)]

    def log_probs(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes."""
        found = np.full((len(nodes), TOKENIZER.vocabulary_size), -np.inf)
        found[np.arange(len(nodes)), self.tokens[index, nodes]] = -1.0
        return found

    def top(self, index: int, count: int) -> tuple[Int64[np.ndarray, "M k"], Float[np.ndarray, "M k"]]:
        """Return the one token of every node."""
        return self.tokens[index, :, None], np.full((self.tokens.shape[1], 1), -1.0)

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the one token of every node."""
        return self.tokens[index, :, None].copy()

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node."""
        return np.where(self.tokens[index][:, None] == tokens, -1.0, -np.inf)


def echo(name: str = "echo") -> tuple[Echo, ServedModel]:
    """Return the model, and the same as it is served."""
    model = Echo()
    translator = Translator(model, TOKENIZER, DecodingDefaults("viterbi"))
    facts = facts_of(translator, name=name, kind="echo", card=Card(title="repeats"), languages=("", ""))
    return model, ServedModel(translator, facts)


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Run a server in a thread; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
