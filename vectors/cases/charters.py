"""charters.json: charters as text, with their canonical encoding and digest, and rounds under them."""

import math
from typing import Any

import msgspec

from cases.common import Case, sample
from ccesa.agreement.charter import Charter, Learning, Seat, Stated
from ccesa.agreement.identity import Identity
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority, Threshold
from ccesa.privacy import Mechanism
from ccesa.statistics import Category, Number, Schema

DESCRIPTION = (
    "Charters as the text of their file, with the one canonical encoding, a msgpack map, and its digest; "
    "under each a configuration, a msgpack map, with its context. Texts under same say what the charter "
    "'plain' says. Everything under a bad key must be refused with the named error; bad configurations are "
    "read under the charter 'plain'."
)
_ROUND: dict[str, Any] = {"series_id": sample("series id"), "number": 300, "length": 9, "accept": True}


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "charters": [charter_case(name, charter, _ROUND) for name, charter in charters().items()],
        "same": [{"reason": reason, "text": text} for reason, text in _same().items()],
        "bad_charters": [{"reason": reason, "text": text, "error": "ConfigError"} for reason, text in _bad().items()],
        "bad_configurations": [
            {"reason": reason, "encoding": encoding, "error": error}
            for reason, (encoding, error) in _bad_configurations().items()
        ],
    }


def chartered(
    name: str,
    clients: int,
    *,
    graph: Graph | None = None,
    threshold: Threshold | None = None,
    least_roster: int = 3,
    min_survivors: int = 3,
    **others: Any,
) -> Charter:
    """A charter whose members have the identities that ``identity`` gives for the same name."""
    members = tuple(Seat(f"client-{i}", identity(name, i).public) for i in range(clients))
    return Charter(
        serial=1,
        expires=4102444800,  # 2100-01-01
        members=members,
        graph=graph or Complete(),
        threshold=threshold or Majority(),
        least_roster=least_roster,
        min_survivors=min_survivors,
        certificate=_STATED,
        **others,
    )


def identity(name: str, client: int) -> Identity:
    return Identity(sample(f"{name}: identity {client}"))


_STATED = Stated(
    dropout=0.1,
    collusion=0.1,
    colluders=1,
    around=1,
    least_honest=2,
    privacy_bits=128.0,
    reliability_bits=20.0,
    unreliable=-20.25,
    disconnected=-150.0,
    exposed=-math.inf,
    unmaskable=-math.inf,
)


def charters() -> dict[str, Charter]:
    full = chartered(
        "full",
        300,
        graph=Harary(degree=38),
        threshold=Linear(slope=640, base=3),
        least_roster=257,
        min_survivors=20,
        bits=64,
        generator="chacha20",
        attempts=1,
        learning=Learning(
            message_types=("train", "evaluate", "train.probe"),
            weighted_by="weight",
            metrics=("accuracy", "loss"),
            counters=("bn.num_batches_tracked",),
            clip=0.5,
            metric_clip=1000.0,
            max_weight=128.0,
            field_bits=18,
        ),
    )
    twice = chartered("twice", 5, attempts=3, releases=2)
    sparse = chartered("sparse", 20, graph=ErdosRenyi(p=0.9), threshold=Fixed(t=12), bits=16)
    return {
        "plain": chartered("plain", 5),
        "two releases": twice,
        "full": full,
        "erdos-renyi": sparse,
        "a name outside ASCII": msgspec.structs.replace(
            chartered("names", 3),
            members=tuple(Seat(name, identity("names", i).public) for i, name in enumerate(("hôpital", "診療所", '"'))),
        ),
        "hybrid": msgspec.structs.replace(chartered("plain", 5), agreement="x25519-mlkem768"),
        "dropouts per step": msgspec.structs.replace(
            chartered("plain", 5),
            certificate=msgspec.structs.replace(_STATED, dropout_per_step=(0.01, 0.02, 0.0, 0.03, 0.0, 0.01)),
        ),
        "another serial": msgspec.structs.replace(chartered("plain", 5), serial=2**53 - 1),
        "a long name": msgspec.structs.replace(
            chartered("names", 3),
            members=tuple(
                Seat(f"{i}" + "\N{LATIN SMALL LETTER O WITH CIRCUMFLEX}" * length, identity("names", i).public)
                for i, length in enumerate((15, 127, 128))
            ),
        ),
        "noise": _with_noise(),
        "statistics": msgspec.structs.replace(chartered("plain", 5), bits=64, statistics=_schema()),
        "noise and statistics, 16 entries": _with_noise_and_statistics(),
        "learning by default": msgspec.structs.replace(chartered("plain", 5), bits=64, learning=Learning()),
    }


def _with_noise(mechanism: Mechanism | None = None, **others: Any) -> Charter:
    mechanism = mechanism or Mechanism(
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
    )
    honest = msgspec.structs.replace(_STATED, least_honest=4)
    return msgspec.structs.replace(
        chartered("plain", 5), bits=64, min_survivors=5, certificate=honest, privacy=mechanism, **others
    )


