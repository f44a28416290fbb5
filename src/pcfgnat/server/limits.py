"""What the server takes at most, so that one client cannot use it up."""

import math
from dataclasses import dataclass

TEXT_CHARACTERS = 2000
TEXTS = 32
BODY_BYTES = 1 << 19
BODY_SECONDS = 10.0
RESULTS = 8
TOP = 20
PHRASES = 16
TERMS = 200
PHRASE_CHARACTERS = 200
BETA = (-2.0, 5.0)
WIDTH = (200, 4000)


@dataclass(frozen=True)
class Limits:
    """What the operator of a server may choose.

    batch:   texts that are translated together
    wait:    seconds that a text waits for others to join it, if the model is idle
    queue:   texts that may wait for one model; who comes then is asked to come again
    timeout: seconds until a request is given up
    """

    batch: int = 64
    wait: float = 0.005
    queue: int = 512
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("batch", "queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.wait <= 60:
            raise ValueError(f"wait must be between 0 and 60 seconds, got {self.wait}")
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise ValueError(f"timeout must be more than 0 seconds, got {self.timeout}")
