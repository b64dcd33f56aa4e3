"""Several hubs on one database, killed, cut off or overtaken between any two calls of the store."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccesa.service.hub import engine
from engines import World, check, federation
from series_rounds import GUARDS

MEMORY = Path("/dev/shm")  # noqa: S108 - nothing here has to outlive a power cut


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "AWAY", 0.0)


@pytest.mark.parametrize("guard", GUARDS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 1 << 32), hubs=st.integers(1, 3))
def test_hubs_that_are_stopped_anywhere_are_one_server(guard, seed, hubs):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = World(f"sqlite:///{folder}/a.db", federation(guard), seed, hubs)
        world.run(troubles=12)
        check(world)
        world.close()
