"""Who is who: a client's own long-lived key, and the list of all that are admitted.

The list is text, a line a client, in the style of ``authorized_keys``::

    # name        public key                                    comment
    hospital-a    Zm9vYmFy…                                     cardiology, since March

A client's id in a round is its place in the list, counted from 0, so one identity cannot take two places.
Every client holds the list for itself; the server's word does not count.
"""

import base64
import binascii
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ccesa import files
from ccesa.crypto import primitives
from ccesa.errors import ConfigError, quoted

KEY_BYTES = 32
_HEADER = "ccesa-identity-1"
_MOST_IDENTITY = 256  # bytes of the file
_MOST_NAME = 128  # bytes of the name in it
_MOST_ADMISSION = 1 << 28  # bytes; millions of clients


@dataclass(frozen=True)
class Identity:
    """A client's Ed25519 key pair, and the name it goes by, if it has one: that is for people."""

    seed: bytes = field(repr=False)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.seed, bytes) or len(self.seed) != KEY_BYTES:
            raise ConfigError(f"the seed of an identity has {KEY_BYTES} bytes")
        if self.name != "":
            _check_name(self.name)
            if len(self.name.encode()) > _MOST_NAME:
                raise ConfigError(f"the name of an identity has at most {_MOST_NAME} bytes")

    @classmethod
    def new(cls, name: str = "") -> "Identity":
        return cls(os.urandom(KEY_BYTES), name)

    @cached_property
    def _key(self) -> primitives.SigningKey:
        return primitives.signing_key(self.seed)

    @cached_property
    def public(self) -> bytes:
        return primitives.verifying_bytes(self._key)

    def sign(self, text: bytes) -> bytes:
        return primitives.sign(self._key, text)

    def save(self, path: Path | str) -> None:
        """Into a new file that only its owner can read; a file that is there is never overwritten."""
        words = [_HEADER, _encode(self.seed), *self.name.split()]
        files.write_new(path, " ".join(words) + "\n", private=True)

    @classmethod
    def load(cls, path: Path | str) -> "Identity":
        """From its file; one that others can read is refused."""
        words = files.read_trusted(path, _MOST_IDENTITY, private=True).split()
        if len(words) not in (2, 3) or words[0] != _HEADER:
            raise ConfigError(f"{path} is no identity; `ccesa identity new` makes one")
        return cls(_decode(words[1], str(path)), *words[2:])


@dataclass(frozen=True)
class Member:
    """One line of the list."""

    name: str
    public: bytes
    comment: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.comment, str):
            raise ConfigError(f"the comment of a client is text, not {type(self.comment).__name__}")
        if not self.comment.isprintable():
            raise ConfigError(f"the line of {quoted(self.name)} has characters that cannot be printed")
        if not isinstance(self.public, bytes) or len(self.public) != KEY_BYTES:
            raise ConfigError(f"the public key of {quoted(self.name)} must be {KEY_BYTES} bytes")
        try:
            primitives.check_verifying_key(self.public)
        except primitives.LowOrderKey as error:
            raise ConfigError(f"the line of {quoted(self.name)}: {error}") from error

    def __str__(self) -> str:
        return f"{self.name} {_encode(self.public)} {self.comment}".strip()

    @classmethod
    def parse(cls, line: str) -> "Member":
        name, key, *comment = [*line.split(maxsplit=2), "", ""][:3]
        return cls(name, _decode(key, f"the line of {quoted(name)}"), " ".join(comment).strip())


class Admission:
    """All admitted clients, in order: client id is the place in the list."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = tuple(members)
        self._loaded: dict[int, primitives.VerifyingKey] = {}
        names, public = set[str](), set[bytes]()
        for member in self.members:
            if member.name in names or member.public in public:
                raise ConfigError(
                    f"the name or the key of {quoted(member.name)} is in the admission list twice"
                )
            names.add(member.name)
            public.add(member.public)

    @classmethod
    def parse(cls, text: str) -> "Admission":
        lines = (line.strip() for line in text.split("\n"))
        return cls(Member.parse(line) for line in lines if line and not line.startswith("#"))

    @classmethod
    def load(cls, path: Path | str) -> "Admission":
        """From its file; one that others can write to is refused."""
        text = files.read_trusted(path, _MOST_ADMISSION)
        try:
            found = cls.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        if not found.members:
            raise ConfigError(f"{path} admits nobody; `ccesa identity new` prints the line of a client")
        return found

    def __str__(self) -> str:
        return "".join(f"{member}\n" for member in self.members)

    def __len__(self) -> int:
        return len(self.members)

    def key(self, client: int) -> primitives.VerifyingKey:
        """Of one client, loaded when it is needed: a client looks at its neighbours' only."""
        if client not in self._loaded:
            self._loaded[client] = primitives.load_verifying_key(self.members[client].public)
        return self._loaded[client]

    def id_of(self, public: bytes) -> int:
        """The place of this key."""
        for place, member in enumerate(self.members):
            if member.public == public:
                return place
        raise ConfigError("this identity is not in the admission list")


def _check_name(name: str) -> None:
    """A name can stand in a line of the list, and in the file of an identity."""
    if not isinstance(name, str):
        raise ConfigError(f"the name of a client is text, not {type(name).__name__}")
    if name.startswith("#") or name.split() != [name]:
        raise ConfigError(f"{quoted(name)} is no name: one word, not starting with #")
    if not name.isprintable():
        raise ConfigError(f"the name {quoted(name)} has characters that cannot be printed")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ConfigError(f"{where}: not a key in base64") from error
    if len(data) != KEY_BYTES:
        raise ConfigError(f"{where}: a key has {KEY_BYTES} bytes, not {len(data)}")
    if _encode(data) != text:
        raise ConfigError(f"{where}: another spelling of the same key; copy it as it was made")
    return data
