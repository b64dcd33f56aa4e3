"""Each client has a long-lived key, and an admission list has the keys of all clients.

The list is text in the style of ``authorized_keys``, one line per client: a name, a public key in base64, and a
comment. Lines that start with # are left out::

    # name        public key                                    comment
    hospital-a    Zm9vYmFy...                                   cardiology, since March

A client's id in a round is its place in the list, counted from 0, so one identity cannot take two places. Every client
keeps its own copy of the list and does not trust the server's.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ccesa import files
from ccesa.crypto import primitives
from ccesa.errors import ConfigError, quoted
from ccesa.parts import UNPRINTABLE_PATTERN, is_printable

KEY_BYTES = 32
_PRIVATE = "ccesa-identity-"
_HEADER = f"{_PRIVATE}1"
_MOST_IDENTITY = 256  # bytes of the file
_MOST_NAME = 128  # bytes of the name in it
_MOST_ADMISSION = 1 << 28  # bytes; millions of clients


@dataclass(frozen=True)
class Identity:
    """A client's long-lived Ed25519 key pair, with or without a name.

    Attributes:
        seed: The 32 secret bytes behind the key pair; never shown.
        name: One printable word of at most 128 bytes, for people; comparisons ignore it.

    Raises:
        ConfigError: The seed has another size, or the name is not allowed in a list.
    """

    seed: bytes = field(repr=False)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.seed, bytes) or len(self.seed) != KEY_BYTES:
            raise ConfigError(f"the seed of an identity must have {KEY_BYTES} bytes")
        if self.name != "":
            _check_name(self.name)
            if len(self.name.encode()) > _MOST_NAME:
                raise ConfigError(f"the name of an identity must have at most {_MOST_NAME} bytes")

    @classmethod
    def new(cls, name: str = "") -> "Identity":
        """Return a new identity from the system's randomness.

        Args:
            name: Its name, or nothing.
        """
        return cls(os.urandom(KEY_BYTES), name)

    @cached_property
    def _key(self) -> primitives.SigningKey:
        return primitives.signing_key(self.seed)

    @cached_property
    def public(self) -> bytes:
        """The 32-byte public key."""
        return primitives.public_key(self._key)

    def sign(self, text: bytes) -> bytes:
        """Return the 64-byte signature of a text.

        Args:
            text: The bytes to sign.
        """
        return primitives.sign(self._key, text)

    def save(self, path: Path | str) -> None:
        """Write the identity to a new file that only its owner can read.

        Args:
            path: The new file; an existing one is never overwritten.

        Raises:
            ConfigError: The path exists, or its folder does not, or others can write to that folder.
        """
        words = [_HEADER, in_base64(self.seed), *([self.name] if self.name else [])]
        files.write_new(path, " ".join(words) + "\n", private=True)

    @classmethod
    def load(cls, path: Path | str) -> "Identity":
        """Return the identity that ``save`` wrote.

        Args:
            path: A file that nobody but its owner can read or replace.

        Raises:
            ConfigError: Others can read or replace the file, or it is not an identity.
            OSError: The system cannot read the file.
        """
        refused = ConfigError(f"{path} is not an identity; `ccesa identity new` makes one")
        try:
            lines = _lines(files.read_trusted(path, _MOST_IDENTITY, private=True))
        except ConfigError:
            with open(path, "rb") as file:  # for another kind of file, its permissions do not matter
                if _HEADER.encode() not in file.read(_MOST_IDENTITY):
                    raise refused from None
            raise
        words = [word for line in lines for word in line.split(" ") if word]
        if len(words) not in (2, 3) or words[0] != _HEADER:
            raise refused
        return cls(_decode(words[1], str(path)), *words[2:])


@dataclass(frozen=True)
class Member:
    """One admitted client, in one line of the list.

    Attributes:
        name: One printable word, unique in a list.
        public: The 32-byte public key of the client's identity, unique in a list.
        comment: Printable text for people.

    Raises:
        ConfigError: The name or the comment is not allowed in a line, or the key is not safe to use.
    """

    name: str
    public: bytes
    comment: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.comment, str):
            raise ConfigError(f"the comment of a client must be text, not {type(self.comment).__name__}")
        if not is_printable(self.comment) or self.comment != self.comment.strip(" "):
            raise ConfigError(f"the comment of {quoted(self.name)} cannot be printed, or has spaces around it")
        if not isinstance(self.public, bytes) or len(self.public) != KEY_BYTES:
            raise ConfigError(f"the public key of {quoted(self.name)} must be {KEY_BYTES} bytes")
        try:
            primitives.check_verifying_key(self.public)
        except primitives.LowOrderKey as error:
            raise ConfigError(f"the line of {quoted(self.name)}: {error}") from error

    def __str__(self) -> str:
        return f"{self.name} {in_base64(self.public)} {self.comment}".strip()

    @classmethod
    def parse(cls, line: str) -> "Member":
        """Return the member in a line.

        Args:
            line: A name, a key in base64 and a comment, with spaces or tabs between and around them.

        Raises:
            ConfigError: The line has another form, or its member is not valid.
        """
        name, _, rest = line.replace("\t", " ").strip(" ").partition(" ")
        key, _, comment = rest.lstrip(" ").partition(" ")
        return cls(name, _decode(key, f"the line of {quoted(name)}"), comment.lstrip(" "))


class Admission:
    """All admitted clients, in order. A client's id is its place in the list. ``str`` gives its text.

    Args:
        members: The clients, as ``Member``.

    Raises:
        ConfigError: A name or a key appears twice.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = tuple(members)
        names, public = set[str](), set[bytes]()
        for member in self.members:
            if member.name in names or member.public in public:
                raise ConfigError(f"the name or the key of {quoted(member.name)} appears twice in the admission list")
            names.add(member.name)
            public.add(member.public)

    @classmethod
    def parse(cls, text: str) -> "Admission":
        """Return the list in a text.

        Args:
            text: One line per client; empty lines and those that start with # are ignored.

        Raises:
            ConfigError: A line is not that of a member, or not printable, or a member appears twice.
        """
        return cls(Member.parse(line) for line in _lines(text) if line and not line.startswith("#"))

    @classmethod
    def load(cls, path: Path | str) -> "Admission":
        """Return the list in a file.

        Args:
            path: A file of at most 256 MiB that nobody but its owner can change.

        Raises:
            ConfigError: Others can change the file, or ``parse`` refuses its text.
            OSError: The system cannot read the file.
        """
        return files.parse_trusted(path, _MOST_ADMISSION, cls.parse)

    def __str__(self) -> str:
        return "".join(f"{member}\n" for member in self.members)

    def __len__(self) -> int:
        return len(self.members)

    def key(self, client: int) -> bytes:
        """Return one client's public key.

        Args:
            client: Its id, which is its place in the list.

        Raises:
            IndexError: The list is shorter.
        """
        return self.members[client].public

    def id_of(self, public: bytes) -> int:
        """Return the client id of a public key, which is its place in the list.

        Args:
            public: The 32 bytes of the key.

        Raises:
            ConfigError: The key is not in the list.
        """
        if public not in self._places:
            raise ConfigError("this identity is not among the members")
        return self._places[public]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {member.public: place for place, member in enumerate(self.members)}


