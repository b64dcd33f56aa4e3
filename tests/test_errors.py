"""Errors: one tree, and they survive the way between processes."""

import copy
import pickle

import pytest

from ccesa import errors

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
    errors.AttemptsSpent("no"),
    errors.RoundsLost("no"),
]


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
