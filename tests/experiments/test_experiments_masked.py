"""CIFAR-10 with every mask real, at its smallest, and without a GPU."""

import json
from dataclasses import replace

import numpy as np
import pytest
from experiments.cifar_masked import run
from experiments.cifar_masked.protocol import Protocol
from experiments.cifar_masked.setup import FULL, QUICK, Series

from ccesa.crypto import masks
from ccesa.errors import ConfigError
from experiments import rounds

FEW = replace(QUICK, clients=20, rounds=3, training=200, test=50)
SERIES = Series(clients=30, length=17, seed=1)


def vectors(series):
    rng = np.random.default_rng(3)
    return rng.integers(2**32, size=(series.clients, series.length), dtype=np.uint64).astype("<u4")


def masked(prepared, drawn):
    """What the device does: for each client that sends a vector, all its masks."""
    sent = {client: drawn[client].copy() for client in prepared.masks}
    for client, vector in sent.items():
        masks.add_masks(vector, prepared.masks[client], "chacha20")
    return sent


@pytest.mark.parametrize("number", range(3))
def test_a_round_with_its_front_end_on_the_device_is_the_whole_round(number):
    """The same keys, graph, survivors and sum; two rounds are open at a time."""
    task, other, drawn = SERIES.task(number), SERIES.task(number + 1), vectors(SERIES)
    protocol = Protocol(0)
    prepared = protocol.prepare(task)
    protocol.prepare(other)
    sent = masked(prepared, drawn)
    total = np.add.reduce(list(sent.values()), dtype="<u4")
    found = protocol.finish(task.config.context, total.tobytes())
    whole = rounds.ran(task.config, lambda client: drawn[client], task.gone, task.seed).result
    assert found.survivors == list(whole.survivors) == sorted(sent)
    assert found.vector == whole.vector.tobytes()
    witness = prepared.witness
    assert witness.masked(task, drawn[witness.client]) == sent[witness.client].tobytes()
    assert len(found.left) == 4
    assert found.taken_off >= len(found.survivors)


def test_a_mask_that_is_missing_spoils_the_sum():
    task, drawn, protocol = SERIES.task(0), vectors(SERIES), Protocol(0)
    prepared = protocol.prepare(task)
    prepared.masks[prepared.witness.client].pop()
    sent = masked(prepared, drawn)
    total = np.add.reduce(list(sent.values()), dtype="<u4")
    found = protocol.finish(task.config.context, total.tobytes())
    assert found.vector != np.add.reduce(drawn[found.survivors], dtype="<u4").tobytes()


def test_a_sum_of_another_length_is_refused():
    task, protocol = SERIES.task(0), Protocol(0)
    protocol.prepare(task)
    with pytest.raises(ConfigError, match="sum: expected 68 bytes, got 4"):
        protocol.finish(task.config.context, bytes(4))


def test_dropouts_come_in_every_step_and_masks_are_chacha20_s():
    series = Series(clients=FULL.clients, length=9, seed=1)
    gone = series.task(0).gone
    assert set(gone) == {"advertise", "share", "mask", "unmask"}
    assert all(10 < len(some) < 50 for some in gone.values())
    assert series.config(0).generator == "chacha20"
    assert series.config(0).context != series.config(1).context


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(5)
    (tmp_path / "cifar10").mkdir()
    for name, size in (("train-0", FEW.training), ("test", FEW.test)):
        x, y = (rng.integers(0, 256, (size, 32, 32, 3)).astype(np.uint8), (np.arange(size) % 10).astype(np.uint8))
        np.savez_compressed(tmp_path / "cifar10" / f"{name}.npz", x=x, y=y)
    return tmp_path


@pytest.fixture
def tiny(monkeypatch):
    pytest.importorskip("torch")
    from experiments.cifar_masked import arms

    monkeypatch.setattr(run, "QUICK", FEW)
    monkeypatch.setattr(arms, "_SMALL_CLIENTS", 20)
    monkeypatch.setattr(arms, "_EVERY", 1)
    return arms


def options(data):
    return ["--quick", "--data", str(data), "--output", str(data / "out"), "--processes", "0"]


def results(data):
    return json.loads((data / "out" / "results.json").read_text())


def test_both_arms_train_the_same_model_and_go_on_where_they_stopped(data, tiny):
    run.main([*options(data), "--rounds", "2", "--stage", "train"])
    first = results(data)
    assert not first["about"]["complete"]
    assert [one["number"] for one in first["rounds"]] == [0, 1]
    run.main(options(data))
    found = results(data)
    assert found["about"]["complete"]
    assert found["rounds"][:2] == first["rounds"]
    assert found["all_exact"]
    assert found["same_models"]
    assert found["rounds"][0]["witness"], "one client's vector was held against a whole client's"
    assert (data / "out" / "cifar_masked.png").stat().st_size > 10_000
    run.main([*options(data), "--again"])
    assert [one["accuracy"] for one in results(data)["rounds"]] == [one["accuracy"] for one in found["rounds"]]


def test_no_round_is_begun_when_the_time_is_up(data, tiny):
    run.main([*options(data), "--minutes", "-1", "--stage", "train"])
    assert not (data / "out" / "results.json").exists()


def test_a_device_that_leaves_a_mask_out_is_found(data, tiny, monkeypatch):
    from experiments.cifar_masked import device

    def one_less(real):
        return lambda self, vectors: real(self, [masks[:-1] for masks in vectors])

    for kind in (device.Gpu, device.Processor):
        monkeypatch.setattr(kind, "upload", one_less(kind.upload))
    with pytest.raises(ArithmeticError, match="the sums differ"):
        run.main([*options(data), "--stage", "train"])
