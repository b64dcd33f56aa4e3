"""CIFAR-10 in all its forms, the two ways to a round's survivors, and tiny runs of both experiments."""

import io
import json
import pickle
import random
import tarfile
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest
from experiments.cifar_reliability import outcomes, picture, run
from experiments.cifar_reliability.setup import FULL, Effort
from experiments.membership import run as membership
from experiments.membership.setup import Crowd
from experiments.seeds import consecutive
from experiments.splits import SPLITS, split
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Majority
from ccesa.protocol.server import Aggregate
from ccesa.values.quantize import Quantizer
from experiments import arguments, cifar, gpu, record, rounds, sgd
from experiments import membership as membership_part

BATCHES, EACH, TEST = 5, 40, 30
FEW = Effort(clients=60, rounds=3, seeds=1, reals=(0, 0, 0), training=120, test=30, quick=True)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(5)
    total = BATCHES * EACH + TEST
    x = rng.integers(0, 256, (total, 32, 32, 3)).astype(np.uint8)
    y = (np.arange(total) % 10).astype(np.uint8)
    x[..., 0] = (x[..., 0] // 4) + 18 * y[:, None, None]  # something to learn
    return x, y


def parts(images):
    """data_batch_1 … data_batch_5, test_batch."""
    x, y = images
    ends = [*range(0, BATCHES * EACH + 1, EACH), len(y)]
    names = [*(f"data_batch_{k}" for k in range(1, BATCHES + 1)), "test_batch"]
    return {name: (x[a:b], y[a:b]) for name, a, b in zip(names, ends, ends[1:], strict=False)}


def planes(x):
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def binary(x, y):
    return np.concatenate([y[:, None], planes(x)], axis=1).tobytes()


def pickled(x, y):
    stored = {b"data": planes(x), b"labels": y.tolist(), b"batch_label": b"one"}
    return pickle.dumps(stored, protocol=2)


def write_npz(folder, images):
    x, y = images
    cut = 2 * EACH
    np.savez_compressed(folder / "train-0.npz", x=x[:cut], y=y[:cut])
    np.savez_compressed(folder / "train-1.npz", x=x[cut : BATCHES * EACH], y=y[cut : BATCHES * EACH])
    np.savez_compressed(folder / "test.npz", x=x[BATCHES * EACH :], y=y[BATCHES * EACH :])


def write_batches(folder, images, make, ending):
    folder.mkdir(exist_ok=True)
    for name, part in parts(images).items():
        (folder / (name + ending)).write_bytes(make(*part))


def write_archive(path, images, make, ending, inner):
    with tarfile.open(path, "w:gz") as archive:
        for name, part in parts(images).items():
            raw = make(*part)
            member = tarfile.TarInfo(f"{inner}/{name}{ending}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))


def check(found, images):
    x, y = images
    n = BATCHES * EACH
    assert np.array_equal(found.train_x, x[:n])
    assert np.array_equal(found.train_y, y[:n])
    assert np.array_equal(found.test_x, x[n:])
    assert np.array_equal(found.test_y, y[n:])


def test_numpy_archives_in_a_folder_of_several_data_sets(tmp_path, images):
    (tmp_path / "cifar10").mkdir()
    write_npz(tmp_path / "cifar10", images)
    check(cifar.load(tmp_path / "cifar10"), images)
    check(cifar.load(tmp_path), images)


@pytest.mark.parametrize(
    ("make", "ending", "inner", "archive"),
    [(binary, ".bin", *pair) for pair in [(cifar.FOLDERS[1], cifar.ARCHIVES[1])]]
    + [(pickled, "", *pair) for pair in [(cifar.FOLDERS[0], cifar.ARCHIVES[0])]],
)
def test_the_original_batches_and_their_archive(tmp_path, images, make, ending, inner, archive):
    write_batches(tmp_path / inner, images, make, ending)
    check(cifar.load(tmp_path / inner), images)
    check(cifar.load(tmp_path), images)
    packed = tmp_path / "packed"
    packed.mkdir()
    write_archive(packed / archive, images, make, ending, inner)
    check(cifar.load(packed), images)
    check(cifar.load(packed / archive), images)


@pytest.mark.parametrize("missing", ["train-0.npz", "train-1.npz", "test.npz"])
def test_a_missing_file_is_named_with_its_source(tmp_path, images, missing):
    write_npz(tmp_path, images)
    (tmp_path / missing).unlink()
    if missing.startswith("train"):
        with pytest.raises(ConfigError, match=r"due.*cs\.toronto\.edu"):
            cifar.check_complete(cifar.load(tmp_path))
    else:
        with pytest.raises(ConfigError, match=r"no complete CIFAR-10.*cs\.toronto\.edu"):
            cifar.load(tmp_path)


def test_a_gap_between_batches_is_seen(tmp_path, images):
    write_batches(tmp_path, images, binary, ".bin")
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(ConfigError, match=r"only \[1, 2, 4, 5\]"):
        cifar.load(tmp_path)


def test_no_folder_and_an_empty_one(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ConfigError, match="cifar-10-python"):
            cifar.load(path)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-7], lambda raw: b"x" * 100, lambda raw: b""])
