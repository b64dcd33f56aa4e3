"""identities.json: identities and what they sign, admission lists, and what is neither."""

import base64

from cases.common import Case, sample
from ccesa.agreement.identity import Admission, Identity, Member

DESCRIPTION = (
    "Ed25519 identities from their seeds, with the file that keeps one and the line that admits it; "
    "signatures, deterministic as in RFC 8032, and some that must not verify; admission lists as text, with "
    "their members in order. Everything under a bad key must be refused with the named error."
)
#: The order of the base point. S and S + _ORDER say the same; only the smaller is a signature.
_ORDER = 2**252 + 27742317777372353535851937790883648493
_ERROR = {"error": "ConfigError"}


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "identities": [_identity(name) for name in ("hospital-a", "hospital-b", "0")],
        "bad_identity_files": [{"reason": reason, "file": file, **_ERROR} for reason, file in _bad_files()],
        "signatures": [_signature(text) for text in (b"", b"a", sample("a long text", 300))],
        "bad_signatures": _bad_signatures(),
        "admission_lists": [_admission_list(*case) for case in _lists().items()],
        "bad_admission_lists": [{"reason": reason, "text": text, **_ERROR} for reason, text in _bad_lists().items()],
    }


def identity(name: str) -> Identity:
    return Identity(sample(f"identity {name}"))


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _identity(name: str) -> Case:
    one = identity(name)
    return {
        "name": name,
        "seed": one.seed,
        "public": one.public,
        "file": f"ccesa-identity-1 {in_base64(one.seed)}\n",
        "line": str(Member(name, one.public, "since March")),
    }


def _bad_files() -> list[tuple[str, str]]:
    key = in_base64(identity("0").seed)
    return [
        ("empty", ""),
        ("another header", f"ccesa-identity-2 {key}\n"),
        ("no header", f"{key}\n"),
        ("a word too many", f"ccesa-identity-1 {key} hospital-a 0\n"),
        ("31 bytes", f"ccesa-identity-1 {in_base64(bytes(31))}\n"),
        ("33 bytes", f"ccesa-identity-1 {in_base64(bytes(33))}\n"),
        ("not base64", f"ccesa-identity-1 {'!' * 44}\n"),
        ("hexadecimal", f"ccesa-identity-1 {identity('0').seed.hex()}\n"),
    ]


def _signature(text: bytes) -> Case:
    one = identity("0")
    return {
        "name": f"{len(text)} bytes",
        "seed": one.seed,
        "public": one.public,
        "text": text,
        "signature": one.sign(text),
    }


def _bad_signatures() -> list[Case]:
    one, other, text = identity("0"), identity("hospital-a"), b"what is signed"
    good = one.sign(text)
    shifted = int.from_bytes(good[32:], "little") + _ORDER
    wrong = {
        "another text": (one.public, b"what is signeD", good),
        "another key": (other.public, text, good),
        "one bit of R": (one.public, text, bytes([good[0] ^ 1]) + good[1:]),
        "one bit of S": (one.public, text, good[:32] + bytes([good[32] ^ 1]) + good[33:]),
        "S not reduced": (one.public, text, good[:32] + shifted.to_bytes(32, "little")),
        "R and S swapped": (one.public, text, good[32:] + good[:32]),
        "zeros": (one.public, text, bytes(64)),
        "63 bytes": (one.public, text, good[:63]),
        "65 bytes": (one.public, text, good + b"\x00"),
        "nothing": (one.public, text, b""),
        "a key that is no point": (b"\x02" + bytes(31), text, good),
    }
    return [
        {"reason": reason, "public": public, "text": said, "signature": signature, "error": "BadSignature"}
        for reason, (public, said, signature) in wrong.items()
    ]


def lines(*names: str) -> list[str]:
    return [f"{name} {in_base64(identity(name).public)}" for name in names]


def _lists() -> dict[str, str]:
    a, b, c = lines("hospital-a", "hospital-b", "0")
    return {
        "three": f"{a}\n{b}\n{c}\n",
        "another order is another list": f"{b}\n{a}\n{c}\n",
        "comments, empty lines and spaces say nothing": (
            f"# name  key  comment\n\n  {a} cardiology, since March\n\t{b}\n   \n{c}   # the last one\n"
        ),
        "CRLF, and no line end at the end": f"{a}\r\n{b}\r\n{c}",
        "tabs between the words": f"{a}\n{b}\n{c}\n".replace(" ", "\t"),
        "other names, the same keys": f"{a}\n{b}\n{c}\n".replace("hospital", "clinic"),
        "a name outside ASCII": f"{a}\n{b}\n{c}\n".replace("hospital-a", "hôpital"),
        "one fewer": f"{a}\n{b}\n",
        "nobody": "# nobody yet\n",
    }


def _admission_list(name: str, text: str) -> Case:
    admission = Admission.parse(text)
    return {
        "name": name,
        "text": text,
        "members": [
            {"name": member.name, "public": member.public, "comment": member.comment} for member in admission.members
        ],
    }


def _bad_lists() -> dict[str, str]:
    a, b, c = lines("hospital-a", "hospital-b", "0")
    return {
        "a name twice": f"{a}\n{b}\n{c.replace('0 ', 'hospital-a ', 1)}\n",
        "a key twice": f"{a}\n{b}\n{a.replace('hospital-a', 'hospital-c')}\n",
        "a line twice": f"{a}\n{b}\n{a}\n",
        "a name without a key": f"{a}\nhospital-b\n",
        "a key without a name": f"{a}\n{b.split()[1]}\n",
        "a key of 31 bytes": f"{a}\nhospital-b {in_base64(bytes(31))}\n",
        "a key of 33 bytes": f"{a}\nhospital-b {in_base64(bytes(33))}\n",
        "a key that is not base64": f"{a}\nhospital-b {'!' * 44}\n",
        "a key in the other alphabet of base64": f"{a}\nhospital-b {'-_' * 21 + '-='}\n",
        "a key without its padding": f"{a}\n{b.rstrip('=')}\n",
    }
