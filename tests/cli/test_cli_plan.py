"""``ccesa plan`` as users have it."""

import json

import pytest

from commands import fresh, run
from test_cli import simulate

KEYS = {"graph", "degree", "p", "mask_degree", "threshold", "failure", "cost", "paper"}
EVENTS = {"unreliable", "disconnected", "exposed", "unmaskable"}


def plan(*arguments: str) -> dict:
    done = run("plan", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize(("guard", "alone", "series"), [("curious", 4, 2), ("active", 5, 3)])
def test_the_plan_says_how_often_a_client_is_asked(guard, alone, series):
    asked = ["--clients", "60", "--guard", guard]
    assert plan(*asked)["exchanges"] == {"round": alone, "series": series}
    assert f"{alone} in a single round, {series} in each round of a series" in run("plan", *asked).stdout


@pytest.mark.parametrize("more", [["--accept"], ["--post-quantum"]])
def test_one_number_per_step_is_for_every_step_that_the_round_has(more):
    told = ["--clients", "300", "--dropout-per-step", "0.05"]
    made, without = plan(*told, *more), plan(*told)
    assert (made["accept"], without["accept"]) == (True, False)
    assert (made["dropout_per_step"]["accept"], without["dropout_per_step"]["accept"]) == (0.05, 0)
    assert made["degree"] > without["degree"]


def test_an_agreement_for_later_is_named_and_priced():
    made = [plan("--clients", "60", *more) for more in ([], ["--post-quantum"])]
    assert [one["agreement"] for one in made] == ["x25519", "x25519-mlkem768"]
    assert [one["exchanges"]["round"] for one in made] == [4, 5]
    assert made[1]["cost"]["received_bytes"] > 10 * made[0]["cost"]["received_bytes"]
    shown = run("plan", "--clients", "60", "--post-quantum").stdout
    assert "agreement  x25519-mlkem768, with the step accept" in shown


def test_a_plan_as_json():
    made = plan("--clients", "1000", "--dropout", "0.1")
    assert made.keys() >= KEYS
    assert (made["graph"], made["degree"], made["mask_degree"], made["p"]) == ("harary", 38, 18, None)
    assert made["threshold"] == {"rule": "majority", "at_mean_degree": 20}
    assert made["failure"].keys() == EVENTS
    assert made["failure"]["unreliable"] <= -20
    assert made["failure"]["disconnected"] <= -40
    assert made["failure"]["exposed"] == -1e9  # impossible
    assert made["paper"]["p_star"] == pytest.approx(0.3106, abs=5e-5)
    assert made["paper"]["t"] == 198
    assert "client_seconds" not in made["cost"]
    assert made["cost"]["sent_bytes"] < made["conventional"]["cost"]["sent_bytes"]


def test_the_same_bytes_every_time_but_for_seconds_that_were_asked_for():
    ask = ("plan", "--clients", "200", "--collusion", "0.05")
    assert run(*ask, "--json").stdout == fresh(*ask, "--json").stdout
    words = run(*ask).stdout
    assert words == fresh(*ask).stdout
    timed, plain = plan(*ask[1:], "--calibrate"), plan(*ask[1:])
    for found, known in ((timed["cost"], plain["cost"]), (timed["paper"]["cost"], plain["paper"]["cost"])):
        assert found.keys() - known.keys() == {"client_seconds", "server_seconds"}
        assert found["client_seconds"] > 0 < found["server_seconds"]
        assert {name: found[name] for name in known} == known
    assert "client works, about" in run(*ask, "--calibrate").stdout
    assert "works" not in words
    assert "--calibrate measures this machine and adds the seconds" in words


@pytest.mark.parametrize(
    ("wish", "fields"),
    [
        (("--value-bits", "8"), {"bits": 18, "value_bits": 8, "per_word": 3, "bytes_each": 8 / 3}),
        (("--precision", "1e-4"), {"bits": 26, "value_bits": 16, "per_word": 2, "bytes_each": 4.0}),
        (("--precision", "1e-2", "--clip", "1"), {"bits": 18, "value_bits": 8, "per_word": 3, "bytes_each": 8 / 3}),
    ],
)
def test_values_in_fields_of_words(wish, fields):
    """So many bits of a value, or as many as a precision takes: the plan counts words, and says both."""
    made = plan("--clients", "1000", "--length", "1000000", *wish)
    assert made["fields"] == fields
    assert (made["bits"], made["length"]) == (64, -(-1000000 // fields["per_word"]))
    shown = " ".join(run("plan", "--clients", "1000", *wish).stdout.split())
    assert f"values of {fields['value_bits']} bits in fields of {fields['bits']} bits" in shown


def test_an_erdos_renyi_plan():
    made = plan("--clients", "1000", "--graph", "erdos-renyi", "--collusion", "0.1", "--length", "10")
    assert made["graph"] == "erdos-renyi"
    assert made["degree"] == pytest.approx(999 * made["p"])
    assert made["threshold"]["rule"] == "linear"
    assert (made["mask_degree"], made["mask_p"]) == (made["degree"], None)  # where clients collude
    thin = plan("--clients", "1000", "--graph", "erdos-renyi", "--length", "10")
    assert thin["mask_degree"] == pytest.approx(999 * thin["mask_p"])
    assert thin["mask_degree"] < thin["degree"]


def test_an_active_plan():
    made = plan("--clients", "1000", "--guard", "active")
    assert (made["collusion"], made["privacy_bits"]) == (0.1, 128)
    assert made["mask_degree"] == made["degree"] == 158
    assert made["failure"]["unmaskable"] <= -128
    # A lying server parts masks at will: what holds is how many honest clients every part has.
    assert made["failure"].keys() == EVENTS - {"disconnected"}
    assert made["least_roster"] == 839
    assert made["colluders"] == 83  # of all 1000: a tenth of any roster that clients accept
    assert made["around"] == 72
    assert made["least_honest"] == made["min_survivors"] == 116 - 72
    assert made["least_honest_fails"] <= -128


def test_a_plan_with_colluders_and_one_without():
    made = plan("--clients", "1000", "--collusion", "0.1")
    assert made["mask_degree"] == made["degree"]
    assert (made["degree"], made["least_honest"], made["min_survivors"]) == (54, 2, 839)
    assert -42 < made["least_honest_fails"] <= -40
    alone = plan("--clients", "100")
    assert [alone[name] for name in ("least_honest", "least_honest_fails", "around")] == [None, None, 0]
    certain = plan("--clients", "30", "--guard", "active")
    assert (certain["graph"], certain["least_honest"], certain["least_honest_fails"]) == ("complete", 14, -1e9)


def test_exact_dropout_is_less_demanding():
    few, many = plan("--clients", "100", "--exact-dropout"), plan("--clients", "100")
    assert few["degree"] < many["degree"]


def test_a_plan_fits_on_one_screen():
    done = run("plan", "--clients", "1000", "--guard", "active")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    text = " ".join(done.stdout.split())
    for words in ("harary", "unmaskable", "paper's rule", "conventional", "at least", "honest clients"):
        assert words in text
    assert "disconnected" not in text
    assert "least honest 2^-132.4 (10^-39) a sum that can be opened covers fewer than 44 honest" in text
    assert "disconnected" in run("plan", "--clients", "1000", "--collusion", "0.1").stdout
    assert (
        "whatever is opened for a task, in all attempts together, covers at least 44 honest clients, "
        "whichever roster of at least 839 the server chooses and whoever it drops, as long as at most 83 of "
        "all 1,000 clients collude with it, except with 2^-132.4"
    ) in text


def test_promises_in_words():
    text = " ".join(run("plan", "--clients", "200", "--guard", "active", "--collusion", "0").stdout.split())
    assert "as long as at most 1 of all 200 clients collude with it certificate" in text  # no exception
    text = " ".join(run("plan", "--clients", "1000", "--collusion", "0.1").stdout.split())
    assert (
        "any part of the sum that could be split off has at least 2 honest clients, whoever drops out, "
        "except with 2^-41.5 (10^-12); a round of fewer than 839 clients fails (min_survivors)"
    ) in text
    assert "promise" not in run("plan", "--clients", "1000").stdout


def test_the_small_print_is_shown():
    assert "too few for a sparse graph" in run("plan", "--clients", "33").stdout
    assert "20 bits is out of reach" in " ".join(run("plan", "--clients", "10").stdout.split())
    text = " ".join(run("plan", "--clients", "30", "--guard", "active").stdout.split())
    assert "--reliability-bits 18, --dropout 0.092, --collusion 0.033 or --clients 35; or name helpers" in text
    assert "planned with 18.7 bits" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--clients"),
        (["--clients", "10", "--reliability-bits", "20"], "--clients 27"),
        (["--clients", "2"], "at least 3"),
        (["--clients", "100", "--dropout", "1"], "dropout"),
        (["--clients", "100", "--guard", "lazy"], "guard"),
        (["--clients", "100", "--bits", "7"], "bits"),
        (["--clients", "100", "--value-bits", "1"], "a value has 2 to 53 bits, not 1"),
        (["--clients", "100", "--precision", "0"], "precision must be a positive number"),
        (["--clients", "100", "--precision", "1e-4", "--clip", "-1"], "--clip must be a positive number"),
        (["--clients", "100", "--precision", "1e-4", "--clip", "0"], "--clip must be a positive number"),
        (["--clients", "100", "--precision", "1e-4", "--clip", "nan"], "--clip must be a positive number"),
        (["--clients", "100", "--precision", "1e-4", "--value-bits", "8"], "--value-bits and --precision say"),
        (["--clients", "100", "--dropout-per-step", "0.1", "--dropout", "0.1"], "either --dropout or"),
        (
            ["--clients", "100", "--dropout-per-step", "0.1", "--exact-dropout"],
            "for the whole round, not dropout per step",
        ),
        (["--clients", "100", "--dropout-per-step", "much"], "share=0.01,mask=0.05, not 'much'"),
        (["--clients", "100", "--dropout-per-step", "mask=much"], "not 'much'"),
        (["--clients", "100", "--dropout-per-step", "mask=0.1,mask=0.2"], "a step twice"),
        (["--clients", "100", "--dropout-per-step", "nap=0.1"], "'nap' is not one of them"),
        (["--clients", "100", "--dropout-per-step", "mask=1.5"], "probability in [0, 1)"),
    ],
)
def test_a_mistake_ends_in_one_clear_line(arguments, says, tmp_path):
    done = run("plan", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_simulate_takes_its_graph_from_the_planner():
    report = simulate("--clients", "120", "--dropout", "0.1")
    made = plan("--clients", "120", "--dropout", "0.1")
    assert report["exact"]
    assert (report["degree_mean"], report["mask_degree_mean"]) == (made["degree"], made["mask_degree"])
    assert simulate("--clients", "120", "--degree", "60")["degree_mean"] == 60
    edges = simulate("--clients", "120", "--graph", "erdos-renyi")
    assert 30 < edges["degree_mean"] < 80


def test_dropouts_per_step():
    made = plan("--clients", "1000", "--dropout-per-step", "0.026")
    assert (made["degree"], made["threshold"]["at_mean_degree"]) == (28, 15)
    assert made["dropout"] == pytest.approx(0.1, abs=1e-4)
    assert made["dropout_per_step"]["accept"] == 0
    assert made["dropout_per_step"]["unmask"] == 0.026
    text = " ".join(run("plan", "--clients", "1000", "--dropout-per-step", "share=0.01, mask=0.05").stdout.split())
    assert "0.0595 drop out, step by step (0.01 in share, 0.05 in mask)" in text
    assert plan("--clients", "1000")["dropout_per_step"] is None
    assert "--dropout-per-step" in run("plan", "--help").stdout


def test_simulate_plays_dropouts_per_step():
    asked = ("--clients", "120", "--dropout-per-step", "0.026", "--seed", "1")
    assert simulate(*asked)["degree_mean"] == plan(*asked[:4])["degree"]
    left = simulate("--clients", "40", "--dropout-per-step", "unmask=0.2", "--degree", "30", "--seed", "1")
    assert (left["survivors"], left["exact"]) == (40, True)


def test_simulate_says_where_nothing_can_be_promised():
    done = run("simulate", "--clients", "5", "--length", "3", "--seed", "1")
    assert done.returncode == 0
    assert "out of reach" in " ".join(done.stderr.split())


def test_a_plan_says_which_demand_decides_and_what_is_only_set_aside():
    said = run("plan", "--clients", "1000").stdout
    assert "reliability, 0.8 bits to spare; privacy has 1.1 to spare" in " ".join(said.split())
    assert "set aside" not in said
    spare = plan("--clients", "1000")["spare_bits"]
    assert list(spare) == ["reliability", "privacy"]
    private = plan("--clients", "1000", "--dropout-per-step", "advertise=0.1")
    assert list(private["spare_bits"]) == ["privacy", "reliability"]
    said = " ".join(run("plan", "--clients", "1000", "--dropout-per-step", "advertise=0.1").stdout.split())
    assert "mostly set aside: fewer than" in said