def test_damaged_files_are_refused(tmp_path, images, damage):
    for make, ending in ((binary, ".bin"), (pickled, "")):
        folder = tmp_path / f"batches{ending}"
        write_batches(folder, images, make, ending)
        file = folder / f"data_batch_2{ending}"
        file.write_bytes(damage(file.read_bytes()))
        with pytest.raises(ConfigError, match=f"data_batch_2{ending} in .* is damaged"):
            cifar.load(folder)
    write_npz(tmp_path, images)
    (tmp_path / "train-1.npz").write_bytes(damage((tmp_path / "train-1.npz").read_bytes()))
    with pytest.raises(ConfigError, match=r"train-1\.npz in .* is damaged"):
        cifar.load(tmp_path)
    write_archive(tmp_path / "a.tar.gz", images, binary, ".bin", "x")
    (tmp_path / "a.tar.gz").write_bytes(damage((tmp_path / "a.tar.gz").read_bytes()))
    with pytest.raises(ConfigError, match=r"cs\.toronto\.edu"):
        cifar.load(tmp_path / "a.tar.gz")


def test_labels_beyond_nine_and_other_shapes_are_refused(tmp_path, images):
    write_npz(tmp_path, images)
    x, y = images
    for bad_x, bad_y in ((x, y + 1), (x[:, :16], y), (x.astype(np.int16), y), (x, y[:-1])):
        np.savez_compressed(tmp_path / "test.npz", x=bad_x, y=bad_y)
        with pytest.raises(ConfigError, match=r"test\.npz in .* is damaged"):
            cifar.load(tmp_path)