def _with_noise_and_statistics() -> Charter:
    """A charter with all its entries: a msgpack map of more than 15 has another header."""
    schema = msgspec.structs.replace(_schema(), max_records=1000, least_group=1, privacy_unit="record")
    mechanism = Mechanism(
        epsilon=8.0,
        delta=1e-6,
        rounds=2,
        norm=schema.norm,
        against="follows",
        honest=3,
        dimension=schema.dimension,
        variance=262144,
        grid_bits=6,
        bound=3700,
        field_bits=64,
        fails=-60.0,
        unit="record",
    )
    return _with_noise(mechanism, statistics=schema)


def _schema() -> Schema:
    return Schema(
        name="stays",
        max_records=100_000,
        missing=("n/a",),
        group_by=("ward",),
        numbers=(
            Number(name="age", lower=0, upper=120, measures=("mean", "quantiles"), edges=(18, 65)),
            Number(name="dose", lower=-0.5, upper=2.5, places=1),
        ),
        categories=(Category(name="ward", values=("a", "b")), Category(name="sex", values=("f", "m"))),
    )


def charter_case(name: str, charter: Charter, round: dict[str, Any]) -> Case:
    # Where noise or statistics say how long a vector is, no round has another length.
    agreed = {**round, "length": charter.length or round["length"]}
    config = charter.config(**agreed)
    return {
        "name": name,
        "text": str(charter),
        "encoding": charter.encode(),
        "digest": charter.digest,
        **agreed,
        "config": config.encode(),
        "context": config.context,
    }


def _same() -> dict[str, str]:
    text = str(charters()["plain"])
    head, rest = text.split("members = ", 1)
    return {
        "comments and empty lines": f"# another one\n\n{text}\n# the end\n",
        "another offset": text.replace("2100-01-01T00:00:00Z", "2100-01-01T01:00:00+01:00"),
        "a date begins at midnight UTC": text.replace("2100-01-01T00:00:00Z", "2100-01-01"),
        "seconds since 1970": text.replace("2100-01-01T00:00:00Z", "4102444800"),
        "defaults left out": text.replace("attempts = 2\n", "")
        .replace("bits = 32\n", "")
        .replace('agreement = "x25519"\n', ""),
        "one release, said": text.replace("attempts = 2\n", "attempts = 2\nreleases = 1\n"),
        "the fraction of a second does not count": text.replace("00:00:00Z", "00:00:00.75Z"),
        "a fraction of nine digits": text.replace("00:00:00Z", "00:00:00.123456789Z"),
        "the largest offset": text.replace("2100-01-01T00:00:00Z", "2100-01-01T23:59:00+23:59"),
        "what looks like a time of ten digits in a comment": f'{text}# "00:00:00.1234567890"\n',
        "a whole number for a fraction": text.replace("privacy_bits = 128.0", "privacy_bits = 128"),
        "keys in another order": "\n".join(reversed(head.splitlines())) + f"\nmembers = {rest}",
    }


