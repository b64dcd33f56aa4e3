"""The command line as users have it: a process, its output, its exit code."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from unittest import mock

import pytest

from ccesa.cli.output import check_output
from ccesa.errors import ConfigError
from commands import FRESH, fresh, run

FIELDS = {
    "clients",
    "survivors",
    "outcome",
    "exact",
    "degree_mean",
    "mask_degree_mean",
    "client_ms",
    "server_ms",
    "client_bytes",
    "peak_rss_mb",
    "helpers",
    "helper_ms",
    "helper_bytes",
    "noise",
}


def simulate(*arguments: str, status: int = 0, run=run) -> dict:
    done = run("simulate", "--length", "100", "--json", *arguments)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_version():
    done = fresh("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ccesa ")


def test_the_package_can_be_run_as_the_command():
    done = subprocess.run([sys.executable, "-m", "ccesa", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, run("--version").stdout)


@pytest.mark.parametrize("command", [[], ["simulate"], ["demo"], ["plan"]])
def test_help_says_what_there_is(command):
    done = run(*command, "--help")
    assert done.returncode == 0
    assert "--help" in done.stdout


def test_the_row_of_the_paper():
    report = simulate(
        *[
            "--clients",
            "100",
            "--bits",
            "16",
            "--dropout",
            "0.1",
            "--graph",
            "erdos-renyi",
            "--p",
            "0.7953",
            "--threshold",
            "51",
            "--seed",
            "1",
        ]
    )
    assert report.keys() == FIELDS
    assert report["outcome"] == "aggregate"
    assert report["exact"] is True
    assert 80 <= report["survivors"] <= 98
    assert 70 < report["degree_mean"] < 85
    assert report["client_ms"].keys() == {"advertise", "share", "mask", "unmask"}
    assert report["client_bytes"].keys() == {"sent", "received"}


@pytest.mark.parametrize("more", [pytest.param(["--post-quantum"], marks=pytest.mark.needs("ml-kem")), ["--accept"]])
def test_a_round_with_accept_has_one_step_more(more):
    report = simulate("--clients", "12", "--seed", "1", *more)
    assert report["exact"] is True
    assert report["client_ms"].keys() == {"advertise", "share", "accept", "mask", "unmask"}


LOST = ["--clients", "20", "--graph", "complete", "--threshold", "19", "--dropout", "0.5", "--seed", "3"]


def test_a_failure_is_named_and_never_called_exact():
    report = simulate(*LOST, status=3)
    assert report["outcome"] in {"Unreliable", "TooFewClients"}
    assert report["exact"] is False
    assert report["survivors"] == 0


def test_a_lost_round_is_told_to_people_and_to_scripts():
    done = run("simulate", *LOST)
    assert done.returncode == 3
    assert re.search("outcome +(Unreliable|TooFewClients)", done.stdout)
    assert "3 if the round was lost" in " ".join(run("simulate", "--help").stdout.split())
    assert "3 a round without a sum" in " ".join(run("--help").stdout.split())


def test_a_seed_fixes_inputs_and_dropouts():
    asked = ("--clients", "30", "--dropout", "0.3", "--seed", "7")
    assert simulate(*asked)["survivors"] == simulate(*asked, run=fresh)["survivors"]


@pytest.mark.parametrize(
    "graph", ["harary --degree 8 --mask-degree 4", "erdos-renyi --p 0.9 --mask-p 0.5", "complete --mask-degree 6"]
)
def test_nested_masks(graph):
    report = simulate("--clients", "20", "--dropout", "0", "--graph", *graph.split())
    assert report["exact"] is True
    assert report["mask_degree_mean"] < report["degree_mean"]


def test_words_for_people():
    done = run("simulate", "--clients", "10", "--length", "10", "--dropout", "0")
    assert "equal to the plain sum" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--frobnicate", "--frobnicate"),
        ("--graph star", "erdos-renyi"),
        ("--clients many", "--clients"),
        ("--graph erdos-renyi --p 1.5", "(0, 1]"),
        ("--graph erdos-renyi --p nan", "(0, 1]"),
        ("--graph erdos-renyi --p 0.5 --mask-p 0.6", "exceeds p"),
        ("--graph harary --degree 8 --threshold 10", "exceeds the neighbourhood"),
        ("--graph harary --degree 8 --threshold 3", "disjoint"),
        ("--graph harary --degree 7", "even"),
        ("--graph harary --degree 500", "clients"),
        ("--graph harary --p 0.5", "--degree"),
        ("--graph complete --degree 4", "--mask-degree"),
        ("--clients 2", "at least 3 clients"),
        ("--length 0", "length"),
        ("--bits 12", "bits"),
        ("--dropout 1", "[0, 1)"),
        ("--dropout -0.1", "[0, 1)"),
        ("--threads -1", "threads"),
        ("--seed -1", "seed"),
    ],
)
def test_a_mistake_ends_in_one_clear_line(arguments, says):
    done = run("simulate", *arguments.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (["simulate", "--clints", "3"], "ccesa simulate --help"),
        (["identity", "new"], "ccesa identity new --help"),
        (["--clients", "3"], "ccesa --help"),
    ],
)
def test_a_wrong_call_says_whose_help_helps(arguments, shows):
    done = run(*arguments)
    assert done.returncode == 2
    assert f"(see {shows})" in done.stderr


def complete(*words: str, at: str = "bash", run=run) -> list[str]:
    """What the shell offers for the last of the words."""
    line = " ".join(["ccesa", *words])
    asked = {
        "_CCESA_COMPLETE": f"complete_{at}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    with mock.patch.dict(os.environ, asked):
        done = run()
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_shell_completes_commands_and_options():
    assert complete("si") == complete("si", run=fresh) == ["simulate"]
    assert "simulate\tRun one round" in complete("si", at="fish")[0]
    assert "--dropout" in complete("simulate", "--")
    assert complete("simulate", "--graph", "er") == ["erdos-renyi"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_had_for_each_shell(shell, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = run("--show-completion", shell)
    assert done.returncode == 0
    assert f"_CCESA_COMPLETE=complete_{shell}" in done.stdout


def test_unknown_command():
    done = run("aggregate-all")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_demo_trains_and_writes_its_report(tmp_path):
    done = run("demo", "--rounds", "3", "--clients", "12", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "demo-report.html").read_text(encoding="utf-8")
    assert "every sum exact" in done.stdout
    assert report.count("<svg") == 8
    for outside in ("http://", "https://", "src=", "href="):
        assert outside not in report


@pytest.mark.needs("ml-kem")
def test_the_demo_compares_like_with_like(tmp_path):
    done = run("demo", "--rounds", "1", "--clients", "12", "--dropout", "0", "--post-quantum", cwd=tmp_path)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "0 in accept" in text
    ours, theirs = re.search(r"client, bytes sent ([\d,]+) ([\d,]+)", text).groups()
    assert ours == theirs  # so few clients are everyone's neighbours, in both


def test_demo_reaches_what_plain_averaging_reaches(tmp_path):
    done = run("demo", "--output", str(tmp_path / "r.html"))
    rows = dict(line.split("  ", 1) for line in done.stdout.splitlines() if line.startswith("accuracy, "))
    secure, plain = (float(rows[f"accuracy, {way}"].strip(" %")) for way in ("secure aggregation", "plain averaging"))
    assert secure > 85
    assert abs(secure - plain) < 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--clients", "5000"], "clients"),
        (["--output", "no/such/folder/r.html"], "no/such/folder"),
        (["--output", "."], "is a folder; name a file in it"),
        (["--rounds", "0"], "--rounds"),
    ],
)
def test_demo_mistakes(arguments, says, tmp_path):
    done = run("demo", "--rounds", "1", "--clients", "5", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_report_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="no permission to write"):
        check_output(tmp_path / "r.html")


def test_progress_is_shown_to_a_person_watching():
    """Standard error is a terminal: a bar for every step. The JSON on standard output stays alone."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*FRESH, "simulate", "--clients", "60", "--length", "10", "--json", "--dropout", "0"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        timeout=120,
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode(errors="replace")
    os.close(ours)
    assert json.loads(done.stdout)["exact"] is True
    assert "advertise" in shown
    assert "/60" in shown


