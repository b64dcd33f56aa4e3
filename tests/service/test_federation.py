"""A federation's file: what it says, and what is said where it cannot be."""

import pytest

from ccesa import ConfigError, Harary
from ccesa.protocol import messages as m
from ccesa.protocol.schedule import Schedule
from ccesa.protocol.steps import steps_of
from ccesa.service import Federation, Policy, Words
from ccesa.service.hub.replica import decode_config, first_round, masked_in
from rounds import charter, configure

CURIOUS = """
name = "a test"
rounds = 2

[round]
clients = 8
graph = { type = "harary", degree = 6 }

[form]
type = "words"
words = 100
bits = 16
"""
ACTIVE = """
name = "a test"
rounds = 2
charter = "charter.toml"

[form]
type = "words"
words = 100

[hub]
store = "postgresql://somewhere/else"
certificate = "tls.pem"
key = "tls.key"
"""


def written(folder, text: str) -> Federation:
    (folder / "charter.toml").write_text(str(charter(6)))
    path = folder / "federation.toml"
    path.write_text(text)
    return Federation.load(path)


def test_a_file_without_a_charter(tmp_path):
    found = written(tmp_path, CURIOUS)
    config = first_round(found, 100)
    assert (found.guard, found.clients, found.agreement.needed, found.agreement.attempts) == ("curious", 8, 3, 2)
    assert (config.clients, config.length, config.bits, config.accept) == (8, 100, 16, True)
    assert config.graph == Harary(degree=6)
    assert config.series_id != first_round(found, 100).series_id
    assert decode_config(found, config.encode()) == config
    assert found.store == f"sqlite:///{tmp_path}/federation.db"
    assert found.spool == tmp_path / "spool"
    assert found.counter == tmp_path / "federation.counter"
    assert found.origins[0] == "http://127.0.0.1:8470"
    assert found.agreement.names[3] == "client 3"
    assert found.tls is None


def test_a_file_with_a_charter(tmp_path):
    found = written(tmp_path, ACTIVE)
    agreed = charter(6)
    assert (found.guard, found.clients) == ("active", 6)
    assert found.agreement.needed == max(agreed.least_roster, agreed.min_survivors)
    assert found.agreement.names == tuple(seat.name for seat in agreed.members)
    assert first_round(found, 100).charter == agreed.digest
    assert decode_config(found, first_round(found, 100).encode()).length == 100
    assert found.store == "postgresql://somewhere/else"
    assert found.tls == (tmp_path / "tls.pem", tmp_path / "tls.key")
    assert found.origins[0].startswith("https://")
    with pytest.raises(ConfigError, match="another charter"):
        decode_config(found, charter(6, attempts=1).config(length=100).encode())
    with pytest.raises(ConfigError, match="not of this federation's kind"):
        decode_config(found, configure(6).encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 'x'", "not a federation"),
        ("[", "not a federation"),
        (CURIOUS.replace("rounds = 2", "rounds = 0"), "must be at least 1"),
        (CURIOUS.replace("clients = 8", "clients = 2"), "at least 3 clients"),
        (CURIOUS.replace("clients = 8", "clients = 8\nlength = 3"), r"leave .* out of \[round\]"),
        (CURIOUS.replace("clients = 8", "clients = 8\nguard = 'active'"), "charter"),
        (CURIOUS.replace('"words"', '"letters"'), "not a form"),
        (CURIOUS.replace("[round]", "[rounds]"), "not a federation"),
        (CURIOUS + "[policy]\nenough = 2", "fraction"),
        (CURIOUS + "[hub]\ncertificate = 'x'", "both a certificate and its key"),
        (CURIOUS + "[hub]\nlisten = '127.0.0.1:9x'", "not ADDRESS:PORT"),
        (CURIOUS + "[hub]\nlisten = 'hub'", "not ADDRESS:PORT"),
        (CURIOUS + "[hub]\noperate = '127.0.0.1:65536'", "not ADDRESS:PORT"),
        (CURIOUS.replace('"a test"', '"' + "x" * 101 + '"'), "name"),
        (ACTIVE.replace("charter.toml", "charter.toml'"), "not a federation|No such file"),
        (ACTIVE + "[round]\nclients = 8", "either a charter or"),
        (CURIOUS.split("[round]")[0], "either a charter or"),
    ],
)
def test_what_cannot_be(tmp_path, text, said):
    with pytest.raises((ConfigError, OSError), match=said):
        written(tmp_path, text)


def test_a_file_that_others_can_change_is_refused(tmp_path):
    written(tmp_path, CURIOUS)
    (tmp_path / "federation.toml").chmod(0o666)
    with pytest.raises(ConfigError, match="changed by others"):
        Federation.load(tmp_path / "federation.toml")


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_the_round_that_an_exchange_asks_for_vectors(guard):
    agreed = {"charter": charter(6)} if guard == "active" else {"config": configure(6)}
    made = Federation(name="x", rounds=1, form=Words(words=3), policy=Policy(), **agreed)
    config = first_round(made, 3)
    masks = next(step.request for step in steps_of(config) if m.has_vector(step.reply))
    for number in range(5):
        exchange = Schedule.of(config).exchange(number, masks)
        assert exchange is not None
        assert masked_in(made, exchange) == number


def test_a_database_is_known_by_name_and_guard():
    one = Federation(name="x", rounds=1, form=Words(words=3), config=configure(6))
    more = Federation(name="x", rounds=9, form=Words(words=4), config=configure(7))
    other = Federation(name="y", rounds=1, form=Words(words=3), config=configure(6))
    chartered = Federation(name="x", rounds=1, form=Words(words=3), charter=charter(6))
    assert one.digest == more.digest
    assert len({one.digest, other.digest, chartered.digest}) == 3
