"""Simulated rounds with helpers, and means of models through them."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ccesa
from ccesa.errors import ConfigError, TooFewClients
from ccesa.graphs import Complete
from ccesa.graphs.thresholds import Majority
from ccesa.plan import plan_helpers
from ccesa.privacy import DifferentialPrivacy
from ccesa.protocol import round as driver
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.simulate import Exactly, Independent, StepProbabilities, federate, simulate, simulation
from commands import run
from strategies import bits, generators

NOISE = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=4, norm=2.0, against="lies")


def played(clients: int = 12, helpers: int = 3, length: int = 50, *, agreed: dict | None = None, **options):
    federation = federate(clients, helpers=helpers, **agreed or {})
    return simulate(federation.charter.config(length=length), federation=federation, **options)


@settings(max_examples=20)
@given(st.integers(3, 12), st.integers(2, 5), bits, generators, st.integers(0, 2**32), st.data())
def test_any_dropouts_give_the_plain_sum_or_too_few(clients, helpers, size, generator, seed, data):
    gone = data.draw(st.sets(st.integers(0, clients - 1)))
    agreed = {"bits": size, "generator": generator}
    found = played(clients, helpers, agreed=agreed, seed=seed, dropout=Exactly({"mask": gone}))
    left = clients - len(gone)
    assert (found.outcome, found.exact) == (("aggregate", True) if left >= 3 else ("TooFewClients", False))
    assert found.survivors == (left if left >= 3 else 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_members_drop_out_where_they_are_asked_and_helpers_stay(threads, monkeypatch):
    monkeypatch.setattr(simulation, "helpful_threads", lambda most, size, count: most)
    found = played(400, length=5, dropout=Independent(0.2), seed=3, threads=threads)
    assert found.exact
    assert 400 * 0.2 - 30 < 400 - found.survivors < 400 * 0.2 + 30  # in one step, not in three
    with pytest.raises(ConfigError, match="unknown step 'share'; the steps of this round are mask"):
        played(dropout=StepProbabilities({"share": 0.1}))
    with pytest.raises(ConfigError, match=r"client 12 is not in 0\.\.11"):
        played(dropout=Exactly({"mask": {12}}))


@pytest.mark.parametrize("held", [0, 1 << 30])
def test_the_costs_of_members_helpers_and_server_are_told_apart(held, monkeypatch):
    """Whether helpers are asked about each vector as it comes, or about all at the end."""
    monkeypatch.setattr(driver, "HELD_BYTES", held)
    seen = []
    found = played(20, length=2000, progress=lambda *one: seen.append(one), threads=1)
    assert found.exact
    assert (found.helpers, found.degree_mean, found.mask_degree_mean) == (3, 0, 0)
    assert found.client_ms.keys() == {"mask"}
    assert found.helper_ms.keys() == {"key", "confirm", "unmask"}
    assert min(*found.client_ms.values(), *found.helper_ms.values(), found.server_ms) > 0
    price = plan_helpers(20, length=2000).cost
    assert found.client_bytes == {"sent": price.member.sent_bytes, "received": price.member.received_bytes}
    more = 0 if held else 19
    assert found.helper_bytes["sent"] == pytest.approx(price.helper.sent_bytes + 160 * more, abs=10 * more)
    assert found.helper_bytes["received"] == pytest.approx(price.helper.received_bytes + 138 * more, abs=8 * more)
    each = [one for one in seen if one[0] == "mask"]
    assert each[-1] == ("mask", 20, 20)
    assert [one for one in seen if one[0] == "confirm"][-1] == ("confirm", 3, 3)
    assert len([one for one in seen if one == ("confirm", 3, 3)]) == 1 + more


@pytest.mark.parametrize(("held", "questions"), [(1 << 30, 1), (0, 20)])
def test_everybodys_time_is_their_own(held, questions, monkeypatch):
    """Helpers may be asked in a pause of the members' exchange. The clock moves with each call alone."""
    clock = [time.process_time()]

    def slow(kind, seconds):
        receive = kind.receive

        def take(*given):
            clock[0] += seconds
            return receive(*given)

        monkeypatch.setattr(kind, "receive", take)

    for kind, seconds in ((Server, 1.0), (Client, 1000.0), (Helper, 1e6)):
        slow(kind, seconds)
    now = SimpleNamespace(process_time=lambda: clock[0], thread_time=lambda: clock[0])
    monkeypatch.setattr(simulation, "time", now)
    monkeypatch.setattr(driver, "HELD_BYTES", held)
    found = played(20, helpers=2, length=2000, threads=1)
    assert found.client_ms == pytest.approx({"mask": 1e6})
    assert found.helper_ms == pytest.approx({"key": 1e9, "confirm": questions * 1e9, "unmask": 1e9})
    assert found.server_ms == pytest.approx(1e3 * (20 + 2 * (2 + questions)), rel=0.01)


def test_everything_on_the_wire_is_overheard():
    seen = set()
    played(5, 2, overhear=lambda party, message: seen.add(party))
    assert seen == set(range(7))