def start(command: list[str], stderr: int) -> subprocess.Popen:
    """A process that minds Ctrl-C, also where these tests run in the background, whose children do not."""
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def read_until(stream: int, sign: bytes) -> bytes:
    """What comes up to this pattern, or up to the end."""
    said = b""
    while not re.search(sign, said):
        try:
            more = os.read(stream, 1 << 16)
        except OSError:  # the end of a terminal
            more = b""
        if not more:
            break
        said += more
    return said


@pytest.mark.parametrize(
    ("switches", "sign", "ends"),
    [
        (["-X", "importtime"], rb" ccesa\.cli\n.*\n", os.pipe),  # the command is there, and imports more
        ([], rb"advertise", pty.openpty),  # the bar of the first step, which only a terminal is shown
    ],
    ids=["while importing", "while working"],
)
def test_ctrl_c_says_stopped(switches, sign, ends):
    ours, theirs = ends()
    command = [sys.executable, *switches, *FRESH, "simulate", "--clients", "2000", "--length", "1000"]
    running = start(command, theirs)
    os.close(theirs)
    try:
        assert re.search(sign, read_until(ours, sign))
        running.send_signal(signal.SIGINT)
        said = read_until(ours, rb"\0").decode()
        assert running.wait(60) == 130
    finally:
        running.kill()
        os.close(ours)
    assert said.splitlines()[-1].endswith("ccesa: stopped")
    assert "Traceback" not in said


