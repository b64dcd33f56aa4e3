"""Every check of a client is in the vectors: take one away, and some vector fails.

Tried with the second implementation, which has each check of docs/protocol.md once. ``mutants.py`` tries the
package's own.
"""

import ast
import functools
import pickle
import tomllib

import pytest

from mutants import SECOND, code_of, mutants, noticed, survivors_of_second


@pytest.fixture
def texts_parsed_once(monkeypatch):
    """Mutants read the same texts again and again; each gets an object of its own."""
    loads = tomllib.loads

    @functools.cache
    def parsed(text):
        floats = []
        found = loads(text, parse_float=floats.append)
        return None if floats else pickle.dumps(found)  # what a float becomes is the mutant's to say

    def again(text, **options):
        kept = parsed(text)
        return loads(text, **options) if kept is None else pickle.loads(kept)  # noqa: S301 - from here

    monkeypatch.setattr(tomllib, "loads", again)


@pytest.mark.usefixtures("texts_parsed_once")
@pytest.mark.parametrize("name", SECOND)
def test_no_check_can_be_taken_away_unnoticed(name):
    assert list(survivors_of_second(name)) == []


@pytest.mark.usefixtures("texts_parsed_once")
@pytest.mark.needs("ml-kem")
def test_the_second_implementation_itself_is_noticed_by_nothing():
    """Put in place as a mutant is, and with nothing taken away."""
    assert not noticed(SECOND[0], code_of(SECOND[0]))


SAMPLE = """
def check(x, y):
    if x < 0 or y < 0:
        raise ValueError("below")
    if not 1 <= x <= 9:
        raise ValueError("outside")
    if not (x and y):
        raise ValueError("nothing")
"""


def refuses(tree, *arguments):
    space = {}
    exec(compile(tree, "sample", "exec"), space)  # noqa: S102 - the sample above
    try:
        space["check"](*arguments)
    except ValueError as error:
        return str(error)
    return None


def test_a_mutant_has_one_refusal_or_one_reason_less():
    tried = ((-1, 5), (3, -5), (0, 5), (10, 5), (3, 0), (0, 0))
    whole = [refuses(ast.parse(SAMPLE), *each) for each in tried]
    assert whole == ["below", "below", "outside", "outside", "nothing", "outside"]
    found = {what: [refuses(tree, *each) for each in tried] for _, what, tree in mutants(SAMPLE)}
    assert len(found) == 9
    assert all(outcome != whole or what in ("x",) for what, outcome in found.items())
    assert found["raise ValueError('below')"][1] is None
    assert found["y < 0"][1] is None
    assert found["1 <= x <= 9, part 1"][3] is None
    assert found["y"][4] is None