@pytest.mark.parametrize("name", ["train-0.npz", "data_batch_1"])
def test_no_damage_escapes_the_loader(tmp_path, name):
    """Bytes changed at random: either it can still be read, or it is refused with a source."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (2, 32, 32, 3)).astype(np.uint8), np.array([3, 9], np.uint8)
    for kind in ("train", "test"):
        np.savez_compressed(tmp_path / f"{kind}-0.npz".replace("test-0", "test"), x=x, y=y)
    more = {b"data": planes(x), b"labels": y.tolist(), b"filenames": [b"a%d.png" % k for k in range(300)]}
    raw = {"train-0.npz": (tmp_path / "train-0.npz").read_bytes(), "data_batch_1": pickle.dumps(more, protocol=2)}[name]
    (tmp_path / "train-0.npz").unlink()
    refused = 0
    for seed in range(400):
        draw, damaged = random.Random(seed), bytearray(raw)
        for _ in range(draw.choice([1, 1, 2, 4])):
            damaged[draw.randrange(min(len(raw), draw.choice([60, 400, len(raw)])))] = draw.randrange(256)
        (tmp_path / name).write_bytes(bytes(damaged[: draw.choice([len(raw)] * 4 + [len(raw) // 2])]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile's, about names that are there twice
            try:
                cifar.load(tmp_path)
            except ConfigError:
                refused += 1
    assert refused > 100


def test_a_pickle_of_other_arrays_is_refused(tmp_path, images):
    write_batches(tmp_path, images, pickled, "")
    for data in (np.zeros((30, 3072)), np.array([None] * 30), [1, 2], None):
        raw = pickle.dumps({b"data": data, b"labels": [1] * 30}, protocol=2)
        (tmp_path / "test_batch").write_bytes(raw)
        with pytest.raises(ConfigError, match=r"test_batch in .* is damaged"):
            cifar.load(tmp_path)


def test_a_pickle_that_runs_code_is_refused(tmp_path, images):
    write_batches(tmp_path, images, pickled, "")
    (tmp_path / "test_batch").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ConfigError, match=r"it asks for os\.system"):
        cifar.load(tmp_path)
    (tmp_path / "test_batch").write_bytes(b"cnumpy.f2py.diagnose\nrun\n(tR.")
    with pytest.raises(ConfigError, match=r"it asks for numpy\.f2py"):
        cifar.load(tmp_path)


@pytest.mark.parametrize(
    ("graph", "threshold", "dropout", "clients"),
    [
        (Complete(), Fixed(t=13), 0.3, 24),
        (ErdosRenyi(p=0.6), Fixed(t=9), 0.2, 24),
        (ErdosRenyi(p=0.15), Majority(), 0.3, 24),
        (Harary(degree=6, mask_degree=2), Majority(), 0.3, 24),
        (Harary(degree=8), Majority(), 0.2, 40),
        (Complete(), Majority(), 0.8, 5),
    ],
)
def test_the_protocol_and_its_rules_agree(graph, threshold, dropout, clients):
    """Aggregates and every kind of lost round among them."""
    names = set()
    for number in range(12):
        seed = [7, number]
        gone = rounds.dropouts(dropout, clients, seed)
        config = rounds.configured(seed, clients, 4, graph, threshold)
        outcome, graph_seed = outcomes.real(config, gone, seed)
        assert outcomes.ruled(config, gone, graph_seed) == outcome
        names.add(outcome.name)
    assert names <= {"aggregate", "Unreliable", "Disconnected", "TooFewClients"}


def test_both_ways_have_been_seen_to_fail_and_to_succeed():
    """The test above would be hollow if every round ended the same way."""
    names = set()
    for p, dropout in ((0.6, 0.05), (0.15, 0.3), (0.4, 0.3)):
        for number in range(25):
            gone = rounds.dropouts(dropout, 24, [8, number])
            config = rounds.configured([8, number], 24, 4, ErdosRenyi(p=p), Majority())
            names.add(outcomes.ruled(config, gone, bytes([number]) * 32).name)
    assert {"aggregate", "Unreliable"} <= names


def test_the_rounds_come_back_from_their_file(tmp_path):
    path = tmp_path / "rounds.json"
    outcomes.run(path, replace(FEW, reals=(0, 0, 1)), seed=3)
    found = outcomes.read(path)
    assert found.clients == 60
    assert found.real["ours"] == 1
    gone = [rounds.dropouts(0.1, 60, [3, 0, number]) for number in range(3)]
    before = [set().union(*(one[step] for step in ("advertise", "share", "mask"))) for one in gone]
    for key in ("sa", "ours"):
        for members, missing in zip(found.survivors[key], before, strict=True):
            assert members == tuple(sorted(set(range(60)) - missing))
    assert set(found.outcomes["p0.2"]) <= {"Unreliable", "TooFewClients", "Disconnected"}
    stored = path.read_text().replace('\\"left_out\\": []', '\\"left_out\\": [59]', 1)
    path.write_text(stored)
    with pytest.raises(ValueError, match="hash"):
        outcomes.read(path)


@pytest.fixture
def data(tmp_path, images):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    write_npz(folder, images)
    return folder


def test_rounds_go_on_where_they_were_broken_off(tmp_path, monkeypatch):
    path, whole = tmp_path / "rounds.json", tmp_path / "whole.json"
    monkeypatch.setattr(outcomes, "_EVERY", 1)
    real_one, made = outcomes._one, []

    def one(*arguments):
        if len(made) == 7:  # in the second round, of five schemes
            raise KeyboardInterrupt
        made.append(1)
        return real_one(*arguments)

    monkeypatch.setattr(outcomes, "_one", one)
    with pytest.raises(KeyboardInterrupt):
        outcomes.run(path, FEW, seed=3)
    assert not outcomes.is_complete(path, FEW, seed=3)
    assert len(outcomes.read(path).survivors["sa"]) == 1
    made.clear()
    monkeypatch.setattr(outcomes, "_one", lambda *rest: made.append(1) or real_one(*rest))
    outcomes.run(path, FEW, seed=3)
    assert len(made) == 10
    assert outcomes.is_complete(path, FEW, seed=3)
    assert not outcomes.is_complete(path, FEW, seed=4)
    assert not outcomes.is_complete(path, replace(FEW, rounds=4), seed=3)
    outcomes.run(whole, FEW, seed=3)
    assert outcomes.read(path) == outcomes.read(whole)
    made.clear()
    outcomes.run(path, FEW, seed=3)
    assert not made
    outcomes.run(path, FEW, seed=3, again=True)
    assert len(made) == 15


def options(tmp_path, data):
    return ["--quick", "--data", str(data), "--output", str(tmp_path)]


@pytest.fixture
def trained(monkeypatch):
    """Notes every round that is trained, of few and short ones."""
    pytest.importorskip("torch")
    from experiments.cifar_reliability import train

    done, real_round = [], train.Trainer._round
    monkeypatch.setattr(run, "QUICK", FEW)
    monkeypatch.setattr(train, "_MARGIN", 0.0)
    monkeypatch.setattr(train.Trainer, "_round", lambda self, *rest: done.append(1) or real_round(self, *rest))
    return done


def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_training_stops_in_time_goes_on_and_shares_models(tmp_path, data, trained):
    run.main([*options(tmp_path, data), "--minutes", "0", "--split", "iid"])
    stopped = results(tmp_path)
    assert not stopped["about"]["complete"]
    assert stopped["seeds"]["1"]["accuracy"]["iid"]["sa"] == [None] * 3
    run.main([*options(tmp_path, data), "--split", "iid"])
    assert not results(tmp_path)["about"]["complete"], "the other split is missing"
    assert len(trained) == 3
    run.main(options(tmp_path, data))
    result = results(tmp_path)
    assert result["about"]["complete"]
    assert len(trained) == 6  # two splits, three rounds; SA and ours share them, the sparse ones lose theirs
    for kind in ("iid", "shards"):
        curves = result["seeds"]["1"]["accuracy"][kind]
        assert curves["sa"] == curves["ours"]
        assert len(set(curves["p0.2"])) == 1
    assert (tmp_path / "cifar_reliability.png").stat().st_size > 10_000
    assert not (tmp_path / "state").exists(), "models are not kept when all is done"


def test_again_trains_again_and_makes_the_rounds_anew(tmp_path, data, trained):
    run.main(options(tmp_path, data))
    first, made = results(tmp_path), (tmp_path / "rounds-1.json").stat().st_mtime_ns
    run.main(options(tmp_path, data))
    assert len(trained) == 6, "a whole curve is not trained again, although its models are gone"
    run.main([*options(tmp_path, data), "--again"])
    assert len(trained) == 12
    assert (tmp_path / "rounds-1.json").stat().st_mtime_ns > made
    assert results(tmp_path)["seeds"] == first["seeds"]


def test_other_settings_find_no_models(tmp_path, data, trained, monkeypatch):
    """Nor curves: what was trained with another rate is somebody else's."""
    run.main([*options(tmp_path, data), "--rounds", "2"])
    assert not results(tmp_path)["about"]["complete"]
    assert len(trained) == 4
    monkeypatch.setattr(sgd, "LEARNING_RATE", 0.05)
    run.main(options(tmp_path, data))
    assert len(trained) == 10
    run.main([*options(tmp_path, data), "--seed", "2"])
    assert len(trained) == 16