# The command


def test_the_command_runs_a_round_with_helpers():
    done = run("simulate", "--guard", "assisted", "--clients", "20", "--length", "100", "--dropout", "0", "--json")
    found = json.loads(done.stdout)
    assert (found["exact"], found["survivors"], found["helpers"]) == (True, 20, 3)
    text = run("simulate", "--guard", "assisted", "--clients", "20", "--helpers", "2", "--dropout", "0").stdout
    assert "helper   one of 2: " in text
    assert "neighbours" not in text
    done = run("simulate", "--guard", "assisted", "--clients", "9", "--post-quantum", "--dropout-per-step", "mask=0.01")
    assert done.returncode == 0, done.stderr
    lost = run("simulate", "--guard", "assisted", "--clients", "3", "--dropout", "0.99")
    assert lost.returncode == 3
    assert "ccesa plan says: reliability of 20 bits is out of reach" in lost.stderr


def test_the_command_adds_noise_against_a_hub_that_lies():
    noise = ("--epsilon", "8", "--delta", "1e-5", "--rounds", "10", "--norm", "1", "--against", "lies")
    done = run("simulate", "--guard", "assisted", "--clients", "60", "--length", "200", *noise, "--json")
    found = json.loads(done.stdout)
    planned = plan_helpers(60, 0.1, length=200, privacy=DifferentialPrivacy(epsilon=8, delta=1e-5, rounds=10, norm=1.0))
    assert found["exact"]
    assert (found["noise"]["against"], found["noise"]["honest"]) == ("lies", planned.least_honest)
    assert found["noise"]["measured"] == pytest.approx(found["noise"]["expected"], rel=0.4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--helpers", "3"], "--helpers goes with --guard assisted: guard curious has no helpers"),
        (["--guard", "active", "--helpers", "3"], "guard active has no helpers"),
        (["--guard", "assisted", "--helpers", "1"], "helpers must lie in 2..16, not 1"),
        (["--guard", "assisted", "--degree", "4"], "guard assisted has no graph"),
        (["--guard", "assisted", "--graph", "complete"], "guard assisted has no graph"),
        (["--guard", "assisted", "--threshold", "4"], "guard assisted has no graph"),
        (["--guard", "assisted", "--accept"], "guard assisted has no graph"),
    ],
)
def test_a_mistake_ends_in_one_clear_line(arguments, says):
    done = run("simulate", "--clients", "20", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


# Means of models


def models(clients: int = 12) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(clients)
    return [{"w": rng.normal(size=(3, 4)), "b": rng.normal(size=4).astype(np.float32)} for _ in range(clients)]


@pytest.mark.parametrize("helpers", [2, 3, 16])
def test_a_mean_by_helpers_is_the_mean(helpers):
    given, weights = models(), [1.0, 2.0, 3.0] * 4
    found = ccesa.aggregate(given, weights=weights, helpers=helpers, dropout=0.2, seed=1)
    assert found.report.helpers == helpers
    assert found.report.exact
    kept = list(found.survivors)
    for name in ("w", "b"):
        wanted = np.average([given[one][name] for one in kept], axis=0, weights=[weights[one] for one in kept])
        assert np.allclose(found.mean[name], wanted, atol=1e-5)
    along = ccesa.aggregate(given, weights=weights, seed=1)
    helped = ccesa.aggregate(given, weights=weights, seed=1, helpers=helpers)
    assert all(np.array_equal(along.mean[name], helped.mean[name]) for name in ("w", "b"))


def test_three_members_are_enough():
    assert ccesa.aggregate(models(3), helpers=3).survivors == (0, 1, 2)
    with pytest.raises(TooFewClients, match="2 answered, the round needs 3"):
        ccesa.aggregate(models(3), helpers=3, dropout=Exactly({"mask": {1}}))


def test_a_mean_by_helpers_has_noise_against_a_server_that_lies():
    given = [np.zeros(600) for _ in range(20)]
    found = ccesa.aggregate(given, helpers=3, privacy=NOISE)
    planned = plan_helpers(20, 0.05, colluders=0, length=600, privacy=NOISE)
    assert found.mechanism == planned.mechanism
    assert found.mechanism.honest == planned.min_survivors
    assert np.sqrt(np.mean(found.mean**2)) == pytest.approx(found.noise, rel=0.3)
    with pytest.raises(ConfigError, match="use guard = active"):
        ccesa.aggregate(given, privacy=NOISE)


@pytest.mark.parametrize("more", [{"graph": Complete()}, {"threshold": Majority()}])
def test_helpers_take_the_place_of_a_graph(more):
    with pytest.raises(ConfigError, match="helpers take the place of a graph: leave out graph and threshold"):
        ccesa.aggregate(models(), helpers=3, **more)
    with pytest.raises(ConfigError, match=r"helpers must lie in 2\.\.16, not 1"):
        ccesa.aggregate(models(), helpers=1)
