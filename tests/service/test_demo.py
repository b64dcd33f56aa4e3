"""The demo of the service as people run it, and that nothing is left of it however it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ccesa
from ccesa.service import Federation

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
import service_demo  # noqa: E402


def start(folder: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, str(EXAMPLES / "service_demo.py"), *options]
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def processes_in(folder: Path) -> list[str]:
    """Processes that work in a folder, or somewhere below."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                found.append(process.name)
        except OSError:  # it has just ended, or is not ours
            continue
    return found


def line_with(demo: subprocess.Popen, text: str) -> str:
    return next((line for line in demo.stdout if text in line), "")


def test_the_sums_are_those_of_the_survivors_though_two_sites_are_killed(tmp_path):
    demo = start(tmp_path)
    said, _ = demo.communicate(timeout=170)
    assert demo.returncode == 0, said
    assert said.startswith("page       http://127.0.0.1:")
    assert re.search(r"killed     hospital-g, after .*\nkilled     hospital-d, before ", said)
    # A site whose vector has come is in the sum, though it is gone when the masks come off; the other is not.
    assert "sum 1      over 7 sites, without hospital-d\n" in said
    assert "sum 2      over 6 sites, without hospital-d and hospital-g\n" in said
    assert said.count("the same") == service_demo.QUESTIONS
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())


def test_stopped_in_the_middle_it_leaves_nothing_behind(tmp_path):
    demo = start(tmp_path)
    assert line_with(demo, "sites are here")
    assert len(processes_in(tmp_path)) == 1 + len(service_demo.SITES)
    demo.send_signal(signal.SIGTERM)
    demo.communicate(timeout=30)
    assert demo.returncode == 128 + signal.SIGTERM
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_too_early_is_shown_with_its_last_words(tmp_path):
    with service_demo.Processes(tmp_path) as processes:
        processes.start("hub", "serve", "no-such-file.toml")
        processes.running["hub"].wait(60)
        with pytest.raises(SystemExit, match=r"(?s)hub ended with status \d+:.*no-such-file\.toml"):
            processes.check("hub")


def test_what_is_killed_is_gone(tmp_path):
    with service_demo.Processes(tmp_path) as processes:
        processes.start("one", "--version")
        processes.start("two", "plan", "--clients", "1000", "--dropout", "0.1", "--calibrate")
        processes.kill("two")
        assert "two" not in processes.running
    assert not processes.running
    assert not processes_in(tmp_path)


def test_what_people_would_do_by_hand(tmp_path):
    charter = service_demo.prepare(tmp_path, 1, 2)
    found = Federation.load(tmp_path / "federation.toml")
    assert found.agreement.digest == charter.digest
    assert (found.hub.listen, found.hub.operate) == ("127.0.0.1:1", "127.0.0.1:2")
    assert found.form.length(b"") == 12
    for client, name in enumerate(service_demo.SITES):
        identity = ccesa.Identity.load(tmp_path / f"{name}.key")
        assert charter.admission.id_of(identity.public) == client
    # Two of eight may leave, and the rest is still enough for a sum.
    assert found.min_survivors <= len(service_demo.SITES) - 2 >= charter.threshold.t


@pytest.mark.parametrize("change", [0, 1])
def test_a_wrong_sum_is_noticed(change, tmp_path, capsys):
    service_demo.prepare(tmp_path, 1, 2)
    names = service_demo.SITES[:3]
    plain = sum(service_demo.admissions.patients(tmp_path / f"{name}.csv").astype(int) for name in names)
    plain[5] += change
    text = f'{{"survivors": [0, 1, 2], "sum": {plain.tolist()}}}'
    (tmp_path / "result-0.json").write_text(text, encoding="utf-8")
    assert service_demo.compare(tmp_path, 0) is not bool(change)
    assert ("DIFFERENT" in capsys.readouterr().out) == bool(change)
