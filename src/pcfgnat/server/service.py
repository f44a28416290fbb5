"""From a checked request to an answer: the right model, its queue, and what went wrong in plain words."""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import HTTPException, Request

from pcfgnat.decoding.constraints import NOTHING, Constraints
from pcfgnat.server.batching import Answer, Batcher, ClosingError, QueueFullError
from pcfgnat.server.drawings import add_drawings
from pcfgnat.server.guard import GONE
from pcfgnat.server.libretranslate import LibreRequest, libre_answer, lines_of, model_for, own_request
from pcfgnat.server.limits import Limits
from pcfgnat.server.metrics import Metrics
from pcfgnat.server.models import ServedModel, Task
from pcfgnat.server.schemas import ExplainRequest, ModelFacts, TranslateRequest, WantedConstraints
from pcfgnat.text.glossary import Term
from pcfgnat.translator import TranslateOptions

T = TypeVar("T")
Data = dict[str, Any]
Batches = Batcher[Task, Data]


class Service:
    """All models with their queues; the first one is the default."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits) -> None:
        if not models:
            raise ValueError("there must be at least one model to serve, got none")
        self.models, self.limits, self.metrics = dict(models), limits, Metrics()
        self._queues: dict[str, Batches] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Service":
        """Start the threads, and let every model work once, so that the first user need not wait."""
        for name, model in self.models.items():
            queue = Batcher(model.work, self.limits, self.metrics.batch_observer(name))
            self._queues[name] = await self._stack.enter_async_context(queue)
            self.metrics.watch_queue(name, queue.waiting)
            await queue(Task(TranslateOptions()), ["a"])
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Finish what was accepted."""
        await self._stack.aclose()

    async def translate(self, wanted: TranslateRequest, request: Request) -> Data:
        """Translate the texts of a request."""
        start = time.perf_counter()
        facts = self._facts(wanted.model)
        options = self._options(facts, wanted, wanted.results)
        options = replace(options, confidence=wanted.confidence, split=wanted.split, format=wanted.format)
        task = Task(options, trees=wanted.trees or bool(wanted.draw))
        texts = [wanted.text] if isinstance(wanted.text, str) else wanted.text
        answer = await self._answer(facts.name, task, texts, request)
        if wanted.draw:
            await asyncio.to_thread(add_drawings, answer.results, wanted.draw, wanted.width)
        found = {"translations": answer.results}
        return {**_settings(facts, task), **found, "timing": _timing(answer, start)}

    async def translate_like_libre(self, wanted: LibreRequest, request: Request) -> Data:
        """Translate the texts of a request in LibreTranslate's form: HTML whole, text line by line."""
        try:
            facts = model_for(wanted, [model.facts for model in self.models.values()])
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        lines = lines_of(wanted)
        if not lines:
            return libre_answer(wanted, [])
        found = await self.translate(own_request(wanted, facts, lines), request)
        return libre_answer(wanted, found["translations"])

    async def explain(self, wanted: ExplainRequest, request: Request) -> Data:
        """Return every node that a text's translation could have used."""
        start = time.perf_counter()
        facts = self._facts(wanted.model)
        task = Task(self._options(facts, wanted, results=1), explain=wanted.top)
        answer = await self._answer(facts.name, task, [wanted.text], request)
        return {**_settings(facts, task), "lattice": answer.results[0], "timing": _timing(answer, start)}

    def _facts(self, name: str | None) -> ModelFacts:
        """Look a model up by its name, which is never used for anything else."""
        if name is None:
            return next(iter(self.models.values())).facts
        if name not in self.models:
            raise HTTPException(422, f"model must be one of {', '.join(self.models)}, got {name!r}")
        return self.models[name].facts

    def _options(
        self, facts: ModelFacts, wanted: TranslateRequest | ExplainRequest, results: int
    ) -> TranslateOptions:
        """Check what depends on the model. Equal wishes give equal options, said or left to the model."""
        strategy, length_penalty = wanted.strategy, wanted.length_penalty
        if strategy is not None and strategy.partition(":")[0] not in facts.strategies:
            raise HTTPException(
                422,
                f"strategy must be one of {', '.join(facts.strategies)} for {facts.name}, got {strategy!r}",
            )
        return TranslateOptions(
            strategy=strategy or facts.strategy,
            length_penalty=facts.length_penalty if length_penalty is None else length_penalty,
            results=results,
            batch=self.limits.batch,
            constraints=_constraints(wanted.constraints),
            keep=wanted.keep,
        )

    async def _answer(self, name: str, task: Task, texts: list[str], request: Request) -> Answer[Data]:
        again = {"Retry-After": "1"}
        try:
            return await self._while_there(request, self._queues[name](task, texts))
        except QueueFullError as error:
            message = f"{self.limits.queue} texts are waiting already; try again in a moment"
            raise HTTPException(429, message, again) from error
        except ClosingError as error:
            raise HTTPException(503, "the server is about to stop", again) from error
        except TimeoutError as error:
            message = f"no answer within {self.limits.timeout:g} seconds; try again later"
            raise HTTPException(503, message, {"Retry-After": "5"}) from error
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    async def _while_there(self, request: Request, work: Awaitable[T]) -> T:
        """Wait as long as the client does, and not too long; what nobody waits for is cancelled."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({task, gone}, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if not gone.done():
                raise TimeoutError
            self.metrics.gone()
            raise HTTPException(GONE, "the client left")
        finally:
            task.cancel()
            gone.cancel()


def _constraints(wanted: WantedConstraints | None) -> Constraints:
    if wanted is None:
        return NOTHING
    return Constraints(
        require=tuple(wanted.require),
        forbid=tuple(wanted.forbid),
        prefix=wanted.prefix,
        glossary=tuple(Term(term.source, term.target) for term in wanted.glossary),
        max_characters=wanted.max_characters,
        strict=wanted.strict,
    )


async def _disconnected(request: Request) -> None:
    """Return when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _settings(facts: ModelFacts, task: Task) -> Data:
    return {
        "model": facts.name,
        "strategy": task.options.strategy,
        "length_penalty": task.options.length_penalty,
    }


def _timing(answer: Answer[Any], start: float) -> dict[str, float]:
    """Return the time spent in the queue, in the model, and in total."""
    return {
        "queue_ms": _milliseconds(answer.waited),
        "model_ms": _milliseconds(answer.worked),
        "total_ms": _milliseconds(time.perf_counter() - start),
        "batch_texts": answer.batch,
    }


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 3)
