"""Helpers sign in like members, for ids of their own; nobody is taken for the other."""

import base64
import time
from types import SimpleNamespace

import pytest

from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.service.federation import Federation, HubTable
from ccesa.service.forms import Words
from ccesa.service.http import Limits, asking
from ccesa.service.http.app import _Reading
from ccesa.service.participant.calls import HubAnswer
from ccesa.service.participant.line import Line
from ccesa.service.participant.site import Enrolled, Helping
from ccesa.service.problems import Problem
from ccesa.service.tokens import signed_text
from engines import CLIENTS, HELPERS
from rounds import charter, identity

ORIGIN = "https://hub.example"
AGREED = charter(CLIENTS, bits=32, min_survivors=3, helpers=HELPERS)


def members_of(agreed) -> asking.Members:
    hub = HubTable(origins=(ORIGIN,))
    made = Federation(name="a test", rounds=1, charter=agreed, form=Words(words=4), hub=hub)
    return asking.Members(SimpleNamespace(secret=bytes(32)), made, Limits())


def signed_in(agreed, who: Identity, *, helper: bool) -> int:
    members = members_of(agreed)
    stated = bytes(16) + asking._TIME.pack(int(time.time()))
    challenge = stated + members._code(stated)
    signature = who.sign(signed_text(agreed.digest, ORIGIN, challenge))
    said = asking.SessionRequest(key=who.public, challenge=challenge, origin=ORIGIN, signature=signature, helper=helper)
    return members._check(said)


def test_a_site_that_is_both_has_two_ids():
    assert signed_in(AGREED, identity(0), helper=False) == 0
    assert signed_in(AGREED, identity(0), helper=True) == CLIENTS
    assert [signed_in(AGREED, one, helper=True) for one in HELPERS] == [CLIENTS, CLIENTS + 1, CLIENTS + 2]
    assert signed_in(AGREED, identity(5), helper=False) == 5


@pytest.mark.parametrize(
    ("who", "helper", "why"),
    [
        (identity(1), True, "no helper of this federation made this signature"),
        (identity(100), False, "no member of this federation made this signature"),
        (Identity.new(), True, "no helper of this federation made this signature"),
    ],
)
def test_nobody_signs_in_as_somebody_else(who, helper, why):
    with pytest.raises(ConfigError, match=why):
        signed_in(AGREED, who, helper=helper)


def test_a_federation_without_helpers_refuses_them_by_name():
    with pytest.raises(ConfigError, match="the charter of this federation names no helpers"):
        signed_in(charter(CLIENTS, bits=32, min_survivors=3), identity(0), helper=True)


@pytest.mark.parametrize("kind", [Enrolled, Helping])
def test_a_site_says_as_whom_it_signs_in(kind):
    standing = kind(agreement=AGREED, identity=identity(0), origin=ORIGIN)
    flow = Line(member=standing)._sign_in()
    next(flow)
    challenge = base64.b64encode(bytes(32)).decode()
    call = flow.send(HubAnswer(status=200, body=b'{"challenge": "%s"}' % challenge.encode()))
    assert (b'"helper":true' in call.body) == (kind is Helping)
    assert standing.client == (CLIENTS if kind is Helping else 0)


def test_only_a_site_of_the_charter_can_help():
    with pytest.raises(ConfigError, match="not among the charter's helpers"):
        Helping(agreement=AGREED, identity=identity(1), origin=ORIGIN)
    with pytest.raises(ConfigError, match="not among the members"):
        Enrolled(agreement=AGREED, identity=identity(100), origin=ORIGIN)
    assert Enrolled(agreement=AGREED, identity=identity(1), origin=ORIGIN).as_helper() is None
    assert Enrolled(agreement=AGREED, identity=identity(0), origin=ORIGIN).as_helper().client == CLIENTS


def test_a_helper_gets_no_task_and_no_result():
    """It needs none; whoever trusts it with a key need not trust it with a model."""
    desk = SimpleNamespace(member_of=None)
    members = members_of(AGREED)

    async def as_helper(request) -> int:
        return CLIENTS + 1

    members.authenticate = as_helper
    reading = _Reading(desk, members._federation, members, Limits(), None)
    for route in (reading.task, reading.result):
        with pytest.raises(Problem, match="not-found"):
            route(SimpleNamespace(path_params={})).send(None)
