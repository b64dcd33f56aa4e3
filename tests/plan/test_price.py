"""The planner's costs against real rounds: every byte, and work counted at the primitives. No clocks."""

from collections import Counter
from dataclasses import fields, replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.crypto import kernels, masks, primitives
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import calibration, plan
from ccesa.plan.calibration import calibrate
from ccesa.plan.paper import step_dropout
from ccesa.plan.price import Rates, Shape, Timing, _mean_id_bytes, price
from ccesa.simulate import federate, simulate
from rounds import Play, configure

SHAPE = Shape(clients=1000, degree=38, mask_degree=18, threshold=20, length=10_000, bits=32, dropout=0.1)
NOTHING = Timing((0, 1), (0.0, 0.0))
FREE = Rates(
    key_pair=0.0,
    agreement=0.0,
    verification=0.0,
    sealing=0.0,
    hybrid_sealing=0.0,
    splitting=NOTHING,
    joining=NOTHING,
    masking=NOTHING,
    taking=NOTHING,
    signed_taking=NOTHING,
    edge=0.0,
)
RATES = Rates(
    key_pair=4e-5,
    agreement=5e-5,
    verification=1e-4,
    sealing=1e-5,
    hybrid_sealing=2e-4,
    splitting=Timing((500, 30_000), (1e-4, 3e-4)),
    joining=Timing((50, 2000), (5e-6, 2e-5)),
    masking=Timing((256, 1 << 19), (2e-5, 1e-4)),
    taking=Timing((256, 1 << 19, 1 << 22), (5e-5, 5e-4, 6e-3)),
    signed_taking=Timing((256, 1 << 19, 1 << 22), (6e-5, 9e-4, 9e-3)),
    edge=3e-7,
)
#: Each takes more work when it grows.
GROWING = ["clients", "degree", "mask_degree", "threshold", "length"]


def shape_of(config, degree, mask_degree, dropout=0.0):
    return Shape(
        clients=config.clients,
        degree=degree,
        mask_degree=mask_degree,
        threshold=config.threshold.of(int(degree)),
        length=config.length,
        bits=config.bits,
        dropout=dropout,
        guard=config.guard,
    )


@pytest.mark.parametrize(
    ("clients", "graph", "length", "bits"),
    [
        (20, Harary(degree=8, mask_degree=4), 5, 8),
        (20, Complete(), 31, 64),
        (50, Complete(mask_degree=6), 64, 32),
        (140, Harary(degree=10), 100, 16),
        (300, Harary(degree=6, mask_degree=2), 20_000, 32),
    ],
)
def test_bytes_are_those_of_a_real_round(clients, graph, length, bits):
    config = configure(clients, graph=graph, length=length, bits=bits)
    report = simulate(config, seed=0)
    expected = price(shape_of(config, report.degree_mean, report.mask_degree_mean))
    assert report.client_bytes["sent"] == pytest.approx(expected.sent_bytes, abs=1e-6)
    assert report.client_bytes["received"] == pytest.approx(expected.received_bytes, abs=1e-6)
    assert expected.server_bytes == clients * (expected.sent_bytes + expected.received_bytes)


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_bytes_where_degrees_vary_are_right_in_the_mean(p):
    config = configure(60, graph=ErdosRenyi(p=p), length=300)
    report = simulate(config, seed=0)
    expected = price(shape_of(config, report.degree_mean, report.mask_degree_mean))
    assert report.client_bytes["sent"] == pytest.approx(expected.sent_bytes, rel=0.01)
    assert report.client_bytes["received"] == pytest.approx(expected.received_bytes, rel=0.01)


@pytest.mark.parametrize(("clients", "graph"), [(40, Complete()), (90, Harary(degree=10))])
def test_bytes_under_the_active_guard(clients, graph):
    federation = federate(clients, graph=graph)
    config = federation.charter.config(length=300)
    report = simulate(config, seed=0, federation=federation)
    expected = price(shape_of(config, report.degree_mean, report.mask_degree_mean))
    assert report.client_bytes["sent"] == pytest.approx(expected.sent_bytes, abs=1e-6)
    # Which siblings a proof has to add depends on who the neighbours are.
    assert report.client_bytes["received"] == pytest.approx(expected.received_bytes, rel=0.03)


@pytest.mark.parametrize(("accept", "least", "most"), [(False, 686, 746), (True, 784, 861)])
def test_bytes_are_those_of_the_specification(accept, least, most):
    """docs/protocol.md, section 11: a neighbour has 293 bytes, and all else is between two bounds."""

    def total(degree):
        found = price(replace(SHAPE, degree=degree, length=1, bits=8, accept=accept))
        return found.sent_bytes + found.received_bytes

    assert total(300) - total(299) == 293
    for degree in (2, 38, 1000, 60_000):
        assert least <= total(degree) - 293 * degree - 1 <= most


