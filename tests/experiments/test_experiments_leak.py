"""Attacks on the published sum: what they find without noise, and that noise keeps its promise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from experiments.faces import Faces
from experiments.faces_inversion.run import scored
from experiments.privacy.accuracy.digits import federation
from experiments.privacy.inversion import run as inversion
from experiments.privacy.inversion import tasks
from experiments.privacy.membership import attacks
from experiments.privacy.membership import run as membership
from experiments.privacy.published import DELTA, Setting, clipped
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ccesa.errors import RoundFailed
from experiments import faces, softmax

PERSONS, SHOTS, HEIGHT, WIDTH = 12, 5, 16, 12
EPSILON = st.floats(0.1, 40)


@pytest.fixture
def toy():
    """Faces with light above in common, some blocks of their own, and noise in every photograph."""
    rng = np.random.default_rng(7)
    light = np.linspace(60, -60, HEIGHT)[:, None]
    own = rng.integers(-60, 60, (PERSONS, 1, HEIGHT // 2, WIDTH // 2)).repeat(2, axis=2).repeat(2, axis=3)
    images = 128 + light + own + rng.normal(0, 10, (PERSONS, SHOTS, HEIGHT, WIDTH))
    return Faces(np.clip(images, 0, 255).astype(np.uint8) / 255)


@pytest.fixture
def folder(toy, tmp_path):
    person, shot = np.divmod(np.arange(PERSONS * SHOTS, dtype=np.int16), SHOTS)
    images = np.rint(255 * toy.images).astype(np.uint8).reshape(-1, HEIGHT, WIDTH)
    np.savez(tmp_path / "att_faces.npz", images=images, person=person, shot=shot)
    return tmp_path


def kept(part):
    """The committed results."""
    return json.loads((Path(part.__file__).parent / "results.json").read_text(encoding="utf-8"))


def setting(epsilon, clients=8, dimension=50, rounds=1, least=7):
    return Setting(clients=clients, dimension=dimension, norm=0.5, epsilon=epsilon, rounds=rounds, least=least)


# What is published


@pytest.mark.parametrize("gone", [(), (3,)])
@pytest.mark.parametrize("epsilon", [8.0, math.inf])
def test_a_real_round_publishes_what_is_added(epsilon, gone):
    sent = clipped(np.random.default_rng(1).normal(size=(8, 50)), 0.5)
    found = [setting(epsilon).total(sent, [5], gone=gone, real=real) for real in (True, False)]
    assert np.array_equal(*found)
    plain = np.delete(sent, gone, axis=0).sum(axis=0)
    assert np.allclose(found[0], plain, atol=1e-6) == math.isinf(epsilon)


def test_a_sum_of_fewer_than_the_noise_counts_on_is_not_published():
    with pytest.raises(RoundFailed):
        setting(8.0).total(np.zeros((8, 50)), [5], gone=(1, 2))


@pytest.mark.parametrize("rounds", [1, 4])
def test_the_noise_is_the_least_that_epsilon_allows(rounds):
    made = setting(3.0, dimension=20_000, rounds=rounds, least=8)
    total = made.total(np.zeros((8, 20_000)), [5], real=False)
    assert np.std(total) == pytest.approx(made.noise, rel=0.03)
    assert made.noise == pytest.approx(made.mechanism.curator, rel=0.01)


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6)), st.floats(1e-3, 1e3))
def test_clipped_rows_keep_their_direction(rows, norm):
    found = clipped(rows, norm)
    lengths = np.linalg.norm(found, axis=1)
    assert np.all(lengths <= norm * (1 + 1e-12))
    short = np.linalg.norm(rows, axis=1) <= norm
    assert np.array_equal(found[short], rows[short])
    assert np.allclose(found * np.linalg.norm(rows, axis=1)[:, None], rows * lengths[:, None])


# Faces


def test_a_photograph_sends_one_step_of_softmax_regression(toy):
    task = tasks.photographs(toy, 1)
    persons = task.data.clients
    pixels = task.data.train[2, 1] - task.mean
    error = np.eye(persons)[2] - softmax.softmax(np.zeros(persons))
    assert len(task.sent) == persons * task.data.train.shape[1]
    row = task.sent[2 * task.data.train.shape[1] + 1]
    assert np.allclose(row, clipped(np.outer(pixels, error).ravel(), tasks.NORM))


def test_who_tests_is_not_in_the_federation(toy):
    task = tasks.upright(toy, [1])
    assert sorted([*task.clients, *task.outside]) == list(range(PERSONS))
    assert len(task.sent) == len(task.clients) == 9
    # Upside down is another sign, so no client knows more than half of its pixels.
    image = task.sent[0].reshape(HEIGHT, WIDTH)
    assert np.allclose(image, -image[::-1])


@pytest.mark.parametrize("make", [tasks.persons, tasks.photographs])
def test_a_model_is_read_off_the_sum(toy, make):
    task = make(toy, 1)
    total = task.sent.sum(axis=0)
    assert task.accuracy(total) > 0.9
    found = scored(task.images(total), task.known)
    assert found["identified"] == task.known.persons


@pytest.fixture
def quick(monkeypatch):
    effort = inversion.Effort(
        epsilons=("1", "inf"),
        repeats={"persons": 2, "photographs": 1, "upright": 6},
        shrink={"persons": 1, "photographs": 1, "upright": 1},
    )
    monkeypatch.setattr(inversion, "QUICK", effort)


def test_inversion(quick, folder, tmp_path, monkeypatch):
    output = tmp_path / "out"
    call = ["--quick", "--data", str(folder), "--output", str(output)]
    inversion.main(call)
    rows = json.loads((output / "results.json").read_text())["rows"]
    found = {(row["task"], row["epsilon"]): row for row in rows}
    assert len(found) == 6
    for task in inversion.FULL.repeats:
        private, plain = found[task, "1"], found[task, "inf"]
        assert plain["rate"] == 1 == plain["most"]
        assert plain["noise"] == 0
        assert private["rate"] < 0.6
        assert private["similarity_mean"] < plain["similarity_mean"] - 0.5
    assert found["upright", "inf"]["accuracy"] == 1
    assert found["upright", "1"]["accuracy"] > 0.8 > found["persons", "1"]["accuracy"]
    assert (output / "inversion.png").stat().st_size > 10_000

    def again(*_):
        raise AssertionError("what is finished is not run again")

    monkeypatch.setattr(inversion, "one_row", again)
    inversion.main(call)
    with pytest.raises(AssertionError, match="finished"):
        inversion.main([*call, "--again"])


def test_the_same_seed_gives_the_same_noise(quick, toy):
    first, second = (inversion.Lab(toy, inversion.QUICK, 1).upright("1", 0) for _ in range(2))
    other = inversion.Lab(toy, inversion.QUICK, 2).upright("1", 0)
    assert np.array_equal(first.total, second.total)
    assert not np.array_equal(first.total, other.total)


def test_inversion_needs_faces(tmp_path):
    with pytest.raises(faces.ConfigError, match="no faces in"):
        inversion.main(["--quick", "--data", str(tmp_path), "--output", str(tmp_path)])


# Members


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32))
def test_the_area_counts_pairs(inside, outside, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 9, inside).astype(float), rng.integers(0, 9, outside).astype(float)
    pairs = np.sign(one[:, None] - other[None, :])
    assert attacks.area(one, other) == pytest.approx((1 + pairs.mean()) / 2)


def test_members_are_caught_above_all_but_a_hundredth():
    outside = np.arange(1000.0)
    assert attacks.caught(np.array([980.0, 995.0, 2000.0, -1.0]), outside) == 0.5
    assert attacks.caught(outside, outside) == pytest.approx(0.01)


@given(EPSILON)
def test_what_epsilon_allows(epsilon):
    """No more than the definition of differential privacy says, and more than chance."""
    bound = membership.limit(epsilon)
    assert 0.01 < bound["caught"] <= min(1, math.exp(epsilon) * 0.01 + DELTA)
    assert 0.5 < bound["area"] <= 1
    assert inversion.most(0.01, epsilon) == pytest.approx(bound["caught"])
    stronger = membership.limit(epsilon / 2)
    assert stronger["area"] < bound["area"]
    assert stronger["caught"] < bound["caught"]


def test_who_knows_everybody_else_knows_without_noise():
    sent = np.random.default_rng(1).normal(size=(10, 40))
    scores = attacks.informed(sent[:6].sum(axis=0), sent, 6)
    assert np.allclose(scores, [*np.sum(sent[:6] ** 2, axis=1), 0, 0, 0, 0])


def test_weighing_finds_members_where_projection_does_not():
    rng = np.random.default_rng(1)
    sent = rng.normal(size=(1000, 60)) * np.where(np.arange(60) < 3, 30.0, 1.0) + 20
    total, members = sent[:10].sum(axis=0), 10
    weighed = attacks.weighed(total, sent[:400], sent[400:], members, 0.0)
    plain = sent[:400] @ total
    assert attacks.area(weighed[:10], weighed[10:]) > 0.9
    assert attacks.area(plain[:10], plain[10:]) < 0.7


def test_the_loss_is_the_logarithm_of_the_probability():
    data = federation(3, [1])
    model = np.random.default_rng(1).normal(size=650)
    chances = softmax.softmax(data.images @ model.reshape(65, 10))
    found = attacks.loss(data, model, np.arange(3))
    assert np.allclose(found, np.log((chances * data.wanted).sum(axis=2)).mean(axis=1))


def test_two_sums_that_differ_by_a_client_give_it_away_without_noise():
    plain, noisy = (membership.difference(20, epsilon, [1]) for epsilon in ("inf", "1"))
    assert plain == {"correlation": pytest.approx(1, abs=1e-6), "identified": 1.0}
    assert abs(noisy["correlation"]) < 0.2


def test_membership(monkeypatch, tmp_path):
    tiny = membership.Effort(sizes=(20,), seeds=2, outside=30, others=30, real={20: 1}, informed=10, pairs=2)
    monkeypatch.setattr(membership, "QUICK", tiny)
    call = ["--quick", "--output", str(tmp_path)]
    membership.main(call)
    found = json.loads((tmp_path / "results.json").read_text())
    assert [row["epsilon"] for row in found["rows"]] == ["1", "3", "8", "inf"]
    assert found["informed"]["inf"]["area"] == 1
    assert found["informed"]["1"]["area"] < 0.8
    assert found["rows"][3]["noise"] == 0 < found["rows"][2]["noise"] < found["rows"][0]["noise"]
    assert [row["inf"]["real_rounds"] for row in found["seeds"]["20"]] == [1, 0]
    assert (tmp_path / "membership.png").stat().st_size > 10_000

    def again(*_):
        raise AssertionError("what is finished is not run again")

    monkeypatch.setattr(membership, "trained", again)
    monkeypatch.setattr(membership, "difference", again)
    membership.main(call)
    with pytest.raises(AssertionError, match="finished"):
        membership.main([*call, "--again"])


# What is kept


def test_kept_faces():
    """What docs/privacy.md says of them."""
    found = {(row["task"], row["epsilon"]): row for row in kept(inversion)["rows"]}
    assert found["persons", "inf"]["parameters"] == 412_200
    assert found["persons", "inf"]["rate"] == found["upright", "inf"]["rate"] == 1
    for epsilon in ("1", "3", "8", "30", "40"):
        assert found["persons", epsilon]["accuracy"] < 0.05, "no epsilon trains the paper's task"
    for which, row in found.items():
        spread = 3 * math.sqrt(row["most"] * (1 - row["most"]) / row["attacks"])
        assert row["rate"] <= row["most"] + spread, which
    assert found["upright", "8"]["accuracy"] > found["upright", "inf"]["accuracy"] - 0.02
    assert found["photographs", "8"]["rate"] == 1, "seven clients are one person there"
    assert found["photographs", "8"]["most"] > 0.99 > 0.5 > found["upright", "8"]["most"]


def test_kept_members():
    found = kept(membership)
    for epsilon, row in found["informed"].items():
        most = membership.limit(float(epsilon))
        assert row["area"] == pytest.approx(most["area"], abs=0.04)
        assert row["caught"] == pytest.approx(most["caught"], abs=0.08)
    for row in found["rows"]:
        for name, attack in row["attacks"].items():
            area, spread = attack["area"]
            assert area <= row["limit"]["area"] + spread + 0.01, (row["clients"], row["epsilon"], name)
    assert found["difference"]["inf"]["identified"] == found["difference"]["inf"]["pairs"]
