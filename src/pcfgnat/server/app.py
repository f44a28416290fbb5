"""The HTTP application: `create_app(models)` for any ASGI server, `pcfgnat serve` for this one."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Discriminator, Tag
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from pcfgnat import __version__
from pcfgnat.server.access import Access, offered_key
from pcfgnat.server.guard import Guard
from pcfgnat.server.libretranslate import Language, LibreRequest, LibreResponse, languages_of
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
    400: {"model": Problem, "description": "Not JSON, or languages that no model translates."},
    401: {"model": Problem, "description": "The server needs a key; see WWW-Authenticate."},
    403: {"model": Problem, "description": "Pages of this origin may not use the server."},
    408: {"model": Problem, "description": "The body came too slowly."},
    413: {"model": Problem, "description": "The body is too large."},
    422: {"model": Problem, "description": "Unprocessable request."},
    429: {
        "model": Problem,
        "description": "Too many texts are waiting; see Retry-After.",
    },
    503: {"model": Problem, "description": "No answer in time, or the server stops; see Retry-After."},
}
DESCRIPTION = "Translation in one parallel step, with the parse trees behind it."
LOG = logging.getLogger("pcfgnat.server")
TAGS = ("body", "own", "libre")


def _style(body: Any) -> str:
    """Return the kind of a request: LibreTranslate's has `q`."""
    return "libre" if isinstance(body, LibreRequest) or (isinstance(body, dict) and "q" in body) else "own"


TranslateBody = Annotated[
    Annotated[TranslateRequest, Tag("own")] | Annotated[LibreRequest, Tag("libre")], Discriminator(_style)
]


def create_app(
    models: Mapping[str, ServedModel], limits: Limits | None = None, access: Access | None = None
) -> FastAPI:
    """Create the application; its models start and stop with it."""
    service, access = Service(models, limits or Limits()), access or Access()

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
    _add_api(app, service, access)
    _add_libretranslate(app, service)
    files = _add_files(app)
    for error, handler in (
        (RequestValidationError, _invalid),
        (HTTPException, _refused),
        (Exception, _failed),
    ):
        app.add_exception_handler(error, handler)
    paths = frozenset([*app.openapi()["paths"], *files, "/openapi.json"])
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key", "x-request-id"],
            expose_headers=["retry-after", "x-request-id"],
        )
    app.add_middleware(Guard, metrics=service.metrics, paths=paths, access=access)
    return app


def _add_api(app: FastAPI, service: Service, access: Access) -> None:
    def require_key(request: Request, in_body: str | None = None) -> None:
        if not access.knows(offered_key(request.scope) or in_body):
            how = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "a key is needed, as in `Authorization: Bearer KEY`", how)

    @app.post(
        "/translate",
        response_model=TranslateResponse | LibreResponse,
        responses=PROBLEMS,
        summary="Translate texts",
    )
    async def translate(wanted: TranslateBody, request: Request) -> Response:
        """Translate one text or several. Concurrent requests are translated together."""
        if isinstance(wanted, LibreRequest):
            require_key(request, wanted.api_key)
            return JSONResponse(await service.translate_like_libre(wanted, request))
        require_key(request)
        return JSONResponse(await service.translate(wanted, request))

    @app.post("/explain", response_model=ExplainResponse, responses=PROBLEMS, summary="Explain a translation")
    async def explain(wanted: ExplainRequest, request: Request) -> Response:
        """Return every node that the translation could have used, with its best tokens and rules."""
        require_key(request)
        return JSONResponse(await service.explain(wanted, request))

    @app.get("/models", response_model=Models, summary="List the models")
    async def models() -> Response:
        """Return all models and their strategies; the first is the default."""
        known = Models(models=[model.facts for model in service.models.values()])
        return JSONResponse(known.model_dump())

    @app.get("/healthz", response_model=Health, summary="Health check")
    async def healthz() -> Response:
        """Answer as soon as requests are accepted."""
        return JSONResponse({"status": "ok", "version": __version__})

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def metrics(request: Request) -> Response:
        """Return requests, times, sizes of batches and lengths of queues in Prometheus' text format."""
        require_key(request)
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_libretranslate(app: FastAPI, service: Service) -> None:
    @app.get("/languages", response_model=list[Language], summary="List the languages")
    async def languages() -> Response:
        """Return the languages of all models and what they can be translated into, as LibreTranslate does."""
        found = languages_of(model.facts for model in service.models.values())
        return JSONResponse([language.model_dump() for language in found])

    @app.get("/health", response_model=Health, summary="Health check")
    async def health() -> Response:
        """Answer as soon as requests are accepted; LibreTranslate's name for it."""
        return JSONResponse({"status": "ok", "version": __version__})


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
    """Report what is wrong with a request, without repeating its contents."""
    assert isinstance(error, RequestValidationError)
    entries = error.errors()
    status = 400 if any(entry["type"] == "json_invalid" for entry in entries) else 422
    return _problem(status, "; ".join(_complaint(entry) for entry in entries[:5]))


def _complaint(entry: Mapping[str, Any]) -> str:
    if entry["type"] == "json_invalid":
        return "the body must be JSON"
    place = ".".join(str(part)[:40] for part in entry["loc"] if part not in TAGS)
    return f"{place or 'the body'}: {entry['msg']}"


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, str(error.detail), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    fields = {"request_id": request.state.request_id, "method": request.method}
    LOG.error("a request failed", exc_info=error, extra=fields)
    return _problem(500, "the server made a mistake; its log says more")


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a problem; in ASCII, because what it quotes need not be encodable."""
    body = json.dumps({"detail": detail, "error": detail})
    return Response(body, status, headers, media_type="application/json")
