"""The experiments on toy data, from end to end, and the runner that calls them all."""

import json
import random
import shutil
import subprocess
import warnings
from pathlib import Path

import experiments.__main__ as runner
import numpy as np
import pytest
from experiments.cifar_reliability import outcomes
from experiments.costs import run as costs
from experiments.faces_inversion import run as inversion
from experiments.faces_reliability import ours
from experiments.faces_reliability import run as reliability
from experiments.privacy.audit import run as audit
from experiments.running_time import run as running_time
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Majority
from ccesa.protocol.server import Aggregate
from ccesa.values.quantize import Quantizer
from experiments import arguments, cost_curve, faces, record, rounds, softmax, staying

PERSONS, SHOTS, HEIGHT, WIDTH = 8, 5, 16, 12


@pytest.fixture
def photographs():
    """Everybody has a face of their own, and every photograph of it some noise."""
    rng = np.random.default_rng(7)
    people = rng.integers(30, 220, (PERSONS, 1, HEIGHT // 4, WIDTH // 4)).repeat(4, axis=2).repeat(4, axis=3)
    return np.clip(people + rng.normal(0, 10, (PERSONS, SHOTS, HEIGHT, WIDTH)), 0, 255).astype(np.uint8)


@pytest.fixture
def packed(photographs, tmp_path):
    """The folder of the data sets, with an att_faces.npz in no particular order."""
    order = np.random.default_rng(8).permutation(PERSONS * SHOTS)
    person, shot = np.divmod(np.arange(PERSONS * SHOTS, dtype=np.int16), SHOTS)
    images = photographs.reshape(-1, HEIGHT, WIDTH)
    np.savez(tmp_path / "att_faces.npz", images=images[order], person=person[order], shot=shot[order])
    return tmp_path


@pytest.fixture
def tree(photographs, tmp_path):
    """The same as it was published: a folder for each person."""
    folder = tmp_path / "orl"
    for person, shots in enumerate(photographs, 1):
        (folder / f"s{person}").mkdir(parents=True)
        for number, image in enumerate(shots, 1):
            head = b"P5\n# a comment\n%d %d\n255\n" % (WIDTH, HEIGHT)
            (folder / f"s{person}" / f"{number}.pgm").write_bytes(head + image.tobytes())
    return folder


def results(folder):
    return json.loads((folder / "results.json").read_text())


# The loader


def test_both_forms_hold_the_same_faces(packed, tree, photographs):
    for found in (faces.load(packed), faces.load(tree)):
        assert np.array_equal(np.rint(found.images * 255), photographs)
        assert (found.persons, found.size) == (PERSONS, (HEIGHT, WIDTH))


def test_smaller_images_are_means_of_blocks(packed):
    found = faces.load(packed)
    assert found.smaller(4).size == (HEIGHT // 4, WIDTH // 4)
    assert found.smaller(5).size == (HEIGHT // 5, WIDTH // 5)
    assert found.smaller(4).images[2, 3, 1, 2] == pytest.approx(found.images[2, 3, 4:8, 8:12].mean())


def test_missing_faces_say_where_to_get_them(tmp_path):
    with pytest.raises(ConfigError, match=r"neither s1/1\.pgm nor att_faces\.npz.*kaggle"):
        faces.load(tmp_path)


def test_damaged_archive(packed):
    path = packed / "att_faces.npz"
    whole = path.read_bytes()
    for damaged in (b"", b"nothing", whole[: len(whole) // 2], whole[:300] + b"????" + whole[304:]):
        path.write_bytes(damaged)
        with pytest.raises(ConfigError, match=r"att_faces.npz cannot be used: .*kaggle"):
            faces.load(packed)


@pytest.mark.parametrize("field", ["images", "person", "shot"])
def test_archive_that_lacks_something(packed, field):
    path = packed / "att_faces.npz"
    with np.load(path) as found:
        arrays = dict(found)
    np.savez(path, **{name: array for name, array in arrays.items() if name != field})
    with pytest.raises(ConfigError, match="cannot be used"):
        faces.load(packed)
    np.savez(path, **(arrays | {field: arrays[field][:-1]}))
    with pytest.raises(ConfigError, match="cannot be used"):
        faces.load(packed)


def test_archive_with_a_photograph_twice(packed):
    path = packed / "att_faces.npz"
    with np.load(path) as found:
        arrays = dict(found)
    arrays["shot"][arrays["shot"] == 1] = 0
    np.savez(path, **arrays)
    with pytest.raises(ConfigError, match="missing or there twice"):
        faces.load(packed)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, r"s3.2\.pgm"),
        (b"P2\n1 1\n255\n0", "no binary PGM"),
        (b"P5\n%d %d\n255\nshort" % (WIDTH, HEIGHT), "5 bytes for"),
        (b"P5\n1 1\n255\n0", "pixels where the others have"),
        (b"P5\n1 1\n65535\n00", "up to 65535"),
    ],
)
def test_damaged_tree(tree, content, why):
    path = tree / "s3" / "2.pgm"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=why) as caught:
        faces.load(tree)
    assert "kaggle" in str(caught.value)


@pytest.mark.parametrize("person", [1, 5, PERSONS])
@pytest.mark.parametrize("shot", [1, SHOTS])
def test_a_photograph_that_one_person_lacks(tree, person, shot):
    """Also the last one of the first person: nobody else's may be left out for it."""
    (tree / f"s{person}" / f"{shot}.pgm").unlink()
    with pytest.raises(ConfigError, match=rf"s{person}.{shot}\.pgm cannot be used"):
        faces.load(tree)


def test_a_full_run_wants_all_faces(packed):
    assert faces.whole(packed, quick=True).persons == PERSONS
    with pytest.raises(ConfigError, match="8 persons with 5 photographs, 40 with 10 are due"):
        faces.whole(packed, quick=False)


def mutated(raw, seed):
    """A few bytes changed, and sometimes cut short."""
    rng, damaged = random.Random(seed), bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 4])):
        damaged[rng.randrange(min(len(raw), rng.choice([60, 400, len(raw)])))] = rng.randrange(256)
    return bytes(damaged[: rng.randrange(len(raw))] if rng.random() < 0.2 else damaged)


