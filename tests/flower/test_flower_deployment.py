"""Secure rounds between real processes: a SuperLink and SuperNodes, some of which die within a round."""

import numpy as np
import pytest

from flower_federation import LENGTH, Federation

pytestmark = pytest.mark.flower


def change(site: int) -> np.ndarray:
    return np.random.default_rng(site).uniform(-1.0, 1.0, LENGTH).astype(np.float32)


def mean_of(sites, value):
    return np.average([value(site) for site in sites], axis=0, weights=[10 + site for site in sites])


def die(federation: Federation, dying: dict[str, int], rounds: int) -> dict:
    """The results of a run in which each of these sites dies when it gets to its step."""
    for step, site in dying.items():
        (federation.folder / f"hang-{site}-{step}").touch()
    try:
        federation.start()
        federation.submit(rounds)
        for site in dying.values():
            federation.wait_for(f"there-{site}", 900)
            federation.kill(f"supernode-{site}")
        return federation.results(900)
    finally:
        federation.stop()


def test_a_node_dies_in_every_step_and_the_next_round_goes_on_without_them(tmp_path):
    dying = {"advertise": 1, "share": 3, "mask": 4, "unmask": 6}
    found = die(Federation(tmp_path, 8, tls=False), dying, rounds=2)
    first = [site for site in range(8) if site not in (1, 3, 4)]  # the last one had sent its vector
    second = [site for site in range(8) if site not in dying.values()]
    expected = mean_of(first, change) + mean_of(second, change)
    np.testing.assert_allclose(found["w"], expected, rtol=0, atol=1e-5)
    for server_round, sites in (("1", first), ("2", second)):
        assert found["metrics"][server_round]["site"] == pytest.approx(mean_of(sites, float), abs=1e-5)
    for counted in ("5 of 8 nodes in the sum", "4 of 4 nodes in the sum"):
        assert any(counted in line for line in found["said"])


def test_rounds_after_the_first_take_two_exchanges(tmp_path):
    """Nothing is left on the nodes but what they remember."""
    found = die(Federation(tmp_path, 4, tls=False), {}, rounds=3)
    np.testing.assert_allclose(found["w"], 3 * mean_of(range(4), change), rtol=0, atol=1e-5)
    assert [line.partition(", round ")[2] for line in found["said"] if "of a series" in line] == [
        "1 of a series: 5 exchanges",
        "2 of a series: 2 exchanges",
        "3 of a series: 2 exchanges",
    ]
    folders = list((tmp_path / "home" / "ccesa").iterdir())
    assert [len(list(folder.glob("mask-*"))) for folder in folders] == [3] * 4
    assert [len(list(folder.glob("state-*"))) for folder in folders] == [8] * 4


@pytest.mark.parametrize("step", ["mask", "confirm"])
def test_a_node_dies_in_an_active_round_over_tls(tmp_path, step):
    """Identities and charter come from the nodes' own configuration."""
    found = die(Federation(tmp_path, 6, tls=True, active=True), {step: 2}, rounds=1)
    survivors = [site for site in range(6) if site != 2 or step == "confirm"]
    np.testing.assert_allclose(found["w"], mean_of(survivors, change), rtol=0, atol=1e-5)
    assert any(f"{len(survivors)} of 6 nodes in the sum" in line for line in found["said"])
    assert found["metrics"]["1"]["site"] == pytest.approx(mean_of(survivors, float), abs=1e-5)
    remembered = [len(list(folder.glob("vector-*"))) for folder in (tmp_path / "home" / "ccesa").iterdir()]
    assert sorted(remembered) == [0 if step == "mask" else 1, 1, 1, 1, 1, 1]


def test_a_member_dies_in_a_round_with_helpers(tmp_path):
    """Two nodes only help, and one site helps, too. Each keeps its keys in its own folder, and none stays there."""
    found = die(Federation(tmp_path, 4, tls=False, helpers=2), {"mask": 2}, rounds=2)
    survivors = [site for site in range(4) if site != 2]
    np.testing.assert_allclose(found["w"], 2 * mean_of(survivors, change), rtol=0, atol=1e-5)
    assert sum("3 of " in line and "nodes in the sum, 3 helpers" in line for line in found["said"]) == 2
    for helper in (0, 4, 5):
        assert len(list((tmp_path / f"memory-{helper}").glob("answer-*"))) == 2
        assert not list((tmp_path / f"memory-{helper}" / "keys").iterdir())