def _bad() -> dict[str, str]:
    text = str(charters()["plain"])
    wide = text.replace("bits = 32", "bits = 64")
    seats = text[text.index("members = [") : text.index("\n]\n") + 3]
    second = seats.splitlines()[2]
    return {
        "nothing at all": "",
        "not TOML": "serial",
        "a key twice": f"serial = 1\n{text}",
        "a time without seconds, of a later TOML": text.replace("00:00:00Z", "00:00Z"),
        "an escape of a later TOML": text.replace('"client-0"', '"client-\\x30"'),
        # Readers of TOML differ in these; the last are refused by all of them.
        **_beyond(text),
        "the 30th of February": text.replace("2100-01-01T", "2100-02-30T"),
        "a fraction for a whole number": text.replace("colluders = 1", "colluders = 1.0"),
        "an unknown key": f"{text}\n[more]\n",
        "an unknown key in a table": text.replace('type = "complete"', 'type = "complete"\nmore = 1'),
        "another version": text.replace("version = 2", "version = 1"),
        "serial 0": text.replace("serial = 1", "serial = 0"),
        "serial as text": text.replace("serial = 1", 'serial = "1"'),
        "serial beyond 2^53": text.replace("serial = 1", f"serial = {2**53}"),
        "no serial": text.replace("serial = 1\n", ""),
        "no expiry": text.replace("expires = 2100-01-01T00:00:00Z\n", ""),
        "an expiry without an offset": text.replace("00:00:00Z", "00:00:00"),
        "a member twice": text.replace(second, f"{second}\n{second}"),
        "a key of 31 bytes": text.replace(second, '    ["client-1", "' + "A" * 42 + '"],'),
        "a member without a key": text.replace(second, '    ["client-1"],'),
        "two members": text.replace("\n".join(seats.splitlines()[1:4]) + "\n", ""),
        "thin masks": text.replace('type = "complete"', 'type = "complete"\nmask_degree = 2'),
        "an unknown graph": text.replace('type = "complete"', 'type = "star"'),
        "no graph": text.replace('[graph]\ntype = "complete"\n', ""),
        "a threshold that nobody reaches": text.replace('type = "majority"', 'type = "fixed"\nt = 5'),
        "a roster of two": text.replace("least_roster = 3", "least_roster = 2"),
        "a roster of more than there are": text.replace("least_roster = 3", "least_roster = 6"),
        "one survivor": text.replace("min_survivors = 3", "min_survivors = 1"),
        "no attempt": text.replace("attempts = 2", "attempts = 0"),
        "no release": text.replace("attempts = 2", "attempts = 2\nreleases = 0"),
        "more releases than attempts": text.replace("attempts = 2", "attempts = 2\nreleases = 3"),
        "releases as a fraction": text.replace("attempts = 2", "attempts = 2\nreleases = 2.0"),
        "24 bits": text.replace("bits = 32", "bits = 24"),
        "an unknown agreement": text.replace('agreement = "x25519"', 'agreement = "x448"'),
        "no certificate": text[: text.index("\n[certificate]")],
        "a certificate of nan": text.replace("unmaskable = -inf", "unmaskable = nan"),
        **{
            f"dropouts per step: {reason}": text.replace(
                "unmaskable = -inf", f"unmaskable = -inf\ndropout_per_step = {value}"
            )
            for reason, value in {
                "one number for all": "0.02",
                "five numbers": "[0.01, 0.02, 0.0, 0.03, 0.01]",
                "seven numbers": "[0.01, 0.02, 0.0, 0.03, 0.0, 0.01, 0.01]",
                "a text": '[0.01, 0.02, 0.0, 0.03, 0.0, "0.01"]',
                "all clients leave": "[0.01, 0.02, 0.0, 0.03, 0.0, 1.0]",
                "less than none": "[0.01, 0.02, 0.0, 0.03, 0.0, -0.01]",
            }.items()
        },
        "learning in words of 32 bits": f"{text}\n[learning]\n",
        "a clip of 0": f"{wide}\n[learning]\nclip = 0.0\n",
        "no message type": f"{wide}\n[learning]\nmessage_types = []\n",
        "a metric twice": f'{wide}\n[learning]\nmetrics = ["a", "a"]\n',
        "a metric of control characters": f'{wide}\n[learning]\nmetrics = ["\\u0007"]\n',
    }


def _beyond(text: str) -> dict[str, str]:
    """Numbers, times and keys that not every reader of TOML has."""
    return {
        "an integer of more than 64 bits": text.replace("serial = 1", f"serial = {2**64 + 1}"),
        "an integer of more than 64 bits for a float": text.replace("exposed = -inf", f"exposed = -{10**20}"),
        "one more than the largest integer of 64 bits, for a float": text.replace("bits = 32", "bits = 64")
        + f"\n[learning]\nmetric_clip = {2**63}\n",
        "a float that overflows": text.replace("exposed = -inf", "exposed = -1e400"),
        "a fraction of ten digits": text.replace("00:00:00Z", "00:00:00.1234567890Z"),
        "an offset of 24 hours": text.replace("00:00:00Z", "00:00:00+24:00"),
        "an offset of 60 minutes": text.replace("00:00:00Z", "00:00:00+23:60"),
        "a key twice, in quotes": text.replace("serial = 1", 'serial = 1\n"serial" = 1'),
        "a key of a table twice": text.replace('type = "complete"', 'type = "complete"\ntype = "complete"'),
        "a table twice": f'{text}\n[graph]\ntype = "complete"\n',
    }


def _bad_configurations() -> dict[str, tuple[bytes, str]]:
    plain = charters()["plain"]
    good = plain.config(**_ROUND)
    values = msgspec.msgpack.decode(good.encode())
    other = charters()["full"].config(**_ROUND)

    def changed(**fields: Any) -> bytes:
        return msgspec.msgpack.encode({**values, **fields})

    malformed = "MalformedMessage"
    return {
        "another charter": (other.encode(), "ConfigError"),
        "a trailing byte": (good.encode() + b"\x00", malformed),
        "a field of the charter": (changed(bits=32), malformed),
        "version 1": (changed(version=1), malformed),
        "the form of the guard curious": (changed(type="round"), malformed),
        "a field is missing": (msgspec.msgpack.encode(dict(list(values.items())[:-1])), malformed),
        "another order": (msgspec.msgpack.encode(dict(sorted(values.items()))), malformed),
        "series_id of 31 bytes": (changed(series_id=bytes(31)), "ConfigError"),
        "no element": (changed(length=0), "ConfigError"),
        "a number beyond the last": (changed(number=2**32), "ConfigError"),
        "accept as a number": (changed(accept=1), malformed),
        "accept as nil": (changed(accept=None), malformed),
        "length not minimal, uint8": (good.encode().replace(b"\xa6length\x09", b"\xa6length\xcc\x09"), malformed),
    }
