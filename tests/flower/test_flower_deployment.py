"""Secure rounds between real processes: a SuperLink and SuperNodes, one of which dies while it trains."""

import numpy as np
import pytest

from flower_federation import LENGTH, Federation

pytestmark = pytest.mark.flower
NODES, DYING = 4, 2


def change(site: int) -> np.ndarray:
    return np.random.default_rng(site).uniform(-1.0, 1.0, LENGTH).astype(np.float32)


def mean_of(sites, value):
    return np.average([value(site) for site in sites], axis=0, weights=[10 + site for site in sites])


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_node_that_dies_in_the_middle_of_a_round(tmp_path, tls):
    """The round goes on with the three others, and so does the next."""
    federation = Federation(tmp_path, NODES, tls)
    (tmp_path / f"hang-{DYING}").touch()
    try:
        federation.start()
        federation.submit(rounds=2)
        federation.wait_for(f"training-{DYING}", 600)
        federation.kill(f"supernode-{DYING}")
        found = federation.results(900)
    finally:
        federation.stop()
    survivors = [site for site in range(NODES) if site != DYING]
    np.testing.assert_allclose(found["w"], 2 * mean_of(survivors, change), rtol=0, atol=1e-5)
    for server_round in ("1", "2"):
        assert found["metrics"][server_round]["site"] == pytest.approx(mean_of(survivors, float), abs=1e-5)
    for counted in ("3 of 4 nodes in the sum", "3 of 3 nodes in the sum"):
        assert any(counted in line for line in found["said"])
