"""Errors: one tree, and they survive the way between processes."""

import copy
import pickle

import pytest

import ccesa
from ccesa import errors
from ccesa.evidence import Accusation, Evidence, WrongShare

EXAMPLES = [
    errors.ConfigError("no"),
    errors.FaultyServer("no"),
    errors.FaultyClient(3, "no"),
    errors.LateMessage(3, "no"),
    errors.ConflictingMessage(3, "no"),
    errors.TooFewClients("no"),
    errors.Unreliable([2, 1]),
    errors.Disconnected([2, 1]),
    errors.CorruptShares(4, "no"),
    errors.CorruptSeeds(4),
    errors.OverlappingSums([2, 1]),
    errors.StaleLog("no"),
    errors.DamagedLog("no"),
    errors.TaskSpent("no"),
    errors.BudgetSpent("no"),
    errors.DamagedLedger(3, "no", "file"),
    errors.AttemptsSpent("no"),
    errors.RoundsLost("no"),
]


def with_evidence(failure: errors.RoundFailed) -> errors.RoundFailed:
    failure.evidence = EVIDENCE
    return failure


EVIDENCE = Evidence(
    wrong_shares=frozenset({WrongShare(1, 2, 9)}), accusations=frozenset({Accusation(accuser=3, dealer=4)})
)
EXAMPLES += [with_evidence(errors.TooFewClients("no")), with_evidence(errors.CorruptShares(4, "no"))]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled_and_copied(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - made here
        assert type(other) is type(error)
        assert (str(other), vars(other)) == (str(error), vars(error))


def test_every_error_is_in_the_tree_and_in_its_drawing():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, Exception):
            assert issubclass(kind, errors.CcesaError)
            assert kind.__name__ in errors.__doc__


def test_a_failure_says_what_is_known_about_liars_and_nothing_where_nothing_is():
    assert str(errors.TooFewClients("too few")) == "too few"
    assert str(with_evidence(errors.TooFewClients("too few"))) == (
        "too few; client 1 sent a wrong share that client 2 dealt; client 3 could not open what client 4 sealed for it"
    )
    assert errors.TooFewClients("no").evidence == Evidence()


def test_every_error_can_be_caught_by_its_name_at_the_top():
    public = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name[0] != "_"}
    kinds = {name for name in public if issubclass(getattr(errors, name), errors.CcesaError)}
    assert "FaultyClient" in kinds
    assert kinds <= set(ccesa.__all__)
    for name in kinds:
        assert getattr(ccesa, name) is getattr(errors, name)
