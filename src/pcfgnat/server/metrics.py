"""What the server counts, as Prometheus reads it."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one server; labels take no value from outside, so that their number stays small."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "pcfgnat_requests", "Requests answered", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "pcfgnat_request_seconds",
            "Time from a request's last byte to its answer",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self._batches = Histogram(
            "pcfgnat_batch_texts",
            "Texts worked on together",
            ["model"],
            buckets=TEXTS,
            registry=registry,
        )
        self._gone = Counter(
            "pcfgnat_clients_gone", "Clients that left before their answer", registry=registry
        )
        self._waiting = Gauge("pcfgnat_waiting_texts", "Texts in the queue", ["model"], registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def gone(self) -> None:
        """Count a client that did not wait."""
        self._gone.inc()

    def batch_observer(self, model: str) -> Callable[[int], None]:
        """Return what counts the batches of a model."""
        return self._batches.labels(model).observe

    def watch_queue(self, model: str, waiting: Callable[[], float]) -> None:
        """Ask for the length of a queue whenever somebody looks."""
        self._waiting.labels(model).set_function(waiting)

    def text(self) -> str:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry).decode()