@pytest.mark.parametrize("content", ["", "[]", '{"about": 3}', "no json"])
def test_broken_files_are_as_good_as_none(tmp_path, data, trained, content):
    (tmp_path / "results.json").write_text(content)
    (tmp_path / "rounds-1.json").write_text(content)
    run.main([*options(tmp_path, data), "--split", "iid"])
    assert len(trained) == 3


def test_a_curve_with_a_gap_is_not_complete():
    def complete(curves, rounds):
        return run.is_complete({"accuracy": curves}, rounds)

    whole = {kind: {"sa": [0.1, 0.2]} for kind in SPLITS}
    assert complete(whole, 2)
    assert not complete(whole, 3)
    assert not complete({"iid": whole["iid"]}, 2)
    assert not complete(whole | {"shards": {"sa": [0.1, 0.2], "ours": [0.1, None]}}, 2)
    assert not run.is_complete({}, 2)


def test_curves_that_coincide_share_a_line():
    curves = {"sa": [[0.1, 0.2]], "p0.2": [[0.1, None]], "ours": [[0.1, 0.2]]}
    assert [keys for keys, _ in picture.together(curves)] == [["sa", "ours"], ["p0.2"]]


def test_a_small_network_trained_with_real_masks_and_without_them(data):
    """As in the experiment, models are averaged over those whom the rules let survive; and by real rounds."""
    torch = pytest.importorskip("torch")
    from experiments.clients import Clients

    from experiments import vgg

    images = cifar.load(data)
    prepared = vgg.prepared(images.train_x, images.train_y, images, "cpu", torch.float32)
    network, count = vgg.Network(sgd.TINY), 10
    clients = Clients(network, prepared)
    places = torch.from_numpy(split(images.train_y, count, "iid", 1))[:, None, :].expand(-1, 3, -1)
    skipped = masked = network.new(1, "cpu")
    quantizer = Quantizer.for_model([skipped.numpy()], clients=count, clip=4.0)
    for number in range(3):
        gone = rounds.dropouts(0.4, count, [9, number])
        config = rounds.configured([9, number], count, quantizer.length, Complete(), Majority(), 64)
        survivors = outcomes.ruled(config, gone, bytes(32)).survivors
        assert 3 <= len(survivors) < count, "some vanish, and the round is not lost"
        skipped = clients.average(skipped, places[list(survivors)])
        keep = torch.zeros((count, network.size))
        clients.each([masked] * count, places, lambda k, row, keep=keep: keep[k].copy_(row))

        def vector(client, models=keep):
            return quantizer.encode([models[client].numpy()], rng=np.random.default_rng(client)).vector

        result = rounds.ran(config, vector, gone, [8, number]).result
        assert isinstance(result, Aggregate)
        assert result.survivors == survivors
        masked = torch.from_numpy(quantizer.decode(result.vector).arrays[0].astype(np.float32))
    assert not torch.allclose(masked, network.new(1, "cpu"), atol=1e-3), "something was learnt"
    assert torch.allclose(masked, skipped, atol=1e-4)
    assert vgg.accuracy(network, masked, prepared) == vgg.accuracy(network, skipped, prepared)