def test_no_damage_escapes_the_loader(tmp_path):
    path = tmp_path / "att_faces.npz"
    images = np.random.default_rng(0).integers(0, 255, (6, 8, 8), dtype=np.uint8)
    np.savez_compressed(path, images=images, person=np.repeat([0, 1, 2], 2), shot=np.tile([0, 1], 3))
    whole, refused = path.read_bytes(), 0
    for seed in range(600):
        path.write_bytes(mutated(whole, seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile's, about names that are there twice
            try:
                faces.load(tmp_path)
            except ConfigError:
                refused += 1
    assert refused > 300


# What they share


def key(**settings):
    return record.Key(seed=1, quick=True, settings=settings)


def test_results_belong_to_their_key(tmp_path):
    path = tmp_path / "deep" / "results.json"
    record.save(path, {"found": 3}, key(sizes=(1, 2), most={5: 6}), started=0.0)
    assert record.earlier(path, key(sizes=(1, 2), most={5: 6}))["found"] == 3
    assert record.finished(path, key(sizes=(1, 2), most={5: 6}))
    assert record.earlier(path, key(sizes=(1, 3), most={5: 6})) is None
    assert not record.finished(path, record.Key(seed=2, quick=True, settings={"sizes": (1, 2), "most": {5: 6}}))
    record.save(path, {}, key(), started=0.0, complete=False)
    assert record.earlier(path, key()) is not None
    assert not record.finished(path, key())


def test_results_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    record.save(path, {"found": 1}, key(), started=0.0)

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        record.save(path, {"found": 2}, key(), started=0.0)
    assert results(tmp_path)["found"] == 1
    assert [found.name for found in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("graph", [Complete(), ErdosRenyi(p=0.8), Harary(degree=6, mask_degree=4)])
def test_a_model_trained_with_real_masks_and_without_them(packed, graph):
    """The same model both ways: where masks are skipped, the rules alone say who is in the mean.

    Three rounds with dropouts; what differs is the rounding to 32 bits, and a lost round is lost both ways.
    """
    data = softmax.federation(faces.load(packed), 1)
    quantizer = Quantizer.for_model(softmax.new_model(data), clients=data.clients, clip=softmax.LARGEST_UPDATE)
    masked, skipped, ends = softmax.new_model(data), softmax.new_model(data), set()
    for number in range(6):
        gone = rounds.dropouts(0.15, data.clients, [3, number])
        config = rounds.configured([4, number], data.clients, quantizer.length, graph, Majority(), 64)
        seeds = {}

        def overhear(client, reply, seeds=seeds):
            message = outcomes.m.decode(reply, len(reply))
            if isinstance(message, outcomes.m.AdvertiseReply):
                seeds[client] = message

        def vector(client, model=masked):
            return quantizer.encode(softmax.update(model, data, client), rng=np.random.default_rng(client)).vector

        found = rounds.ran(config, vector, gone, [5, number], overhear)
        graph_seed = outcomes.graph_seed(config, [seeds[client] for client in sorted(seeds)])
        outcome = outcomes.ruled(config, gone, graph_seed)
        ends.add(outcome.name)
        assert found.outcome == outcome.name
        if isinstance(found.result, Aggregate):
            assert outcome.survivors == found.result.survivors
            masked = softmax.add(masked, list(quantizer.decode(found.result.vector).arrays))
            skipped = softmax.add(skipped, softmax.mean_update(skipped, data, list(outcome.survivors)))
    assert "aggregate" in ends
    assert np.abs(masked[0]).max() > 0.01, "something was learnt"
    for one, other in zip(masked, skipped, strict=True):
        assert np.allclose(one, other, atol=1e-5)
    assert softmax.accuracy(masked, data) == softmax.accuracy(skipped, data)


@given(
    seed=st.integers(0, 2**32),
    persons=st.integers(2, 9),
    shots=st.integers(1, 7),
    pixels=st.integers(1, 60),
    scale=st.sampled_from([0.0, 0.01, 1.0, 10.0]),
)
def test_local_training_is_gradient_descent(seed, persons, shots, pixels, scale):
    """The coefficients of a client's photographs give what gradient descent on the weights gives."""
    rng = np.random.default_rng(seed)
    images = rng.random((persons, shots, pixels))
    data, client = softmax.Federation(train=images, test=images), int(rng.integers(persons))
    model = [scale * rng.normal(size=part.shape) for part in softmax.new_model(data)]
    weights, biases = model[0].copy(), model[1].copy()
    for _ in range(softmax.EPOCHS):
        error = softmax.softmax(images[client] @ weights + biases) - np.eye(persons)[client]
        weights -= softmax.RATE * images[client].T @ error / len(error)
        biases -= softmax.RATE * error.mean(axis=0)
    found = softmax.add(model, softmax.update(model, data, client))
    assert np.abs(found[0] - weights).max() < 1e-9
    assert np.abs(found[1] - biases).max() < 1e-9


def test_a_seed_repeats_a_round_with_its_graph():
    def survivors_and_bytes():
        config = rounds.configured([1, 2], 12, 3, ErdosRenyi(p=0.8), Fixed(t=7))
        gone = rounds.dropouts(0.1, 12, [3])
        found = rounds.ran(config, lambda client: np.full(3, client, "<u4"), gone, [4])
        return found.outcome, found.sent, found.received, found.result.survivors, found.result.vector.tolist()

    first = survivors_and_bytes()
    assert first == survivors_and_bytes()
    assert first[4] == [sum(first[3])] * 3


# Each experiment


def test_running_time(monkeypatch, tmp_path):
    toy = [
        ("SA", 12, 0.1, 7, 1.0, (6, 3540, 3365, 80, 9847)),
        ("CCESA", 12, 0.1, 7, 0.9, (6, 2, 3, 4, 5)),
        ("SA", 300, 0.1, 151, 1.0, (1, 2, 3, 4, 5)),
    ]
    monkeypatch.setattr(running_time, "PAPER", toy)
    monkeypatch.setattr(running_time, "QUICK_SIZE", 12)
    monkeypatch.setattr(running_time, "LENGTH", 20)
    running_time.main(["--quick", "--output", str(tmp_path)])
    found = results(tmp_path)
    assert [(row["scheme"], row["exact"]) for row in found["rows"]] == [
        ("SA", True),
        ("CCESA", True),
        ("planned", True),
    ]
    assert found["to_sa"][0]["paper"] == pytest.approx(5 / 6905)
    assert found["to_sa"][1]["paper"] is None
    assert all(len(row["client_ms"]) == 4 and min(row["client_ms"]) > 0 for row in found["rows"])
    assert (tmp_path / "running_time.png").stat().st_size > 10_000


def test_faces_reliability(packed, monkeypatch, tmp_path):
    effort = reliability.Effort(seeds=2, rounds=3, drawn=1000, shrink=2)
    monkeypatch.setattr(reliability, "QUICK", effort)
    output = tmp_path / "out"
    reliability.main(["--quick", "--data", str(packed), "--output", str(output)])
    found = results(output)
    assert list(found["seeds"]) == ["1", "2"]
    assert [case["q_total"] for case in found["seeds"]["2"]["dropouts"]] == [0.0, 0.1]
    calm = found["seeds"]["1"]["dropouts"][0]
    ours = {series["name"]: series for series in calm["ours"]}
    assert len(ours) == 6
    assert ours["SA, p = 1, t = 5"]["lost"] == ours["planned"]["lost"] == []
    assert ours["SA, p = 1, t = 5"]["ends"] == {"aggregate": 3}
    # With everybody in, secure rounds and the plain mean train the same model.
    assert ours["SA, p = 1, t = 5"]["accuracy"] == calm["paper_rule"][0]["accuracy"]
    assert all(is_sa_with_delays(curve, calm["paper_rule"][0]) for curve in calm["paper_rule"])
    assert (output / "faces_reliability.png").stat().st_size > 10_000
    data = softmax.federation(faces.load(packed).smaller(2), 2)
    again = reliability.one_dropout(data, 0.1, 3, 2)
    assert json.loads(json.dumps(again)) == found["seeds"]["2"]["dropouts"][1], "the same seed, the same rounds"
    first = found["summary"][0]
    assert (first["rounds"], first["lost_in_all"], first["survivors"]) == (6, 0, PERSONS)
    assert set(first["behind_sa"].values()) == {0}, "SA is never behind itself"


def is_sa_with_delays(curve, sa):
    """Whether all that a lost round costs is a round of training."""
    kept = [value for number, value in enumerate(curve["accuracy"], 1) if number not in curve["lost"]]
    return kept == sa["accuracy"][: len(kept)]


def test_without_dropouts_lost_rounds_are_delays():
    """As the page says, with every seed."""
    for seed in results(reliability.HERE)["seeds"].values():
        sa, sparse, *_ = seed["dropouts"][0]["paper_rule"]
        assert sparse["lost"]
        assert is_sa_with_delays(sparse, sa)


def test_series_with_equal_sums_are_trained_once(packed, monkeypatch):
    """Whoever is in the sum, and whoever trained before: every series has the model that it has alone."""
    data = softmax.federation(faces.load(packed).smaller(4), 1)
    gone = [rounds.dropouts(0.3, PERSONS, [1, 6, k]) for k in range(3)]
    everyone, trained = ours.all_series(PERSONS), []
    update = softmax.update
    monkeypatch.setattr(softmax, "update", lambda *given: trained.append(given[2]) or update(*given))
    together = ours.by_our_server(data, gone, 1)
    shared, alone = len(trained), []
    for series in everyone:
        monkeypatch.setattr(ours, "all_series", lambda _, series=series: [series])
        alone += ours.by_our_server(data, gone, 1)
    assert together == alone
    assert shared < (len(trained) - shared) / 2
    assert len({tuple(one["accuracy"]) for one in together}) > 1, "not all of them have the same sums"


def test_gaps_are_to_sa_on_the_same_seed():
    def seed(sa, other, lost):
        curves = [{"name": "SA", "accuracy": sa, "lost": []}, {"name": "CCESA", "accuracy": other, "lost": lost}]
        return {"dropouts": [{"q_total": 0.1, "ours": curves, "paper_rule": []}]}

    rows = reliability.rows({"1": seed([0.5, 0.7], [0.2, 0.4], [2]), "2": seed([0.9, 0.9], [0.8, 0.8], [])})
    assert [row["name"] for row in rows] == ["SA", "CCESA"]
    assert rows[1]["behind_sa"] == pytest.approx({"median": 0.2, "mean": 0.2, "lowest": 0.1, "highest": 0.3})
    assert rows[1]["lost"] == {"median": 0.5, "mean": 0.5, "lowest": 0, "highest": 1}
    assert (rows[1]["rounds"], rows[1]["lost_in_all"]) == (4, 1)


@pytest.mark.parametrize(("q_total", "known"), [(0.0, 0.16), (0.1, 0.68)])
def test_rounds_lost_by_the_papers_rule(q_total, known):
    """The same figures as in test_paper_forty.py."""
    assert reliability.lost_rate(40, 0.7, q_total, 4000, 1) == pytest.approx(known, abs=0.03)


def test_faces_inversion(packed, tmp_path):
    output = tmp_path / "out"
    inversion.main(["--quick", "--data", str(packed), "--output", str(output)])
    found = results(output)["schemes"]
    assert list(found) == ["federated averaging", "SA", "CCESA", "planned", "the sum itself"]
    assert found["the sum itself"]["rate"]["lowest"] == 1
    assert found["federated averaging"]["similarity"]["lowest"] > 0.5
    assert found["SA"]["attacks"] == 2 * PERSONS, "of both seeds"
    assert (output / "faces_inversion.png").stat().st_size > 10_000
    known = faces.load(packed).smaller(4)
    again = inversion.one_seed(softmax.federation(known, 2), known, inversion.QUICK, 2)
    assert again == results(output)["seeds"]["2"], "the same seed, the same images"


def test_masked_models_show_nothing(packed):
    """Many masked rounds: identified as often as by chance, and no likeness left."""
    known = faces.load(packed)
    _, local = inversion.train(softmax.federation(known, 1), 1)
    graph, threshold = inversion.schemes(PERSONS)["SA"]
    scores = []
    for number in range(20):
        heard = inversion.overheard(local, graph, threshold, [1, number])
        scores.append(inversion.scored({i: inversion.invert(m, i) for i, m in heard.items()}, known))
    found = inversion.summary(scores, PERSONS)
    assert found["attacks"] == 20 * PERSONS
    assert abs(found["rate"] - found["chance"]) < 2 * found["chance_two_sigma"]
    assert abs(found["similarity_mean"]) < 2 * found["similarity_two_sigma"]


def test_an_image_of_one_colour_is_like_nobody(packed):
    known = faces.load(packed)
    flat = {person: np.full(HEIGHT * WIDTH, 0.5) for person in range(PERSONS)}
    assert set(inversion.scored(flat, known)["similarity"].values()) == {0.0}


# The runner


@pytest.fixture
def fake_run(monkeypatch):
    """In place of the parts: notes what was called and leaves results behind, but for the last part."""
    called = []
    record.machine()  # asks the system once, by a program

    def run(command, **_):
        name = command[2].removeprefix("experiments.").removesuffix(".run").replace(".", "/")
        options = dict(zip(command[3::2], command[4::2], strict=False))
        called.append((name, "--again" in command))
        if name == "membership":
            return type("Ended", (), {"returncode": 3})
        made = record.Key(
            seed=int(options["--seed"]),
            quick="--quick" in command,
            settings=runner._settings(name, "--quick" in command),
        )
        folder = Path(options["--output"])
        record.save(folder / "results.json", {}, made, started=0.0)
        (folder / f"{Path(name).name}.png").write_bytes(b"a picture")
        return type("Ended", (), {"returncode": 0})

    monkeypatch.setattr(runner.subprocess, "run", run)
    monkeypatch.setattr(runner, "DATA", {})
    monkeypatch.setattr(runner, "_is_there", lambda name: name != "cifar_reliability")
    return called


def test_runner_resumes(fake_run, tmp_path, capsys):
    options = ["--quick", "--output", str(tmp_path)]
    assert runner.main(options) == 1, "one part failed"
    assert fake_run == [(name, False) for name in runner.PARTS if name != "cifar_reliability"]
    assert "experiments/cifar_reliability/run.py is not there" in capsys.readouterr().out
    runner.main(options)
    once = len(runner.PARTS) - 1
    assert fake_run[once:] == [("membership", False)], "what is finished is not run again"
    assert runner.main([*options, "--only", "costs", "--again"]) == 0
    assert runner.main([*options, "--only", "costs", "--seed", "2"]) == 0
    assert runner.main([*options[1:], "--only", "costs"]) == 0
    assert fake_run[once + 1 :] == [("costs", True), ("costs", False), ("costs", False)], (
        "asked for again, and told so; another seed; not quick any more"
    )


def test_runner_sees_other_settings_and_a_missing_picture(fake_run, tmp_path, monkeypatch):
    options = ["--quick", "--output", str(tmp_path), "--only", "costs"]
    runner.main(options)
    (tmp_path / "costs" / "costs.png").unlink()
    runner.main(options)
    assert len(fake_run) == 2
    monkeypatch.setattr(costs, "QUICK_SIZES", (7, 8))
    runner.main(options)
    runner.main(options)
    assert len(fake_run) == 3


def test_runner_goes_on_with_what_was_broken_off(fake_run, tmp_path):
    made = record.Key(seed=1, quick=True, settings=runner._settings("costs", True))
    record.save(tmp_path / "costs" / "results.json", {}, made, started=0.0, complete=False)
    (tmp_path / "costs" / "costs.png").write_bytes(b"a picture")
    runner.main(["--quick", "--output", str(tmp_path), "--only", "costs"])
    assert len(fake_run) == 1


def test_runner_keeps_quick_results_apart():
    kept = {runner.arguments([]).output, runner.arguments(["--quick"]).output}
    assert {folder.name for folder in kept} == {"reproduce", "reproduce-quick"}
    for part in (audit, costs):
        parser = arguments.parser("", part.HERE, "")
        assert parser.parse_args([]).output == part.HERE
        assert runner.ROOT / "build" in parser.parse_args(["--quick"]).output.parents
        assert parser.parse_args(["--quick", "--output", "elsewhere"]).output == Path("elsewhere")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"about": 3}', '{"about": {"quick": true}}', "\xff"])
def test_broken_results_are_not_finished(content, tmp_path):
    assert not runner.finished("costs", tmp_path, quick=True, seed=1)
    (tmp_path / "results.json").write_bytes(content.encode("latin-1"))
    assert not runner.finished("costs", tmp_path, quick=True, seed=1)


#: What a GPU has not finished yet; the page says how far it came.
UNFINISHED = {"cifar_reliability"}


@pytest.mark.parametrize("name", runner.PARTS)
def test_what_is_kept_is_what_a_full_run_makes(name):
    """Committed results are from today's settings, and whole but for those that are known not to be."""
    folder = runner.ROOT / "experiments" / name
    key = record.Key(seed=1, quick=False, settings=runner._settings(name, False))
    assert record.earlier(folder / "results.json", key) is not None
    assert runner.finished(name, folder, quick=False, seed=1) == (name not in UNFINISHED)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("value", "quick"), [("1", True), ("", False), ("0", False), ("no", False)])
def test_make_switches(value, quick):
    told = ["make", "--dry-run", "reproduce", "ONLY=costs", f"QUICK={value}", f"AGAIN={value}"]
    printed = subprocess.run(told, cwd=runner.ROOT, capture_output=True, text=True, check=True).stdout
    assert ("--quick" in printed, "--again" in printed) == (quick, quick)


def test_runner_looks_for_the_data_before_it_runs_anything(tmp_path, capfd):
    assert runner.main(["--quick", "--data", str(tmp_path), "--output", str(tmp_path)]) == 2
    said = capfd.readouterr().err
    assert "faces_reliability, faces_inversion, privacy/inversion: no faces in" in said
    assert "cifar_reliability, membership, cifar_masked: there is no complete CIFAR-10" in said
    names = ("running_time", "error_bounds", "costs", "claims", "privacy/accuracy")
    assert f"without data: {' '.join(f'--only {name}' for name in names)}" in said
    assert not any(tmp_path.iterdir())


def test_runner_runs_a_part(tmp_path, capfd, monkeypatch):
    """For once really, in a process of its own: here it finds no faces, and says so in one line."""
    monkeypatch.setattr(runner, "DATA", {})
    options = ["--quick", "--only", "faces_inversion", "--data", str(tmp_path), "--output", str(tmp_path)]
    assert runner.main(options) == 1
    said = capfd.readouterr().err
    assert "error: no faces in" in said
    assert "kaggle" in said
    assert "Traceback" not in said


def test_the_curve_of_costs_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(cost_curve, "CLIENTS", (3, 100, 1000))  # too few for any plan, and some
    cost_curve.main(["--collusion", "0.05", "--output", str(tmp_path / "curve.svg")])
    assert (tmp_path / "curve.svg").stat().st_size > 10_000
    monkeypatch.setattr(cost_curve, "CLIENTS", (3,))
    with pytest.raises(ImpossiblePlan):
        cost_curve.main(["--collusion", "0.4", "--guard", "active", "--output", str(tmp_path / "none.png")])


def test_what_colluders_that_stay_change_is_counted(capsys, monkeypatch):
    """The promise as it was printed breaks among drawn graphs, that of today does not."""
    monkeypatch.setattr(staying, "CASES", ((1000, 0.1, 0.1), (100, 0.1, 0.1)))
    staying.main([])
    *table, _, old_mean, old_floor, new = capsys.readouterr().out.splitlines()
    assert "| 1,000 | 0.1 | 0.1 | 50 (29) | 3 | 2^−40.8 | 2^−34.7 | 54 (31) | 2 |" in table
    assert "| 100 | 0.1 | 0.1 | 34 (18) | 8 | impossible | impossible | 34 (18) | 8 |" in table
    broken = [int(line.split("broken in ")[1].split()[0]) for line in (old_mean, old_floor, new)]
    assert broken[0] > 15
    assert broken[1] > 200
    assert broken[2] <= 4
