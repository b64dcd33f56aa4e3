"""Charters with helpers, good and bad, and configurations under them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from cases.charters import charter_case, identity
from cases.common import Case, sample
from ccesa.agreement.charter import Charter, Learning, Seat
from ccesa.agreement.identity import Identity, in_base64
from ccesa.privacy import Mechanism

_ROUND: dict[str, Any] = {"series_id": sample("series id"), "number": 300, "length": 9, "accept": False}
#: What a charter with noise says.
NOISY: dict[str, Any] = {
    "bits": 64,
    "min_survivors": 5,
    "privacy": Mechanism(
        epsilon=8.0,
        delta=1e-6,
        rounds=10,
        norm=2.0,
        against="follows",
        honest=4,
        dimension=40,
        variance=144514,
        grid_bits=6,
        bound=1471,
        field_bits=9,
        fails=-64.0,
    ),
}


def helped(name: str, members: int, helpers: int = 3, *, also: int = 0, **others: Any) -> Charter:
    """A charter in which the first members are also helpers."""
    seats = tuple(Seat(f"client-{i}", identity(name, i).public) for i in range(members))
    strangers = (Seat(f"helper-{place}", helper(name, place, also).public) for place in range(also, helpers))
    given: dict[str, Any] = {"colluders": 1, "min_survivors": 3, **others}
    return Charter(serial=1, expires=4102444800, members=seats, helpers=(*seats[:also], *strangers), **given)


def helper(name: str, place: int, also: int = 0) -> Identity:
    return identity(name, place) if place < also else identity(f"{name}, helpers", place)


def charters() -> dict[str, Charter]:
    return {
        "plain": helped("plain", 5, also=1),
        "hybrid, two helpers": helped("hybrid", 3, 2, agreement="x25519-mlkem768", bits=8, colluders=0),
        "the most helpers, for the longest time": helped("most", 40, 16, key_days=365, min_survivors=40, colluders=38),
        "all members help, for a day": helped("all", 4, 4, also=4, key_days=1, bits=16, generator="chacha20"),
        "the least members": helped("few", 3, 2, min_survivors=2, colluders=0, attempts=1),
        "noise": helped("noise", 5, **NOISY),
        "learning by default": helped("plain", 5, bits=64, learning=Learning()),
    }


def charter_cases() -> list[Case]:
    return [charter_case(name, charter, _ROUND) for name, charter in charters().items()]


def same() -> list[Case]:
    text = str(charters()["plain"])
    found = {
        "defaults left out": _without(text, "version", "generator", "agreement", "bits", "attempts", "key_days"),
        "keys in another order": "\n".join(sorted(text.splitlines(), key=lambda line: line.startswith("colluders"))),
    }
    return [{"reason": reason, "text": one} for reason, one in found.items()]


def _without(text: str, *names: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.partition(" = ")[0] not in names) + "\n"


def bad_charters() -> list[Case]:
    return [{"reason": reason, "text": text, "error": "ConfigError"} for reason, text in _bad().items()]


def _bad() -> dict[str, str]:
    plain = charters()["plain"]
    text, wide = str(plain), str(plain).replace("bits = 32", "bits = 64")
    return {
        "a graph": f'{text}\n[graph]\ntype = "complete"\n',
        "a threshold": f'{text}\n[threshold]\ntype = "majority"\n',
        "a roster": f"least_roster = 3\n{text}",
        "a certificate": f"{text}\n[certificate]\ndropout = 0.1\n",
        "two releases": f"releases = 2\n{text}",
        "an unknown key": f"spare_helpers = 1\n{text}",
        **{f"without {name}": _without(text, name) for name in ("colluders", "min_survivors", "serial", "expires")},
        "without members": text.replace(_lines("members", plain.members), ""),
        "key_days without helpers": _without(text.replace(_lines("helpers", plain.helper_seats), ""), "colluders"),
        "colluders without helpers": _without(text.replace(_lines("helpers", plain.helper_seats), ""), "key_days"),
        **_bad_helpers(),
        "key_days of 0": text.replace("key_days = 7", "key_days = 0"),
        "key_days of 366": text.replace("key_days = 7", "key_days = 366"),
        "key_days as a fraction": text.replace("key_days = 7", "key_days = 7.0"),
        "key_days is true": text.replace("key_days = 7", "key_days = true"),
        "fewer colluders than none": text.replace("colluders = 1", "colluders = -1"),
        "colluders as a fraction": text.replace("colluders = 1", "colluders = 1.0"),
        "sums of one honest member": text.replace("colluders = 1", "colluders = 2"),
        "two survivors, one of whom colludes": text.replace("min_survivors = 3", "min_survivors = 2"),
        "one survivor": text.replace("min_survivors = 3", "min_survivors = 1").replace(
            "colluders = 1", "colluders = 0"
        ),
        "more survivors than members": text.replace("min_survivors = 3", "min_survivors = 6"),
        "survivors as a fraction": text.replace("min_survivors = 3", "min_survivors = 3.0"),
        "another version": text.replace("version = 2", "version = 1"),
        "serial 0": text.replace("serial = 1", "serial = 0"),
        "an expiry of 0": text.replace("2100-01-01T00:00:00Z", "0"),
        "no attempt": text.replace("attempts = 2", "attempts = 0"),
        "24 bits": text.replace("bits = 32", "bits = 24"),
        "an unknown generator": text.replace("aes128-ctr", "mt19937"),
        "an unknown agreement": text.replace('"x25519"', '"x448"'),
        "learning in words of 32 bits": f"{text}\n[learning]\n",
        "a clip of 0": f"{wide}\n[learning]\nclip = 0.0\n",
        "learning with an unknown key": f"{wide}\n[learning]\nmore = 1\n",
    }


def _bad_helpers() -> dict[str, str]:
    """Give what is wrong with the lists of helpers and members."""
    plain = charters()["plain"]
    text, second = str(plain), _line(plain.helper_seats[1])
    first, *others = plain.helper_seats
    many = [Seat(f"helper-{place}", helper("many", place).public) for place in range(17)]
    named = [msgspec.structs.replace(one, name="helper-1") for one in others]
    keyed = [msgspec.structs.replace(one, key=first.key) for one in others]
    one, other, *_ = plain.members
    lists = {
        "no helper": [],
        "one helper": [first],
        "17 helpers": many,
        "two helpers of one name": [first, *named],
        "two helpers with one key": [others[0], msgspec.structs.replace(others[1], key=others[0].key)],
        "a helper twice": [first, first, *others],
        "a member's name with another key": [msgspec.structs.replace(first, key=others[0].key), others[1]],
        "a member's key with another name": [*others, keyed[0]],
        "a member's name with another member's key": [msgspec.structs.replace(one, key=other.key), *others],
        "a name of a helper with a space": [Seat("helper 0", others[0].key), others[1]],
        "a key of a helper of low order": [first, Seat("helper-1", bytes(32))],
        "a key of a helper of 31 bytes": [first, Seat("helper-1", bytes(31))],
    }
    few = charters()["the least members"]
    return {
        **{reason: _with_seats(plain, helpers=seats) for reason, seats in lists.items()},
        "two members": _with_seats(few, members=few.members[:2]),
        "helpers as a table": text.replace(_lines("helpers", plain.helper_seats), "helpers = {}"),
        "a helper as text": text.replace(second, '    "helper-1",'),
        "a helper without a key": text.replace(second, '    ["helper-1"],'),
        "a helper with a third entry": text.replace(second, second.replace("],", ', "b"],')),
    }


def bad_configurations() -> list[Case]:
    """Give configurations that cannot be under the charter ``plain``."""
    good = charters()["plain"].config(**_ROUND)
    values = msgspec.msgpack.decode(good.encode())

    def changed(**fields: Any) -> bytes:
        return msgspec.msgpack.encode({**values, **fields})

    malformed, wrong = "MalformedMessage", "ConfigError"
    found = {
        "accept": (changed(accept=True), wrong),
        "the charter of another federation": (charters()["hybrid, two helpers"].config(**_ROUND).encode(), wrong),
        "no element": (changed(length=0), wrong),
        "one element more than fit with their check words": (changed(length=2**30 - 2), wrong),
        "a number beyond the last": (changed(number=2**32), wrong),
        "helpers in a configuration": (changed(helpers=3), malformed),
        "the form of the guard curious": (changed(type="round"), malformed),
        "a trailing byte": (good.encode() + b"\x00", malformed),
    }
    return [{"reason": reason, "encoding": data, "error": error} for reason, (data, error) in found.items()]


def _line(seat: Seat) -> str:
    return f'    ["{seat.name}", "{in_base64(seat.key)}"],'


def _lines(name: str, seats: Sequence[Seat]) -> str:
    return "\n".join([f"{name} = [", *map(_line, seats), "]"])


def _with_seats(charter: Charter, **lists: Sequence[Seat]) -> str:
    """Give the text of a charter other members, or other helpers."""
    text = str(charter)
    for name, seats in lists.items():
        text = text.replace(_lines(name, getattr(charter, name)), _lines(name, seats))
    return text
