"""One training of a grid, in a process of its own: `python -m pcfgnat.ablation.cell CONFIG.toml`.

A crash of one cell is no crash of the others. When the parent lets go of the pipe, because it was interrupted
or killed, the training saves and ends.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from pcfgnat.ablation.runner import INTERRUPTED
from pcfgnat.storage.toml import load_config
from pcfgnat.training import TrainConfig, train


def main(path: Path) -> int:
    """Train; the last line printed is the reason of a failure."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = train(load_config(TrainConfig, path))
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return 1
    return INTERRUPTED if result.interrupted else 0


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