def test_too_much_for_this_machine_ends_in_one_line():
    command = f"ulimit -v 3000000; exec {FRESH[0]} simulate --clients 5 --length 400000000"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "memory" in done.stderr
    assert "Traceback" not in done.stderr


NOISE = ("--epsilon", "8", "--delta", "1e-6", "--rounds", "10", "--norm", "2")


@pytest.mark.parametrize("guard", [("curious",), ("active",), ("active", "--against", "lies")], ids=" ".join)
def test_a_round_with_noise_says_how_much_is_in_the_sum(guard):
    report = simulate("--clients", "40", "--guard", *guard, "--seed", "1", *NOISE, "--length", "3000")
    assert report["exact"]
    noise = report["noise"]
    assert noise["epsilon"] == pytest.approx(8, rel=0.01)
    assert noise["epsilon"] <= 8
    assert noise["measured"] == pytest.approx(noise["expected"], rel=0.08)
    assert noise["expected"] > noise["curator"]
    assert noise["against"] == (guard[-1] if len(guard) > 1 else "follows")


def test_a_round_with_noise_in_words():
    done = run("simulate", "--clients", "40", "--length", "3000", "--seed", "1", *NOISE)
    words = " ".join(done.stdout.split())
    assert "epsilon = 8 at delta = 1e-06 over 10 round(s) like this one" in words
    assert "against a server that follows the protocol; no ledger is kept" in words
    assert "honest clients are counted on" in words


def test_a_lost_round_with_noise_has_none():
    lost = simulate("--clients", "6", "--seed", "0", *NOISE, status=3)  # of whom two leave
    assert (lost["outcome"], lost["noise"]["measured"], lost["noise"]["expected"]) == ("TooFewClients", None, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (NOISE[:2], "add --delta, --rounds, --norm"),
        ((*NOISE, "--degree", "10"), "with noise graph and threshold are planned"),
        ((*NOISE, "--threshold", "30"), "with noise graph and threshold are planned"),
        ((*NOISE, "--against", "lies"), "use guard = active"),
        ((*NOISE, "--epsilon", "0"), "epsilon must lie above 0"),
        ((*NOISE, "--delta", "1"), "delta must be at least 1e-12 and below 1"),
        ((*NOISE, "--norm", "0"), "norm must be a positive number"),
        ((*NOISE, "--rounds", "0"), "rounds must lie in 1..1000000000"),
    ],
)
def test_noise_that_cannot_be(more, says):
    done = run("simulate", "--clients", "40", "--length", "100", *more)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_demo_in_which_every_round_is_lost(tmp_path):
    done = run("demo", *["--clients", "3", "--dropout", "0.9", "--rounds", "2"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "there was no sum" in done.stdout
    assert "2 of 2" in done.stdout
