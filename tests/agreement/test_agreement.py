"""A charter and trust in the server are asked the same questions; neither takes the place of the other."""

import pytest

from ccesa import ConfigError, Floor
from ccesa.agreement.agreement import TRUST, OwnRounds, Trust, make_agreement
from ccesa.protocol.server import Server
from ccesa.service.forms import form_of
from ccesa.service.participant.site import Enrolled, Invited, standing_of
from rounds import charter, configure, configure_active, identity

ACTIVE, CURIOUS = configure_active(8), configure(8)


def test_a_federation_has_one_agreement():
    agreed = charter(8)
    assert make_agreement(agreed, None, 5) is agreed
    assert make_agreement(None, CURIOUS, 5) == OwnRounds(any_round=CURIOUS, attempts=5)
    for both in ((agreed, CURIOUS), (None, None)):
        with pytest.raises(ConfigError, match="either a charter or a configuration"):
            make_agreement(*both, 5)


def test_trust_takes_no_round_that_needs_a_charter():
    with pytest.raises(ConfigError, match="guard = active, which needs a charter"):
        TRUST.check(ACTIVE)
    with pytest.raises(ConfigError, match="guard = active need a charter"):
        OwnRounds(any_round=ACTIVE)
    with pytest.raises(ConfigError, match="guard = active, which needs a charter"):
        Server(ACTIVE)


def test_a_charter_takes_no_round_that_has_none():
    with pytest.raises(ConfigError, match="guard = curious, which has no charter"):
        Server(CURIOUS, charter(8))


def test_trust_goes_down_to_the_floor():
    with pytest.raises(ConfigError, match="the round offers clients = 8, this client's floor is 9"):
        Trust(floor=Floor(clients=9)).check(CURIOUS)
    TRUST.check(CURIOUS)


def test_what_only_a_charter_says_is_empty_under_trust():
    """So nobody signs in, nothing is certified, and no digest is that of a charter."""
    assert len(TRUST.admission) == 0
    assert TRUST.digest == b""
    assert TRUST.schema is None
    assert TRUST.mechanism is None
    assert (TRUST.certificate.colluders, TRUST.certificate.logged) == (0, None)
    assert charter(8).certificate.logged.keys() >= {"privacy_bits", "least_honest"}


def test_a_server_and_a_form_follow_from_an_agreement_only():
    with pytest.raises(ConfigError, match="charter: expected Charter"):
        Server(CURIOUS, "charter.toml")
    with pytest.raises(ConfigError, match="follows from an agreement, not from 'NoneType'"):
        form_of(None, {"type": "words", "words": 3})


def test_a_series_has_the_bits_of_the_charter():
    agreed = charter(8)
    assert agreed.series(5, agreed.bits).accept
    with pytest.raises(ConfigError, match="vectors of 64 bits under a charter with bits = 16"):
        agreed.series(5, 64)


def test_a_site_with_a_charter_is_never_one_with_a_token():
    agreed, own = charter(8), identity(0)
    assert isinstance(standing_of(charter=agreed, identity=own), Enrolled)
    assert isinstance(standing_of(token="ccesa_x"), Invited)  # noqa: S106
    for given in ({"charter": agreed}, {"identity": own}, {"charter": agreed, "token": "ccesa_x"}):
        with pytest.raises(ConfigError, match="a charter and an identity go together"):
            standing_of(**given)
    for given in ({}, {"charter": agreed, "identity": own, "token": "ccesa_x"}):
        with pytest.raises(ConfigError, match="either a charter and an identity, or a token"):
            standing_of(**given)
