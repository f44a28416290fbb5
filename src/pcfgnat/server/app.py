"""The HTTP application: `create_app(models)` for any ASGI server, `pcfgnat serve` for this one."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from pcfgnat import __version__
from pcfgnat.server.guard import Guard
from pcfgnat.server.limits import Limits
from pcfgnat.server.models import ServedModel
from pcfgnat.server.schemas import (
    ExplainRequest,
    ExplainResponse,
    Health,
    Models,
    Problem,
    TranslateRequest,
    TranslateResponse,
)
from pcfgnat.server.service import Service

PAGE = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
NICE_PATHS = {"index.html": "/", "docs.html": "/docs"}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is no JSON."},
    408: {"model": Problem, "description": "The body came too slowly."},
    413: {"model": Problem, "description": "The body is too large."},
    422: {"model": Problem, "description": "The request asks for what cannot be."},
    429: {
        "model": Problem,
        "description": "Too many texts are waiting; see Retry-After.",
    },
    503: {"model": Problem, "description": "No answer in time, or the server stops; see Retry-After."},
}
DESCRIPTION = "Translation in one parallel step, with the parse trees that it was written with."
LOG = logging.getLogger("pcfgnat.server")


def create_app(models: Mapping[str, ServedModel], limits: Limits | None = None) -> FastAPI:
    """Make the application; its models start and stop with it."""
    service = Service(models, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service:
            yield

    app = FastAPI(
        title="pcfgnat",
        description=DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads its scripts from other hosts
        redoc_url=None,
    )
    _add_api(app, service)
    files = _add_files(app)
    for error, handler in (
        (RequestValidationError, _invalid),
        (HTTPException, _refused),
        (Exception, _failed),
    ):
        app.add_exception_handler(error, handler)
    paths = frozenset([*app.openapi()["paths"], *files, "/openapi.json"])
    app.add_middleware(Guard, metrics=service.metrics, paths=paths)
    return app


def _add_api(app: FastAPI, service: Service) -> None:
    @app.post("/translate", response_model=TranslateResponse, responses=PROBLEMS, summary="Translate texts")
    async def translate(wanted: TranslateRequest, request: Request) -> Response:
        """Translate one text or several. Requests that come at the same time are worked on together."""
        return JSONResponse(await service.translate(wanted, request))

    @app.post("/explain", response_model=ExplainResponse, responses=PROBLEMS, summary="Explain a translation")
    async def explain(wanted: ExplainRequest, request: Request) -> Response:
        """Give every node that the translation of a text could have used, with its best tokens and rules."""
        return JSONResponse(await service.explain(wanted, request))

    @app.get("/models", response_model=Models, summary="List the models")
    async def models() -> Response:
        """Say which models there are and what they can do; the first is the default."""
        known = Models(models=[model.facts for model in service.models.values()])
        return JSONResponse(known.model_dump())

    @app.get("/healthz", response_model=Health, summary="Say whether the server works")
    async def healthz() -> Response:
        """Answer as soon as requests are taken."""
        return JSONResponse({"status": "ok", "version": __version__})

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def metrics() -> Response:
        """Give requests, times, sizes of batches and lengths of queues in Prometheus' text format."""
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_files(app: FastAPI) -> list[str]:
    """Serve the page and return its paths. Its files are read now, and none when a request comes."""
    paths = []
    for file in sorted(PAGE.iterdir()):
        paths.append(NICE_PATHS.get(file.name, f"/{file.name}"))
        app.router.add_route(paths[-1], _file(file.read_bytes(), KINDS[file.suffix]), include_in_schema=False)
    return paths


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def file(request: Request) -> Response:
        return Response(content, media_type=kind)

    return file


async def _invalid(request: Request, error: Exception) -> Response:
    """Say what is wrong with a request, without repeating what it contains."""
    assert isinstance(error, RequestValidationError)
    return _problem(422, "; ".join(_complaint(entry) for entry in error.errors()[:5]))


def _complaint(entry: Mapping[str, Any]) -> str:
    place = ".".join(str(part)[:40] for part in entry["loc"] if part != "body")
    return f"{place or 'the body'}: {entry['msg']}"


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, str(error.detail), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem(500, "the server made a mistake; its log says more")


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a problem; in ASCII, because what it quotes need not be encodable."""
    body = json.dumps({"detail": detail})
    return Response(body, status, headers, media_type="application/json")