def test_training_goes_on_from_a_stored_model(tmp_path, data):
    torch = pytest.importorskip("torch")
    from experiments.cifar_reliability import train
    from experiments.clients import Clients

    from experiments import vgg

    images = cifar.load(data)
    prepared = vgg.prepared(images.train_x, images.train_y, images, "cpu", torch.float32)
    network = vgg.Network(sgd.TINY)
    clients = Clients(network, prepared)
    places = torch.from_numpy(split(images.train_y, 10, "iid", 1))[:, None, :].expand(-1, 3, -1)
    _, steps = train.history([tuple(range(10)), None, tuple(range(9)), tuple(range(8))])
    assert len(steps) == 3

    def follow(some, folder):
        trainer = train.Trainer(
            network=network, clients=clients, test=prepared, members=places, seed=1, device="cpu", deadline=1e12
        )
        store = train.Store(folder, "iid")
        assert trainer.follow(some, store, {steps[1].after})
        store.write()
        return store.accuracy, trainer.rounds_done

    whole, done = follow(steps, tmp_path / "whole")
    assert done == 3
    follow(steps[:2], tmp_path / "parts")
    again, done = follow(steps, tmp_path / "parts")
    assert done == 1
    assert again == whole


@pytest.mark.parametrize("layers", [sgd.TINY, (8, 0, 16, 0, 16, 8, 0, 16, 0, 8, 8, 0)])
def test_clients_do_what_torch_does(data, layers):
    """The momentum, the learning rate and the mean are those of a plain loop with torch's own optimizer."""
    torch = pytest.importorskip("torch")
    from experiments.clients import Clients

    from experiments import vgg

    images = cifar.load(data)
    prepared = vgg.prepared(images.train_x, images.train_y, images, "cpu", torch.float32)
    network = vgg.Network(layers)
    start = network.new(1, "cpu")
    plans = torch.arange(60).view(3, 2, 10)  # in a group of two and one of one
    mean = Clients(network, prepared, together=2).average(start, plans)
    rows = []
    for plan in plans:
        leaves = [array.clone().requires_grad_() for array in network.arrays(start)]
        optimizer = torch.optim.SGD(leaves, lr=0.1, momentum=0.5)
        for batch in plan:
            optimizer.zero_grad()
            logits = network.logits(leaves, prepared.x[batch])
            torch.nn.functional.cross_entropy(logits, prepared.y[batch]).backward()
            torch.nn.utils.clip_grad_norm_(leaves, sgd.LONGEST_SLOPE)
            optimizer.step()
        rows.append(leaves)
    for mine, *theirs in zip(network.arrays(mean), *rows, strict=True):
        assert torch.allclose(mine, sum(theirs) / 3, atol=1e-6)


