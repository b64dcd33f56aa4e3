"""The harness of vectors/conformance.py names the checks that an implementation does not make."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import second_answers
import second_refusals
from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.errors import CcesaError
from ccesa.privacy import Mechanism
from ccesa.protocol.server import Server
from second import raw
from test_vectors_statistics import number, schema_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "vectors"))

import checks  # noqa: E402 - not a package
import conformance  # noqa: E402 - not a package
import probes as vectors  # noqa: E402

FILES = vectors.load()
PROBES = list(vectors.probes(FILES))
CHECKS = sorted({probe.case["check"] for probe in PROBES})
BY_SECOND = [probe for probe in PROBES if probe.question["kind"] in second_answers.KINDS]
#: Checks behind which others stand that refuse the same vectors. No vector shows that the first is missing.
BACKED = {
    "A1.1": {"A1.4", "A1.8", "A1.9", "A1.10"},
    "A1.5": {"A1.8", "A1.9", "A1.10"},
    "A1.6": {"A1.8", "A1.10", "C1.9"},
    "A3.2": {"A3.4"},
    "F1.25": {"F1.26"},
    "F2.1": {"F2.2"},
    "T2.1": {"T2.2"},
}


#: What an implementation stumbles over that goes on with what it should have refused.
STUMBLES = (ArithmeticError, AttributeError, LookupError, NameError, StopIteration, TypeError, ValueError)


def second_answer(question):
    try:
        return second_answers.answer(question)
    except STUMBLES as error:
        return {"refused": False, "error": type(error).__name__}


def test_every_refusal_has_the_name_of_its_check():
    every = [case for file in FILES.values() for case in checks.refusals(file)]
    assert len(every) > 1890
    assert all(isinstance(case.get("check"), str) for case in every)
    asked = [id(probe.case) for probe in PROBES]
    assert len(set(asked)) == len(asked)
    assert {id(case) for case in every if "error" in case} <= set(asked)


@pytest.mark.needs("ml-kem")
def test_the_second_implementation_makes_every_check_of_a_client_by_its_name():
    found = {id(probe): second_answers.answer(probe.question) for probe in BY_SECOND}
    assert len(found) > 1600
    for probe in BY_SECOND:
        due = {"refused": True, "error": probe.case.get("error", "WrongProof"), "check": probe.case["check"]}
        if "error" not in probe.case:
            due["error"] = found[id(probe)]["error"]
        assert found[id(probe)] == due, probe.reason


@pytest.mark.needs("ml-kem")
@pytest.mark.parametrize("check", sorted({probe.case["check"] for probe in BY_SECOND} - set(BACKED)))
def test_a_check_that_is_taken_out_is_named(check, monkeypatch):
    monkeypatch.setattr(second_refusals, "LEFT_OUT", {check})
    asked = [probe for probe in BY_SECOND if probe.case["check"] == check]
    assert list(conformance.missing(second_answer, asked)) == [check]


@pytest.mark.needs("ml-kem")
@pytest.mark.parametrize("check", BACKED)
def test_behind_such_a_check_stands_another(check, monkeypatch):
    asked = [probe for probe in BY_SECOND if probe.case["check"] == check]
    monkeypatch.setattr(second_refusals, "LEFT_OUT", {check})
    assert {second_answers.answer(probe.question)["check"] for probe in asked} <= BACKED[check]
    monkeypatch.setattr(second_refusals, "LEFT_OUT", {check, *BACKED[check]})
    assert list(conformance.missing(second_answer, asked)) == [check]


def package_answer(question):
    """The package, asked as the files ask of a server and of who reads sums and schemas."""
    try:
        OF_PACKAGE[question["kind"]](question)
    except (CcesaError, shamir.TooManyWrong) as error:
        return {"refused": True, "error": type(error).__name__}
    return {"refused": False}


def to_server(question):
    task = raw(question["task"])
    if "charter" in question:
        charter = Charter.parse(question["charter"])
        server = Server(charter.decode(raw(question["config"])), charter, task=task, now=question.get("now"))
    else:
        server = Server(RoundConfig.decode(raw(question["config"])), task=task)
    server.open()
    for place, step in enumerate(question["steps"]):
        if place:
            server.close()
        for each in step["replies"]:
            if "ahead" in each:
                server.ask_helpers()
            server.receive(each["client"], raw(each["reply"]))
    if question.get("ahead"):
        server.ask_helpers()
    server.receive(question["sender"], raw(question["reply"]))


def corrected(question):
    shares = np.stack([np.frombuffer(raw(share), "<u2") for share in question["shares"]])
    shamir.wrong_places(np.array(question["xs"]), shares, question["threshold"], os.urandom)


def noisy_table(question):
    noise = mechanism_of(question)
    schema_of(number(question["schema"])).encode(question["records"], noise, lambda count: bytes(count))


def total(question):
    vector = words.from_bytes(raw(question["sum"]), 64)
    schema_of(number(question["schema"])).decode(vector, question["members"], mechanism_of(question))


def mechanism_of(question):
    return None if question["mechanism"] is None else Mechanism(**number(question["mechanism"]))


OF_PACKAGE = {
    "server": to_server,
    "correct": corrected,
    "schema": lambda question: schema_of(number(question["schema"])),
    "noisy table": noisy_table,
    "total": total,
}


def test_the_package_makes_every_other_check():
    asked = [probe for probe in PROBES if probe not in BY_SECOND]
    assert {probe.question["kind"] for probe in asked} == set(OF_PACKAGE)
    assert conformance.missing(package_answer, asked) == {}


def test_an_answer_that_is_none_is_no_refusal():
    probe = PROBES[0]
    for said in (None, {}, {"refused": False}, {"refused": 1}, {"refused": True, "error": "other"}):
        assert list(conformance.missing(lambda _, said=said: said, [probe])) == [probe.case["check"]]
    assert conformance.missing(lambda _: {"refused": True}, [probe]) == {}


@pytest.mark.needs("ml-kem")
def test_the_command_asks_line_by_line_and_prints_names(tmp_path):
    script = tmp_path / "without.py"
    script.write_text(
        "import json, sys\n"
        f"sys.path.append({str(ROOT / 'tests' / 'second')!r})\n"
        "import second_answers, second_refusals\n"
        "second_refusals.LEFT_OUT = {'C1.8', 'A3.5'}\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps(second_answers.answer(json.loads(line))), flush=True)\n"
    )
    command = [sys.executable, str(ROOT / "vectors" / "conformance.py"), "--role", "series"]
    done = subprocess.run(
        [*command, "--command", f"{sys.executable} {script}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    named = [line.split()[0] for line in done.stdout.splitlines() if "is not made" in line]
    assert named == ["A3.5", "C1.8"]


def test_every_file_has_its_roles():
    assert set(conformance.NEEDED) == set(FILES)
    assert all(set(roles) <= set(conformance.ROLES) for roles in conformance.NEEDED.values())
    for role in conformance.ROLES:
        assert conformance.chosen(FILES, role)


@pytest.mark.parametrize(("role", "helper"), [("member", False), ("helper", True)])
def test_members_and_helpers_are_asked_what_concerns_them(role, helper):
    every = conformance.chosen(FILES, role)
    assert {conformance.helps(probe.question) for probe in every} == {None, helper}
    assert {probe.question["kind"] for probe in every} >= {"client", "series", "joining", "charter", "message"}
    assert len(conformance.chosen(FILES, role, ("series", "hybrid"))) < len(every)
