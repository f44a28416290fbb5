"""What the server writes about itself: a line per event, as text or as JSON; never what was translated."""

import json
import logging
import re
import sys
import time
import uuid
from typing import Literal

LEVELS = ("critical", "error", "warning", "info", "debug")
FIELDS = ("request_id", "method", "path", "status", "milliseconds", "client")
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
REQUESTS = logging.getLogger("pcfgnat.requests")

LogFormat = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """An object per line: time, level, logger, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Write an event; line breaks inside it are escaped."""
        data: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        data |= {name: record.__dict__[name] for name in FIELDS if name in record.__dict__}
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps(data, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write an event, with a traceback below it if there is one."""
        fields = " ".join(f"{name}={record.__dict__[name]}" for name in FIELDS if name in record.__dict__)
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()} {fields}"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return line.rstrip() + trace


def configure_logging(level: str, form: LogFormat) -> None:
    """Send all events from a level upwards to stderr."""
    if level not in LEVELS:
        raise ValueError(f"the log level must be one of {', '.join(LEVELS)}, got {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("numba", "asyncio"):  # of no interest at the level `debug`
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def request_id(offered: bytes) -> str:
    """Return the id that a proxy gave to a request, or a new one."""
    return offered.decode("ascii") if REQUEST_ID.fullmatch(offered) else uuid.uuid4().hex


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"
