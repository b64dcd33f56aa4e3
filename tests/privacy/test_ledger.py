"""The ledger of a site's data: what is charged stays charged, whatever happens to its file."""

import contextlib
import hashlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import BudgetSpent, ConfigError, DamagedLedger
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism, ledger_file
from ccesa.privacy import ledger as ledger_module
from ccesa.privacy.accounting import gaussian_delta, gaussian_mu
from ccesa.privacy.ledger import Ledger

TASK, ROUND = bytes(range(32)), bytes(range(36))
CHARTERS = (None, b"\1" * 32, b"\2" * 32)
posix = pytest.mark.skipif(os.name != "posix", reason="permissions of files")


@lru_cache
def mechanism(epsilon: float = 3.0, rounds: int = 5, fails: float = -60.0) -> Mechanism:
    """A small one; more rounds and a smaller epsilon are more noise, and less spent with each vector."""
    demand = DifferentialPrivacy(epsilon=epsilon, delta=1e-6, rounds=rounds, norm=1.0)
    return choose_mechanism(demand, clients=10, honest=5, dimension=20, fails=fails)


SEVERAL = [mechanism(), mechanism(1.0, 4), mechanism(0.5, 9), mechanism(2.0, 3, -28.0)]


def ledger_of(folder: Path, epsilon: float = 3.0, entries: int = 0) -> Ledger:
    made = Ledger.new(folder / "ledger", epsilon=epsilon, delta=1e-6)
    for _ in range(entries):
        charge(made)
    return made


def charge(ledger: Ledger, one: Mechanism | None = None, charter: bytes | None = None) -> None:
    ledger.account(one or mechanism(rounds=100), charter).charge(TASK, ROUND)


def both(folder: Path) -> tuple[Path, Path]:
    return folder / "ledger", folder / "ledger.head"


