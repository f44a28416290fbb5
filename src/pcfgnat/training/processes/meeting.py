"""How processes find each other, also when torchrun has started them again.

torchrun keeps one store for all its attempts, in which gloo and NCCL leave addresses under fixed names. A new
process that reads what a dead one has written waits for nobody. So the processes of an attempt first agree on
a name that no other attempt has, and keep to their own part of the store.
"""

import hashlib
import time
import uuid
from datetime import timedelta

from torch.distributed import PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

PAUSE = 0.05  # seconds between two looks at the store


def own_store(timeout: timedelta) -> tuple[Store, int, int]:
    """Return a store that only the processes of this attempt use, this one's rank, and how many there are."""
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    return PrefixStore(agreed_name(store, rank, size, timeout), store), rank, size


def agreed_name(store: Store, rank: int, size: int, timeout: timedelta) -> str:
    """Wait until all processes see the same ones, and return what names them.

    Each writes a number of its own, and then a digest of all numbers that it sees. What dead processes wrote
    cannot contain the numbers of the living, so when all digests are equal, all have seen all.
    """
    end = time.monotonic() + timeout.total_seconds()
    present, digests = ([f"{kind}/{other}" for other in range(size)] for kind in ("present", "digest"))
    store.set(present[rank], uuid.uuid4().hex)
    while True:
        store.wait(present, timeout)
        digest = hashlib.sha256(b"".join(store.multi_get(present))).hexdigest()
        store.set(digests[rank], digest)
        store.wait(digests, timeout)
        seen = {bytes(value).decode() for value in store.multi_get(digests)}
        if seen == {digest}:
            return digest
        if time.monotonic() > end:
            raise RuntimeError(f"after {timeout} the processes still do not see the same {size}")
        time.sleep(PAUSE)