@pytest.mark.parametrize("clients", [3, 128, 129, 256, 257, 65_536, 65_540])
def test_ids_have_the_bytes_of_their_encoding(clients):
    encoded = [len(msgspec.msgpack.encode(number)) for number in range(clients)]
    assert _mean_id_bytes(clients) == pytest.approx(np.mean(encoded))


@pytest.fixture
def work(monkeypatch):
    """Counts agreements and bytes of keystream, whoever makes them."""
    counted = Counter()
    agree, chosen = primitives.agree, kernels.kernel()

    def counting_agree(private, public):
        counted["agreements"] += 1
        return agree(private, public)

    class Counting:
        def add(self, source, target, offset, some, generator):
            counted["keystream"] += target.nbytes * len(some)
            chosen.add(source, target, offset, some, generator)

        def threads_for(self, size, count):
            return 1

    def counting_agree_each(private, public):
        return [counting_agree(private, primitives.load_public_key(key)) for key in public]

    monkeypatch.setattr(primitives, "agree", counting_agree)
    monkeypatch.setattr(primitives, "agree_each", counting_agree_each)
    monkeypatch.setattr(masks, "kernel", Counting)
    return counted


@pytest.mark.parametrize(
    ("graph", "degree", "mask_degree"),
    [
        (Complete(), 23, 23),
        (Complete(mask_degree=4), 23, 4),
        (Harary(degree=8), 8, 8),
        (Harary(degree=10, mask_degree=6), 10, 6),
    ],
)
def test_work_is_that_of_a_real_round(work, graph, degree, mask_degree):
    config = configure(24, graph=graph, length=70, bits=32)
    expected = price(shape_of(config, degree, mask_degree))
    play = Play(config).until("unmask")
    assert work["agreements"] == 24 * expected.agreements
    assert work["keystream"] == 24 * expected.keystream_bytes
    work.clear()
    play.finish()
    assert work["agreements"] == expected.server_agreements == 0
    assert work["keystream"] == expected.server_keystream_bytes


def test_the_server_unmasks_for_those_who_drop_out_after_sharing(work):
    """Sixteen of 64, four in each step: about as many as are expected."""
    gone = {"advertise": range(4), "share": range(4, 8), "mask": range(8, 12), "unmask": range(12, 16)}
    config = configure(64, graph=Complete(), threshold=Fixed(t=33), length=3)
    play = Play(config).until("unmask", gone)
    work.clear()
    play.finish(gone)
    assert work["agreements"] == 4 * 52
    assert work["keystream"] == (52 + 4 * 52) * config.vector_bytes
    expected = price(shape_of(config, 63, 63, dropout=16 / 64))
    assert work["agreements"] == pytest.approx(expected.server_agreements, rel=0.08)
    assert work["keystream"] == pytest.approx(expected.server_keystream_bytes, rel=0.08)


@pytest.mark.parametrize("dropout", [0.05, 0.3])
@pytest.mark.parametrize(
    ("graph", "mask_degree"),
    [(Harary(degree=20, mask_degree=10), 10), (Complete(), 99), (ErdosRenyi(p=0.4, mask_p=0.1), 9.9)],
)
def test_expected_masks_of_the_server_are_the_mean(graph, mask_degree, dropout):
    rng, q, rounds = np.random.default_rng(1), step_dropout(dropout), 400
    agreements = survivors = 0
    for _ in range(rounds):
        v1 = np.flatnonzero(rng.random(100) >= q)
        drawn = draw(graph, rng.bytes(32), v1)
        v2 = rng.random(v1.size) >= q
        v3 = v2 & (rng.random(v1.size) >= q)
        agreements += int(drawn.live_mask_neighbours(v3)[v2 & ~v3].sum())
        survivors += int(v3.sum())
    shape = replace(SHAPE, clients=100, mask_degree=mask_degree, dropout=dropout, length=1, bits=8)
    expected = price(shape)
    assert agreements / rounds == pytest.approx(expected.server_agreements, rel=0.12)
    assert (agreements + survivors) / rounds == pytest.approx(expected.server_keystream_bytes, rel=0.05)


@given(st.sampled_from(GROWING), st.integers(1, 50))
def test_more_of_anything_costs_no_less(name, more):
    less, larger = price(SHAPE, RATES), price(replace(SHAPE, **{name: getattr(SHAPE, name) + more}), RATES)
    for known in fields(less):
        assert getattr(larger, known.name) >= getattr(less, known.name)