def test_the_paper_s_network_has_its_size():
    pytest.importorskip("torch")
    from experiments import vgg

    assert vgg.Network(sgd.VGG11).size == 9_225_610


def test_shards_hold_at_most_two_classes_each():
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 100)).astype(np.uint8)
    for kind in SPLITS:
        places = split(labels, 20, kind, 1)
        assert np.array_equal(np.sort(places.ravel()), np.arange(1000))
    assert max(len(set(labels[own])) for own in places) <= 2


TOY = replace(
    membership.QUICK,
    sizes=(60,),
    usual=Crowd(clients=10, batch=3),
    many=Crowd(clients=20, batch=3),
    seeds=2,
    shadows=1,
    asked=15,
    rounds=2,
    training=200,
    test=30,
)


def test_membership_at_toy_size(tmp_path, data):
    pytest.importorskip("torch")
    wanted = membership._parse(["--data", str(data), "--output", str(tmp_path), "--minutes", "1e12"])
    membership.attacks(wanted, TOY, 0.0)
    found = results(tmp_path)
    membership.draw(found).savefig(tmp_path / "membership.png")
    assert [(row["clients"], row["seed"]) for row in found["rows"]] == [(10, 1), (10, 2), (20, 1), (20, 2)]
    for row in found["rows"]:
        assert set(row["attacks"]) == {"plain", "own", "published", "sa", "ccesa", "ours"}
        assert row["exact_sums"]["sa"]
        assert row["exact_sums"]["ours"]
        assert len(row["shadow_rounds"]) == 1
    assert (tmp_path / "membership.png").stat().st_size > 10_000