def _lines(text: str) -> Iterator[str]:
    """Yield all lines, ended by LF or CR LF only, stripped, with tabs as spaces; refuse unprintable characters."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\t", " ")
    for number, line in enumerate(plain.split("\n"), 1):
        if found := UNPRINTABLE_PATTERN.search(line):
            raise ConfigError(f"line {number} has the character U+{ord(found[0]):04X}, which cannot be printed")
        yield line.strip(" ")


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise ConfigError(f"the name of a client must be text, not {type(name).__name__}")
    if not name or name.startswith("#") or " " in name or not is_printable(name):
        raise ConfigError(f"{quoted(name)} is not a name: give one printable word that does not start with #")
    if name.startswith(_PRIVATE):
        raise ConfigError(
            f"{quoted(name)} begins the file of a private key, and is not a name: send the line that "
            "`ccesa identity show` prints, never the file. A key that was sent is compromised: make a new one"
        )


def in_base64(data: bytes) -> str:
    """Return bytes in base64, in the only spelling that is accepted for a key."""
    return base64.b64encode(data).decode("ascii")


def _decode(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ConfigError(f"{where}: not a key in base64") from error
    if len(data) != KEY_BYTES:
        raise ConfigError(f"{where}: expected a key of {KEY_BYTES} bytes, got {len(data)}")
    if in_base64(data) != text:
        raise ConfigError(f"{where}: another spelling of the same key; copy it unchanged")
    return data