def test_dropout_costs_the_server_only():
    calm, stormy = price(replace(SHAPE, dropout=0.0), RATES), price(replace(SHAPE, dropout=0.3), RATES)
    assert (calm.sent_bytes, calm.client_seconds) == (stormy.sent_bytes, stormy.client_seconds)
    assert calm.server_agreements == 0 < stormy.server_agreements
    assert stormy.server_keystream_bytes > calm.server_keystream_bytes


def test_without_rates_there_is_no_time():
    assert price(SHAPE).client_seconds is None
    assert price(SHAPE).server_seconds is None
    assert price(SHAPE) == replace(price(SHAPE, RATES), client_seconds=None, server_seconds=None)


def test_time_is_the_sum_of_the_work():
    agreeing, found = price(SHAPE, replace(FREE, agreement=1.0)), price(SHAPE)
    assert agreeing.client_seconds == found.agreements
    assert agreeing.server_seconds == pytest.approx(found.server_agreements)
    masking = price(SHAPE, replace(FREE, masking=Timing((0, 1), (0.0, 1.0))))
    assert masking.client_seconds == pytest.approx(found.keystream_bytes)
    assert masking.server_seconds == pytest.approx(found.server_keystream_bytes)
    assert price(SHAPE, FREE).client_seconds == price(SHAPE, FREE).server_seconds == 0


def test_time_is_linear_in_the_rates():
    def doubled(rate):
        return rate._replace(seconds=tuple(2 * s for s in rate.seconds)) if isinstance(rate, Timing) else 2 * rate

    slow = Rates(**{known.name: doubled(getattr(RATES, known.name)) for known in fields(Rates)})
    assert price(SHAPE, slow).client_seconds == pytest.approx(2 * price(SHAPE, RATES).client_seconds)
    assert price(SHAPE, slow).server_seconds == pytest.approx(2 * price(SHAPE, RATES).server_seconds)


def test_every_rate_counts():
    for known in fields(Rates):
        hybrid = {"agreement": "x25519-mlkem768", "accept": True} if "hybrid" in known.name else {}
        shape = replace(SHAPE, guard="active", **hybrid)
        cheaper = price(shape, replace(RATES, **{known.name: getattr(FREE, known.name)}))
        full = price(shape, RATES)
        assert (cheaper.client_seconds, cheaper.server_seconds) != (full.client_seconds, full.server_seconds)


def test_a_curve_is_straight_between_and_beyond_its_measurements():
    curve = Timing((10, 20, 40), (1.0, 2.0, 6.0))
    assert [curve.at(size) for size in (0, 10, 15, 30, 40, 50)] == [1, 1, 1.5, 4, 6, 8]
    assert Timing((1, 2), (2.0, 1.0)).at(100) == 1.0  # noise makes nothing cheaper the more there is of it


def test_this_machine_has_rates():
    rates = calibrate()
    for known in fields(rates):
        rate = getattr(rates, known.name)
        if rate is None:
            assert known.name == "hybrid_sealing"
            assert not primitives.has_kem()
            continue
        curve = rate if isinstance(rate, Timing) else Timing((1,), (rate,))
        assert all(seconds > 0 for seconds in curve.seconds)
        assert list(curve.sizes) == sorted(set(curve.sizes))
        assert len(curve.sizes) == len(curve.seconds)
    assert price(SHAPE, rates).client_seconds > 0


def test_a_plan_computes_its_cost_and_does_not_measure_it(monkeypatch):
    monkeypatch.setattr(calibration, "_CLOCK", None)
    made = plan(100, 0.1)
    assert made.cost == price(made) == price(made.shape)
    assert made.cost.client_seconds is made.cost.server_seconds is None
    assert price(made, RATES) == price(made.shape, RATES)
    assert price(made, RATES).client_seconds > 0


def test_signatures_are_those_that_the_messages_show():
    active = replace(SHAPE, guard="active")
    assert price(SHAPE).verifications == 0
    assert price(active).verifications == 2 * SHAPE.degree
    checking = replace(FREE, verification=1.0)
    stay = 0.9**0.2  # five steps
    assert price(SHAPE, checking).server_seconds == 0
    assert price(active, checking).server_seconds == pytest.approx(1000 * (stay + stay**3 + stay**4))


def test_guards():
    assert price(replace(SHAPE, guard="active")).sent_bytes >= price(SHAPE).sent_bytes
    with pytest.raises(ConfigError, match="guard must be one of curious, active"):
        replace(SHAPE, guard="naive")


def test_a_client_of_a_thousand_moves_less_than_twelve_kilobytes_beside_its_vector():
    """In a series under ``curious``, on average over the ids; each message has its length in the envelope."""
    made = plan(1000, 0.1, accept=True)
    lengths = 4 * 2 * len(made.shape.steps)
    moved = made.cost.sent_bytes + made.cost.received_bytes + lengths - made.shape.vector_bytes
    assert 11_000 < moved <= 12_000