def test_no_shadow_has_seen_what_its_target_is_asked_about(data):
    pytest.importorskip("torch")
    images = cifar.part(data, TOY.training, TOY.test)
    from experiments.membership.lab import Target, equip

    lab = equip(images, TOY, data, sgd.TOGETHER)
    one, other = (Target(lab, 60, seed) for seed in (1, 2))
    lab.beside.shutdown()
    for target in (one, other):
        asked = {*target.asked.tolist(), *target.others.tolist()}
        assert asked.isdisjoint(*(drawn.tolist() for drawn in target.drawn))
        assert {*target.asked.tolist()} <= {*target.members.tolist()}
        assert target.others.min() >= lab.training
        assert {*target.members.tolist()}.isdisjoint(target.drawn[0].tolist())
    assert sorted(one.members.tolist()) != sorted(other.members.tolist()), "each seed draws its own"


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2))
def test_the_curve_of_an_attack_is_that_of_all_pairs(drawn):
    """The area under it is the chance that a member has better odds than another, where ties count half."""
    pytest.importorskip("torch")
    from experiments.membership.attack import told_apart

    odds, members = (np.array(column) for column in zip(*drawn, strict=True))
    if members.all() or not members.any():
        return
    inside, outside = odds[members][:, None], odds[~members]
    pairs = (inside > outside).mean() + (inside == outside).mean() / 2
    found = told_apart(odds.astype(float), members)
    assert found["auc"] == pytest.approx(pairs)
    assert found["accuracy"] == pytest.approx(((odds > 0) == members).mean())
    assert found["recall"] == pytest.approx((odds[members] > 0).mean())
    assert found["roc"] == sorted(found["roc"])
    assert found["hits_at_0.001"] <= found["hits_at_0.01"] <= found["roc"][-1] == 1.0


@pytest.fixture
def sizes_run(monkeypatch):
    """In place of the attack: notes the sizes, and is interrupted at the one that is in ``stop``."""
    called, stop = [], []

    class Attacked:
        def __init__(self, size, seed):
            self.about = {"n_train": size, "seed": seed, "clients": 10}

        def row(self):
            numbers = {"train_accuracy": 1, "test_accuracy": 1, "rounds": 1, "shadow_rounds": [1]}
            return self.about | numbers | {"attacks": {"plain": {"accuracy": 0.5}}}

    def attacked(lab, size, seeds):
        if size in stop:
            raise KeyboardInterrupt
        called.append(size)
        return [Attacked(size, seed) for seed in seeds]

    room = types.SimpleNamespace(beside=types.SimpleNamespace(shutdown=lambda: None), about={})
    lab = types.SimpleNamespace(equip=lambda *_: room, attacked=attacked)
    monkeypatch.setattr(membership_part, "lab", lab, raising=False)  # the real one needs torch
    monkeypatch.setattr(membership.cifar, "part", lambda *_: None)
    return called, stop


def test_membership_goes_on_with_the_sizes_that_are_missing(tmp_path, sizes_run):
    called, stop = sizes_run
    usual = ["--stage", "attack", "--output", str(tmp_path)]
    key = record.Key(seed=1, quick=False, settings=membership.settings(False))
    stop.append(15000)
    with pytest.raises(KeyboardInterrupt):
        membership.main(usual)
    assert called == [5000, 10000]
    kept = {row["n_train"] for row in results(tmp_path)["rows"]}
    assert kept == {5000}, "the last one's masked rounds were still running"
    assert not record.finished(tmp_path / "results.json", key)
    stop.clear()
    membership.main(usual)
    assert called[2:] == [10000, 15000, 50000], "what is there is not computed again"
    assert record.finished(tmp_path / "results.json", key)
    membership.main(usual)
    assert len(called) == 5
    membership.main([*usual, "--again", "--sizes", "5000"])
    assert called[5:] == [5000]
    assert not record.finished(tmp_path / "results.json", key)


@pytest.mark.usefixtures("sizes_run")
def test_membership_mixes_no_seeds(tmp_path):
    usual = ["--stage", "attack", "--output", str(tmp_path)]
    membership.main(usual)
    membership.main([*usual, "--seed", "2", "--sizes", "5000"])
    stored = results(tmp_path)
    assert [row["seed"] for row in stored["rows"]] == [2, 3, 4]
    assert stored["about"]["seed"] == 2
    (tmp_path / "results.json").write_text("broken")
    membership.main([*usual, "--sizes", "15000"])
    assert {row["n_train"] for row in results(tmp_path)["rows"]} == {15000}


