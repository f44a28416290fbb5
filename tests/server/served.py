"""A model whose speed the tests decide, and a server that runs in this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import uvicorn
from fastapi import FastAPI
from torch import nn

from pcfgnat.checkpoints.metadata import Card
from pcfgnat.networks import Batch, Loss, Model
from pcfgnat.server import ServedModel
from pcfgnat.server.models import facts_of
from pcfgnat.structures import Hypothesis, Padded, ParseTree, Search, SupportTree
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import Translator

IMAGE = "<img/src=x/onerror=document.title='pwned'>"
SCRIPT = "</svg><script>document.title='pwned'</script>"
WORDS = ["one", "two", "three", "four", "se@@", "ven", "poison", IMAGE, SCRIPT, "&amp;", '"', "]]>"]
TOKENIZER = SubwordTokenizer("\n".join(WORDS).encode())


class Echo(Model):
    """Repeats its source, its tree a chain; it waits while `gate` is closed, and fails on `poison`."""

    loss_weight = "sentences"
    strategies = ("viterbi", "greedy")

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[int] = []
        self.calls = 0  # those at the gate included

    @property
    def max_source_length(self) -> int:
        return 12

    def loss(self, batch: Batch, progress: float) -> Loss:
        raise NotImplementedError

    def translate(self, source: Padded, search: Search) -> list[list[Hypothesis]]:
        self.calls += 1
        assert self.gate.wait(60)
        self.batches.append(len(source.lengths))
        sentences = source.to_lists()
        if any(TOKENIZER.encode("poison")[1] in ids for ids in sentences):
            raise RuntimeError("poisoned")
        return [[self._hypothesis(ids)] for ids in sentences]

    @staticmethod
    def _hypothesis(ids: list[int]) -> Hypothesis:
        nodes = tuple(range(1, len(ids) + 1))
        tree = ParseTree(SupportTree(len(ids), prefix_depth=0), nodes, tuple(ids))
        return Hypothesis(tuple(ids), -1.0 * len(ids), nodes, tree)


def echo(name: str = "echo") -> tuple[Echo, ServedModel]:
    """Return the model, and the same as it is served."""
    model = Echo()
    translator = Translator(model, TOKENIZER)
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