def python(script: str, *arguments: object) -> subprocess.Popen:
    """In a process of its own, which has the names of this file."""
    start = f"import sys; sys.path[:0] = {sys.path!r}\nfrom test_ledger import *\n"
    command = [sys.executable, "-c", start + script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# What is spent


def delta_spent(budget: float, mechanisms: list[Mechanism]) -> float:
    """The plain recomputation, at the epsilon of the budget, with exact sums."""
    spent = [one.release_at(one.honest, budget) for one in mechanisms]
    mu2, outright, slack = (
        float(sum((Fraction(getattr(each, name)) for each in spent), Fraction())) for name in ("mu2", "delta", "slack")
    )
    return math.exp(slack) * gaussian_delta(budget - 2 * slack, math.sqrt(mu2)) + outright


charges = st.lists(st.tuples(st.sampled_from(SEVERAL), st.sampled_from(CHARTERS)), max_size=25)


@given(charges=charges, epsilon=st.sampled_from([0.3, 1.0, 2.7, 3.0, 5.0, 20.0]))
def test_vectors_leave_until_all_of_them_together_would_spend_more_than_the_budget(charges, epsilon):
    """Over all charters and mechanisms; and no mechanism is used more often than it is made for."""
    ledger, left = Ledger.in_memory(epsilon=epsilon, delta=1e-6), []
    for one, charter in charges:
        room = delta_spent(epsilon, [used for used, _ in left] + [one]) <= 1e-6
        made_for = left.count((one, charter)) < one.rounds
        account = ledger.account(one, charter)
        if room and made_for:
            account.check()
            account.charge(TASK, ROUND)
            left.append((one, charter))
        else:
            why = "one more would make" if made_for else "made for"
            with pytest.raises(BudgetSpent, match=why):
                account.check()
            with pytest.raises(BudgetSpent, match=why):
                account.charge(TASK, ROUND)
    entries = ledger.charges()
    assert [entry.number for entry in entries] == list(range(1, len(left) + 1))
    spent = ledger.spent()
    assert spent.vectors == len(left)
    assert spent.epsilon <= epsilon
    exact = sum((Fraction(one.release_at(one.honest, epsilon).mu2) for one, _ in left), Fraction())
    assert Fraction(spent.mu) ** 2 == pytest.approx(float(exact), rel=1e-12)
    assert sum(part.vectors for part in ledger.spent_by_charter().values()) == len(left)
    assert all(part.epsilon <= spent.epsilon for part in ledger.spent_by_charter().values())


@given(charges=charges)
def test_sums_are_never_below_the_exact_ones(charges):
    ledger = Ledger.in_memory(epsilon=50.0, delta=0.5)
    for one, charter in charges:
        if sum(used.mechanism == one.digest.hex() for used in ledger.charges()) < one.rounds:
            charge(ledger, one, charter)
    exact = sum((Fraction(entry.delta) for entry in ledger.charges()), Fraction())
    assert exact <= Fraction(ledger.spent().outright) <= exact * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("one", SEVERAL, ids=lambda one: f"{one.epsilon:g}-{one.rounds}")
def test_a_ledger_with_the_budget_of_a_charter_has_room_for_exactly_its_rounds(one):
    ledger = Ledger.in_memory(epsilon=one.epsilon, delta=one.delta)
    for left in range(one.rounds, 0, -1):
        charge(ledger, one)
        assert ledger.left() == left - 1
    assert 0.9 * one.epsilon < ledger.spent().epsilon <= one.epsilon
    with pytest.raises(BudgetSpent, match=f"{one.rounds} vector.s. of this site have left with this noise"):
        charge(ledger, one)
    with pytest.raises(BudgetSpent, match="one more would make it"):  # another charter does not help
        charge(ledger, one, b"\1" * 32)


def test_what_is_left_is_what_can_be_charged():
    ledger = Ledger.in_memory(epsilon=1.5, delta=1e-6)
    assert ledger.left() is None
    charge(ledger, mechanism(0.5, 9))
    charge(ledger)
    left = ledger.left()
    assert 1 < left < 100
    assert ledger.account(mechanism(rounds=100)).left() == left
    for _ in range(left):
        charge(ledger)
    assert ledger.left() == 0
    with pytest.raises(BudgetSpent, match=rf"{left + 2} vector\(s\) have spent epsilon = 1\.\d+ of this site's 1.5"):
        charge(ledger)
    assert len(ledger.charges()) == left + 2


def test_the_distance_of_the_tables_counts_at_the_budget_and_not_at_the_mechanism():
    """Distributions that are a little off cost e^epsilon times that, at the epsilon that is asked for."""
    one, deltas = mechanism(fails=-math.inf), []
    for epsilon in (3.0, 40.0):
        ledger = Ledger.in_memory(epsilon=epsilon, delta=1e-6)
        charge(ledger, one)
        deltas.append(ledger.charges()[0].delta)
    assert deltas[0] == one.release.delta
    assert deltas[1] == pytest.approx(deltas[0] * (1 + math.exp(40)) / (1 + math.exp(3)))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.9])