def test_membership_begins_no_size_when_the_time_is_up(tmp_path, sizes_run):
    called, _ = sizes_run
    membership.main(["--stage", "attack", "--output", str(tmp_path), "--minutes", "-1"])
    assert not called
    with pytest.raises(ConfigError, match="--sizes"):
        membership.main(["--output", str(tmp_path), "--sizes", "7"])


def test_a_masked_vector_says_nothing_of_its_model():
    from experiments.membership import masked

    models = [np.full(1000, client / 10, np.float32) for client in range(1, 11)]
    for scheme in masked.all_schemes(10):
        row, _ = masked.overheard(scheme, masked.encoded(models, 1), 1)
        assert row.shape == (1000,)
        assert np.unique(row).size > 990
        assert abs(row.mean()) < 1.0  # uniform over ±10: its mean has a deviation of 0.18


def test_the_rounds_that_are_kept_are_those_of_today_s_plans():
    """Or a full run would make them anew, which takes half an hour."""
    for seed in consecutive(1, FULL.seeds):
        file = run.HERE / f"rounds-{seed}.json"
        assert outcomes.is_complete(file, FULL, seed)
        found = outcomes.read(file)
        assert {key: len(mine) for key, mine in found.survivors.items()} == dict.fromkeys(found.names, 200)


@pytest.fixture
def started(monkeypatch):
    """In place of processes: the commands that would be run, and how they would end."""
    commands, codes = [], []

    class Process:
        def __init__(self, command, **_):
            commands.append(command)
            self.returncode = codes.pop(0) if codes else 0

        def wait(self):
            return self.returncode

    monkeypatch.setattr(gpu.cifar, "load", lambda _: None)
    monkeypatch.setattr(gpu.subprocess, "Popen", Process)
    monkeypatch.setattr(gpu.subprocess, "run", Process)
    return commands, codes


def asked_of(command, name):
    return command[command.index(name) + 1] if name in command else None


@pytest.mark.parametrize(("ends", "status"), [([0, 0, 0], 0), ([0, 0, 3], 1), ([0, -9, 0], 1)])
def test_what_needs_a_gpu_is_one_call(tmp_path, started, ends, status):
    commands, codes = started
    codes += ends
    assert gpu.main(["--data", str(tmp_path), "--output", str(tmp_path), "--minutes", "2"]) == status
    parts = [(asked_of(command, "-m").split(".")[1], asked_of(command, "--stage")) for command in commands]
    assert parts == list(gpu.PARTS.items()), "the rounds of all seeds are there already"
    assert all(0 < float(asked_of(command, "--minutes")) <= 2 for command in commands)
    assert all(str(tmp_path) in asked_of(command, "--output") for command in commands)


def test_rounds_that_are_missing_are_made_beside(tmp_path, started):
    commands, _ = started
    assert gpu.main(["--quick", "--output", str(tmp_path), "--only", "cifar_reliability", "--seed", "7"]) == 0
    beside, train = commands
    assert (asked_of(beside, "--stage"), asked_of(beside, "--only-seed")) == ("rounds", "7")
    assert asked_of(train, "--stage") == "train"
    assert "--quick" in beside
    assert "--quick" in train


def test_missing_data_is_said_before_anything_is_run(tmp_path):
    with pytest.raises(ConfigError, match="cifar-10"):
        gpu.main(["--data", str(tmp_path / "nowhere"), "--output", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ConfigError("no such thing"), "error: no such thing"),
        (PermissionError("not here"), "error: not here"),
        (ModuleNotFoundError(name="torch"), "error: this part needs torch, which make reproduce installs"),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_goes_wrong_in_a_part_is_one_line(raised, code):
    def main():
        raise raised

    with pytest.raises(SystemExit) as ended:
        arguments.run(main)
    assert ended.value.code == code


def test_a_fault_of_ours_keeps_its_traceback():
    def main():
        raise ModuleNotFoundError(name="experiments.nowhere")

    with pytest.raises(ModuleNotFoundError):
        arguments.run(main)
