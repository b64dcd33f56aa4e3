"""What came out of a federation, for whoever runs its hub: ``ccesa results``."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ccesa.cli.app import app
from ccesa.errors import ConfigError
from ccesa.service.federation import Federation
from ccesa.service.forms import Words
from ccesa.service.participant.calls import HubAnswer
from ccesa.service.participant.core import fetch_results
from ccesa.service.participant.line import Line
from ccesa.service.problems import Problem
from ccesa.service.store import open_store
from ccesa.service.store.rows import RoundRow
from ccesa.service.tasks import task_digest

FILE = """
name = "a test"
rounds = 3

[round]
clients = 6

[form]
type = "words"
words = 4
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "federation.toml").write_text(FILE)
    return tmp_path / "federation.toml"


def put(path, question: int, outcome: str = "sum") -> None:
    made = Federation.load(path)
    store = open_store(made.store)
    store.put_task(question, b"task", task_digest(b"task"))
    store.put_round(
        RoundRow(
            series=1,
            number=question,
            question=question,
            attempt=1,
            task=task_digest(b"task"),
            context=bytes(32),
            started=1.0,
            ended=2.0,
            outcome=outcome,
            reason="",
            survivors=(0, 1, 5),
            asked=6,
            pairs=(),
            total=np.arange(4, dtype=np.uint32).tobytes() if outcome == "sum" else b"",
            metrics={"accuracy": 0.5} if outcome == "sum" else {},
        )
    )
    store.close()


def told(path, *options: str):
    return CliRunner().invoke(app, ["results", str(path), *options])


def test_sums_are_printed_for_people_and_for_programs(path):
    put(path, 0)
    put(path, 1, "TooFewClients")
    put(path, 2)
    said = told(path)
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "question 0: a sum over 3, accuracy 0.5",
        "  0 1 2 3",
        "question 2: a sum over 3, accuracy 0.5",
        "  0 1 2 3",
    ]
    (one,) = map(json.loads, told(path, "--json", "--question", "2").output.splitlines())
    assert (one["question"], one["survivors"], one["value"]["bits"]) == (2, [0, 1, 5], 32)


def test_no_sum_is_an_exit_status_of_its_own(path):
    put(path, 1, "TooFewClients")
    assert told(path).exit_code == 3
    put(path, 0)
    assert told(path, "--question", "1").exit_code == 3


def test_a_site_that_is_set_aside_is_told_why_it_gets_none():
    asked = fetch_results(Line(token="a token"), Words(words=1), 3, lambda result: None)  # noqa: S106
    next(asked)
    refusal = Problem("set-aside", "it gets no results until the operator lets it in again")
    answer = HubAnswer(status=refusal.status, body=bytes(refusal.response().body))
    with pytest.raises(ConfigError, match=r"refused to send results to this site.*lets it in again"):
        asked.send(answer)
