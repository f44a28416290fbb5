"""Many clients at once: nobody is forgotten, nothing fails, memory stays."""

import asyncio
from argparse import Namespace

import psutil
import pytest
from benchmarks.serve_load import measured, put_load, serving

from pcfgnat.server import Limits, create_app
from tests.server.served import echo, running


def test_every_client_is_answered() -> None:
    model, served = echo()
    with running(create_app({"echo": served})) as address:
        load = asyncio.run(put_load(address, clients=20, seconds=1.0))
    assert load.errors == {}
    assert load.statuses[200] >= 20
    assert load.counted == sum(load.statuses.values())
    assert max(model.batches) > 1


def test_a_short_queue_sends_clients_away_and_loses_none() -> None:
    _, served = echo()
    with running(create_app({"echo": served}, Limits(batch=1, queue=1))) as address:
        load = asyncio.run(put_load(address, clients=20, seconds=1.0))
    assert load.errors == {}
    assert load.statuses[429] > 0
    assert load.statuses[200] > 0
    assert load.counted == sum(load.statuses.values())


@pytest.mark.slow
def test_two_hundred_clients_for_half_a_minute() -> None:
    with serving() as (address, process):
        wanted = Namespace(clients=200, seconds=30.0, model=None)
        load = asyncio.run(measured(address, psutil.Process(process.pid), wanted))
    assert load.errors == {}
    assert load.counted == sum(load.statuses.values())
    assert load.megabytes[-1] < 1.2 * load.megabytes[0] + 50