def test_who_chooses_between_mechanisms_in_view_of_what_came_out_gains_the_outright_part_at_most(share):
    """After such a share of mu^2 the rest of delta may go to noise or to chance, whatever tells more then.

    Every path stays within epsilon and delta. Which path is taken depends on the loss so far, which is normal
    with mean mu^2 / 2 and variance mu^2. Choosing gains something; the page says how much it can be.
    """
    epsilon, delta = 3.0, 1e-6
    mu2 = gaussian_mu(epsilon, delta) ** 2
    before, after = share * mu2, math.sqrt((1 - share) * mu2)
    outright = delta - gaussian_delta(epsilon, math.sqrt(before))
    points = np.linspace(-10, 10, 8001)
    weights = np.exp(-(points**2) / 2) * (points[1] - points[0]) / math.sqrt(2 * math.pi)
    losses = before / 2 + math.sqrt(before) * points
    noise = np.array([gaussian_delta(epsilon - loss, after) for loss in losses])
    known = 1 - np.exp(np.minimum(epsilon - losses, 0))
    chance = known + (1 - known) * outright
    assert weights @ noise == pytest.approx(delta, rel=1e-4)
    assert weights @ chance == pytest.approx(delta, rel=1e-4)
    assert 1.05 * delta < weights @ np.maximum(noise, chance) <= delta + outright


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon must"),
        ({"epsilon": -1.0, "delta": 1e-6}, "epsilon must"),
        ({"epsilon": math.nan, "delta": 1e-6}, "epsilon must"),
        ({"epsilon": 51.0, "delta": 1e-6}, "epsilon must"),
        ({"epsilon": "3", "delta": 1e-6}, "epsilon must"),
        ({"epsilon": 3.0, "delta": 1.0}, "delta must"),
        ({"epsilon": 3.0, "delta": 0.0}, "delta must"),
    ],
)
def test_a_budget_is_a_budget(budget, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        Ledger.in_memory(**budget)
    with pytest.raises(ConfigError, match=says):
        Ledger.new(tmp_path / "ledger", **budget)
    assert not os.listdir(tmp_path)


def test_an_account_is_for_a_mechanism():
    with pytest.raises(ConfigError, match="mechanism: expected Mechanism, got DifferentialPrivacy"):
        Ledger.in_memory(epsilon=1.0, delta=1e-6).account(mechanism().demand)
    for charter in (b"", bytes(31), "0" * 32, 7, bytearray(32)):
        with pytest.raises(ConfigError, match="the digest of a charter has 32 bytes"):
            Ledger.in_memory(epsilon=1.0, delta=1e-6).account(mechanism(), charter)


# The file


def test_what_was_charged_is_read_again_by_whoever_opens_the_file(tmp_path):
    ledger = ledger_of(tmp_path, epsilon=2)
    for one in SEVERAL:
        charge(ledger, one, b"\7" * 32)
    again = Ledger(tmp_path / "ledger")
    assert (again.epsilon, again.delta) == (2.0, 1e-6)
    assert again.charges() == ledger.charges()
    for entry, one in zip(again.charges(), SEVERAL, strict=True):
        released = one.release_at(one.honest, 2.0)
        assert (entry.mu2, entry.delta, entry.slack) == (released.mu2, released.delta, released.slack)
        assert (entry.task, entry.round, entry.charter) == (TASK.hex(), ROUND.hex(), "07" * 32)
        assert (entry.mechanism, entry.rounds) == (one.digest.hex(), one.rounds)


def test_each_line_is_a_hash_over_the_line_before_and_a_json_object(tmp_path):
    """As docs/privacy.md says it, with the standard library alone."""
    ledger_of(tmp_path, entries=3)
    before = bytes(32)
    for line in (tmp_path / "ledger").read_bytes().splitlines():
        told, _, text = line.partition(b" ")
        parts = (b"ccesa-ledger-1 line", before, text)
        before = hashlib.sha256(b"".join(len(one).to_bytes(4, "little") + one for one in parts)).digest()
        assert told.decode() == before.hex()
        found = json.loads(text)
    assert found["number"] == 3
    assert (tmp_path / "ledger.head").read_bytes() == line + b"\n"
    assert set(found) == {
        *("number", "time", "charter", "mechanism", "rounds", "task", "round", "mu2", "delta", "slack")
    }


@posix
def test_both_files_are_their_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        ledger_of(tmp_path, entries=2)
    finally:
        os.umask(before)
    assert sorted(os.listdir(tmp_path)) == ["ledger", "ledger.head"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in both(tmp_path)} == {0o600}


@posix
@pytest.mark.parametrize("mode", [0o640, 0o602])
@pytest.mark.parametrize("which", [0, 1])
def test_a_ledger_that_others_can_use_is_refused(tmp_path, mode, which):
    ledger = ledger_of(tmp_path, entries=1)
    both(tmp_path)[which].chmod(mode)
    for refused in (ledger.spent, lambda: charge(ledger), lambda: Ledger(tmp_path / "ledger")):
        with pytest.raises(ConfigError, match="chmod 600"):
            refused()


@pytest.mark.parametrize("there", ["ledger", "ledger.head"])
def test_a_ledger_is_never_made_anew(tmp_path, there):
    """Also where only its head is left: somebody has removed what was spent."""
    ledger_of(tmp_path, entries=2)
    for path in both(tmp_path):
        if path.name != there:
            path.unlink()
    before = (tmp_path / there).read_bytes()
    with pytest.raises(ConfigError, match=f"{there} already exists and will not be overwritten"):
        ledger_of(tmp_path)
    assert os.listdir(tmp_path) == [there]
    assert (tmp_path / there).read_bytes() == before


@posix
def test_a_link_leads_to_the_same_ledger_and_head(tmp_path):
    ledger = ledger_of(tmp_path, entries=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(tmp_path / "ledger")
    charge(Ledger(tmp_path / "other" / "link"))
    charge(ledger)
    assert len(Ledger(tmp_path / "other" / "link").charges()) == 3
    assert os.listdir(tmp_path / "other") == ["link"]


@posix
@pytest.mark.parametrize("name", ["circle", "a\0b", "", "."])
def test_what_cannot_be_a_file_is_no_ledger(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ConfigError, match="cannot be"):  # a ledger, or used: as the version of Python sees it
        Ledger(name)
    with pytest.raises(ConfigError):
        Ledger.new(name, epsilon=8.0, delta=1e-5)
    assert os.listdir(tmp_path) == ["circle"]
    assert not tmp_path.with_name(f"{tmp_path.name}.head").exists()


def test_without_file_locks_there_is_no_ledger_on_disk(tmp_path, monkeypatch):
    ledger = ledger_of(tmp_path)
    monkeypatch.setattr(ledger_file, "fcntl", None)
    for refused in (
        lambda: Ledger.new(tmp_path / "second", epsilon=1.0, delta=1e-6),
        lambda: Ledger(tmp_path / "ledger"),
        lambda: charge(ledger),
    ):
        with pytest.raises(ConfigError, match="needs file locks"):
            refused()
    assert len(os.listdir(tmp_path)) == 2


# Damage


def reading(folder: Path) -> tuple | None:
    """What a ledger says; None if it is damaged. Reading changes nothing, and damage lets nothing leave."""
    before = [path.read_bytes() for path in both(folder)]
    damage = []
    try:
        return Ledger(folder / "ledger").charges()
    except DamagedLedger as error:
        damage.append(error)
    finally:
        assert before == [path.read_bytes() for path in both(folder)]
    assert damage[0].line >= 1
    assert f"line {damage[0].line} of {folder / 'ledger'} is damaged" in str(damage[0])
    assert "newest copy" in str(damage[0])
    return None


def put(folder: Path, ledger: bytes, head: bytes) -> None:
    for path, data in zip(both(folder), (ledger, head), strict=True):
        path.write_bytes(data)


@pytest.mark.parametrize("which", [0, 1], ids=["file", "head"])
def test_a_damaged_byte_is_found_wherever_it_is(tmp_path, which):
    ledger_of(tmp_path, entries=2)
    whole = [path.read_bytes() for path in both(tmp_path)]
    for place in range(len(whole[which])):
        damaged = list(map(bytearray, whole))
        damaged[which][place] ^= 1 << (place % 8)
        put(tmp_path, *map(bytes, damaged))
        assert reading(tmp_path) is None, place


def test_a_ledger_cut_short_anywhere_reads_as_it_was_or_is_damaged(tmp_path):
    """What a crash leaves is the head with a last line of the file that is not whole, or not there."""
    entries = ledger_of(tmp_path, entries=2).charges()
    ledger, head = (path.read_bytes() for path in both(tmp_path))
    for end in range(len(ledger)):
        put(tmp_path, ledger[:end], head)
        assert reading(tmp_path) == (entries if end >= len(ledger) - len(head) else None), end


@pytest.mark.parametrize("missing", [1, 2, 100, 400, "all"])
def test_the_next_vector_completes_what_a_crash_has_cut_short(tmp_path, missing):
    entries = ledger_of(tmp_path, entries=2).charges()
    ledger, head = (path.read_bytes() for path in both(tmp_path))
    put(tmp_path, ledger[: -len(head) if missing == "all" else -missing], head)
    charge(Ledger(tmp_path / "ledger"))
    assert (tmp_path / "ledger").read_bytes().startswith(ledger)
    assert reading(tmp_path)[:-1] == entries


def test_a_head_cut_short_is_damage(tmp_path):
    """A head is replaced as a whole: no crash leaves a part of one."""
    ledger_of(tmp_path, entries=2)
    ledger, head = (path.read_bytes() for path in both(tmp_path))
    for file in (ledger, ledger[: -len(head)], ledger[:-1]):
        for end in {0, 1, 64, 65, 100, len(head) - 2, len(head) - 1}:
            put(tmp_path, file, head[:end])
            assert reading(tmp_path) is None, end


def test_lines_that_were_moved_left_out_or_doubled_are_found(tmp_path):
    ledger_of(tmp_path, entries=4)
    ledger, head = (path.read_bytes() for path in both(tmp_path))
    lines = ledger.splitlines(keepends=True)
    swapped = [[*lines[:k], lines[k + 1], lines[k], *lines[k + 2 :]] for k in range(4)]
    left_out = [[*lines[:k], *lines[k + 1 :]] for k in range(4)]
    doubled = [[*lines[: k + 1], lines[k], *lines[k + 1 :]] for k in range(5)]
    for wrong in (*swapped, *left_out, *doubled):
        put(tmp_path, b"".join(wrong), head)
        assert reading(tmp_path) is None
        put(tmp_path, b"".join(wrong), wrong[-1])  # and with the head that would go with it
        assert reading(tmp_path) is None


def test_lines_that_another_version_wrote_are_not_read(tmp_path):
    """With hashes that are right: whoever wrote them meant something that this version does not know."""
    ledger_of(tmp_path, entries=1)
    lines = (tmp_path / "ledger").read_bytes().splitlines()
    first, second = (line.partition(b" ")[2] for line in lines)
    for texts in (
        [first.replace(b'"ledger":1', b'"ledger":2'), second],
        [first.replace(b"3.0", b"-3.0"), second],
        [first, second.replace(b'"mu2":', b'"mu2":-')],
        [first, second.replace(b'"number":1', b'"number":2')],
        [first, second.replace(b'"rounds"', b'"refund":1,"rounds"')],
        [first, second.replace(b'"mu2"', b'"\xff"')],
        [second, first],
    ):
        assert texts != [first, second]
        before, wrong = bytes(32), []
        for text in texts:
            before = ledger_file.labels.digest(b"ccesa-ledger-1 line", before, text)
            wrong.append(before.hex().encode() + b" " + text + b"\n")
        put(tmp_path, b"".join(wrong), wrong[-1])
        assert reading(tmp_path) is None


def test_an_older_copy_of_the_file_is_found_or_completed(tmp_path):
    """One line back is what a crash leaves, and the head has that line: it is not refunded."""
    ledger, copies = ledger_of(tmp_path), []
    for _ in range(4):
        copies.append((tmp_path / "ledger").read_bytes())
        charge(ledger)
    for copy in copies[:-1]:
        (tmp_path / "ledger").write_bytes(copy)
        with pytest.raises(DamagedLedger, match="do not match; one of them is damaged, or an older copy"):
            charge(ledger)
        with pytest.raises(DamagedLedger):
            ledger.spent()
    (tmp_path / "ledger").write_bytes(copies[-1])
    assert ledger.spent().vectors == 4
    charge(ledger)
    assert ledger.spent().vectors == 5


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_an_older_copy_of_the_head_is_found(tmp_path, behind):
    ledger = ledger_of(tmp_path, entries=1)
    head = (tmp_path / "ledger.head").read_bytes()
    for _ in range(behind):
        charge(ledger)
    (tmp_path / "ledger.head").write_bytes(head)
    with pytest.raises(DamagedLedger, match="do not match"):
        charge(ledger)


def test_a_head_that_is_missing_or_of_another_ledger_is_damage(tmp_path):
    ledger = ledger_of(tmp_path, entries=2)
    (tmp_path / "other").mkdir()
    ledger_of(tmp_path / "other", entries=2, epsilon=5.0)
    (tmp_path / "ledger.head").write_bytes((tmp_path / "other" / "ledger.head").read_bytes())
    with pytest.raises(DamagedLedger, match="do not match"):
        charge(ledger)
    (tmp_path / "ledger.head").unlink()
    with pytest.raises(DamagedLedger, match=r"ledger\.head is missing, so this may not be the last line"):
        charge(ledger)


def test_older_copies_of_both_files_cannot_be_told_from_what_was(tmp_path):
    """How far a file can go: the page says so."""
    ledger = ledger_of(tmp_path, entries=1)
    copies = [path.read_bytes() for path in both(tmp_path)]
    charge(ledger)
    put(tmp_path, *copies)
    assert ledger.spent().vectors == 1


# Processes and crashes


def test_processes_that_charge_at_once_lose_no_entry_and_stay_within_the_budget(tmp_path):
    ledger = ledger_of(tmp_path, epsilon=1.0, entries=1)
    room = ledger.left()
    assert room > 10
    script = """
ledger, left = Ledger(sys.argv[1]), 0
print("ready", flush=True)
try:
    while True:
        ledger.account(mechanism(rounds=100)).charge(TASK, os.getpid().to_bytes(36, "big"))
        left += 1
except BudgetSpent:
    print(os.getpid(), left)
"""
    processes = [python(script, tmp_path / "ledger") for _ in range(3)]
    told = [process.communicate(timeout=120)[0].split() for process in processes]
    assert not any(process.returncode for process in processes)
    counts = {int(pid): int(left) for _, pid, left in told}
    entries = Ledger(tmp_path / "ledger").charges()[1:]
    assert len(entries) == sum(counts.values()) == room
    for pid, left in counts.items():
        assert sum(int(entry.round, 16) == pid for entry in entries) == left


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_threads_that_charge_at_once_stay_within_the_budget(where, tmp_path, monkeypatch):
    """Even if one takes its time between what it reads and what it writes."""
    clock = time.time
    monkeypatch.setattr(ledger_module.time, "time", lambda: time.sleep(0.002) or clock())
    budget = {"epsilon": 0.5, "delta": 1e-6}
    ledger = Ledger.in_memory(**budget) if where == "memory" else Ledger.new(tmp_path / "ledger", **budget)
    left = []

    def work() -> None:
        with contextlib.suppress(BudgetSpent):
            while True:
                charge(ledger)
                left.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.number for entry in ledger.charges()] == list(range(1, len(left) + 1))
    assert ledger.left() == 0


def test_a_process_that_is_killed_refunds_nothing(tmp_path):
    """What it said to have charged is there, and at most one vector more, which has not left."""
    ledger = ledger_of(tmp_path, epsilon=50.0)
    script = """
ledger = Ledger(sys.argv[1])
while True:
    charge(ledger, mechanism(rounds=10**6))
    print("charged", flush=True)
"""
    said = 0
    for charged in (1, 5, 2):
        process = python(script, tmp_path / "ledger")
        for _ in range(charged):
            assert process.stdout.readline() == "charged\n"
        process.send_signal(signal.SIGKILL)
        said += charged + len(process.communicate(timeout=60)[0].splitlines())
        there = len(ledger.charges())
        assert said <= there <= said + 1
        said = there
    charge(ledger, mechanism(rounds=10**6))
    assert len(ledger.charges()) == said + 1


class Crash(BaseException):
    """The end of the process, at one place."""


#: What a charge asks of the system: the file as it is, the head beside, its name, its folder, the new line.
CALLS = ["fsync", "fsync", "replace", "fsync", "write", "fsync"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", range(len(CALLS)))
def test_a_crash_at_any_call_of_the_system_refunds_nothing(tmp_path, place, after, monkeypatch):
    """Half of the new line may be there. It counts from when the head has its name."""
    ledger, calls = ledger_of(tmp_path, entries=2), []

    def crashing(name, call):
        def wrapped(*arguments):
            calls.append(name)
            if len(calls) <= place:
                return call(*arguments)
            if after:
                call(*arguments)
            raise Crash

        return wrapped

    def append(file, data) -> None:
        if data:
            crashing("write", os.write)(file.fileno(), data[: len(data) // 2])
        whole(file, data[len(data) // 2 :])

    whole = ledger_file._append
    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_append", append)
        for name in ("replace", "fsync"):
            patch.setattr(os, name, crashing(name, getattr(os, name)))
        with pytest.raises(Crash):
            charge(ledger)
    assert calls == CALLS[: place + 1]
    there = len(ledger.charges())
    assert there == (3 if (place, after) >= (CALLS.index("replace"), True) else 2)
    charge(ledger)
    assert len(Ledger(tmp_path / "ledger").charges()) == there + 1


def test_a_full_disk_is_an_error_by_name_and_nothing_is_lost(tmp_path):
    """A limit on the size of files is what one can have without filling a disk."""
    ledger_of(tmp_path, entries=3)
    script = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, ({(tmp_path / "ledger").stat().st_size + 100},) * 2)
for _ in range(2):
    try:
        charge(ledger)
    except ConfigError as error:
        print(error)
print(ledger.spent().vectors)
"""
    *said, vectors = python(script, tmp_path / "ledger").communicate(timeout=60)[0].splitlines()
    assert len(said) == 2
    assert all("cannot be used, so nothing leaves: File too large" in line for line in said)
    assert vectors == "4"
    ledger = Ledger(tmp_path / "ledger")
    charge(ledger)
    assert len(ledger.charges()) == 5


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anything")
def test_a_ledger_that_cannot_be_written_lets_nothing_leave(tmp_path):
    ledger = ledger_of(tmp_path, entries=1)
    (tmp_path / "ledger").chmod(0o400)
    with pytest.raises(ConfigError, match="cannot be used, so nothing leaves: Permission denied"):
        charge(ledger)
    (tmp_path / "ledger").chmod(0o600)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be used, so nothing leaves: Permission denied"):
            charge(ledger)
    finally:
        tmp_path.chmod(0o700)
    assert ledger.spent().vectors == 1


def test_a_file_that_is_gone_lets_nothing_leave(tmp_path):
    ledger = ledger_of(tmp_path, entries=1)
    (tmp_path / "ledger").unlink()
    for refused in (ledger.spent, lambda: charge(ledger), lambda: Ledger(tmp_path / "ledger")):
        with pytest.raises(ConfigError, match="cannot be used, so nothing leaves: No such file"):
            refused()
    assert os.listdir(tmp_path) == ["ledger.head"]


def test_a_file_that_is_replaced_while_one_waits_for_it_is_not_written(tmp_path, monkeypatch):
    ledger = ledger_of(tmp_path, entries=1)
    before = (tmp_path / "ledger").read_bytes()

    def replaced(file, how) -> None:
        (tmp_path / "copy").write_bytes(before)
        (tmp_path / "copy").chmod(0o600)
        (tmp_path / "copy").rename(tmp_path / "ledger")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file.fcntl, "flock", replaced)
        with pytest.raises(ConfigError, match="was replaced by another file just now; try again"):
            charge(ledger)
    charge(ledger)
    assert ledger.spent().vectors == 2


@posix
@pytest.mark.parametrize("name", ["ledger", "ledger.head"])
def test_nobody_waits_for_the_other_end_of_a_pipe(name, tmp_path):
    ledger_of(tmp_path, entries=1)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name, 0o600)
    with pytest.raises(ConfigError, match="is not a regular file, so it is not a ledger, and nothing leaves"):
        Ledger(tmp_path / "ledger")
