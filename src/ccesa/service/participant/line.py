"""The line to a hub: calls that are repeated while it is away, sign in again, and go in parts if large.

A call that is repeated has the same bytes, so a hub that has taken it already says so and changes nothing.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from ccesa.charter import Charter
from ccesa.errors import ConfigError, FaultyServer, quoted
from ccesa.identity import Identity, in_base64
from ccesa.service.participant.calls import Answer, Call, Part, Pause, read
from ccesa.service.participant.events import Event, Tell, silent
from ccesa.service.tokens import signed_text
from ccesa.wire import Data

#: Answers after which a call is repeated: none, too slow, too many, and what hubs and proxies say that are
#: being started, stopped or overrun.
_AGAIN = {0, 408, 425, 429, 500, 502, 503, 504}
#: Seconds between repeated calls: first, and at most.
_FIRST, _MOST = 0.5, 30.0
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,1024}")
_MOST_CHALLENGE = 1024
#: How often an upload may be told to go on from an earlier place.
_RESTARTS = 20
#: How many challenges a member signs for one session.
_SIGN_INS = 3


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member proves who it is by its identity, to the hub that it means."""

    charter: Charter
    identity: Identity
    #: The hub's address as this member has it: a challenge that another hub passed on is of no use there.
    origin: str

    def signature(self, challenge: bytes) -> bytes:
        """Sign a challenge of the hub at this address, in this federation and for nothing else."""
        return self.identity.sign(signed_text(self.charter.digest, self.origin, challenge))


@dataclass(kw_only=True)
class Line:
    """The line of one participant to its hub: either it is a member, or it has a token."""

    member: Member | None = None
    token: str | None = field(default=None, repr=False)
    #: Seconds of pauses after which a hub that is away is given up.
    patience: float = 3600.0
    #: Bytes of one part of an upload or a download.
    part_bytes: int = 8 << 20
    tell: Tell = silent

    def ask(self, call: Call) -> Part[Answer]:
        """Make a call until the hub has answered it."""
        waited, pause = 0.0, _FIRST
        while True:
            answer: Answer = yield call
            if len(answer.body) > call.most:
                raise FaultyServer(f"expected an answer of at most {call.most} bytes, got more")
            if answer.status not in _AGAIN:
                return answer
            seconds = min(max(pause, answer.number("retry-after") or 0), _MOST)
            if waited + seconds > self.patience:
                raise TimeoutError(f"the hub has been away for {waited:.0f} seconds or more ({answer})")
            self.tell(Event(kind="away", text=f"the hub is away, trying again ({answer})"))
            yield Pause(seconds=seconds)
            waited, pause = waited + seconds, pause * 2

    def ask_as_member(self, call: Call) -> Part[Answer]:
        """Make a call in the name of this participant; sign in before, and again where that has run out."""
        for _ in range(2):
            token = self.token or (yield from self._sign_in())
            signed = {**call.headers, "authorization": f"Bearer {token}"}
            answer = yield from self.ask(replace(call, headers=signed))
            if answer.status != 401:
                return answer
            if self.member is None:
                break
            self.token = None
        raise ConfigError(f"the hub does not know this participant ({answer})")

    def send(self, path: str, reply: Data, sent: Callable[[int], None]) -> Part[Answer]:
        """Hand a reply in, in parts if it is large; return what the hub says to the whole of it."""
        if len(reply) <= self.part_bytes:
            return (yield from self.ask_as_member(Call(method="PUT", path=path, body=reply, headers=_BYTES)))
        offset, restarts, view = 0, 0, memoryview(reply)
        while True:
            part = view[offset : offset + self.part_bytes]
            place = {"upload-offset": str(offset), "upload-length": str(len(reply))}
            call = Call(method="PATCH", path=path, body=bytes(part), headers=_BYTES | place)
            answer = yield from self.ask_as_member(call)
            if answer.problem == "upload-offset":
                offset, restarts = _told_offset(answer, len(reply)), restarts + 1
                if restarts > _RESTARTS:
                    raise FaultyServer("the upload has failed: the server repeatedly rewound it")
            elif answer.status != 204 or offset + len(part) == len(reply):
                return answer
            else:
                offset += len(part)
                sent(offset)

    def fetch(self, path: str, most: int) -> Part[bytes | None]:
        """Return bytes that the hub keeps, fetched in parts; None where it does not have them."""
        found = bytearray()
        while True:
            last = min(len(found) + self.part_bytes, most + 1) - 1
            ranged = {"range": f"bytes={len(found)}-{last}"}
            call = Call(method="GET", path=path, headers=ranged, most=most)
            answer = yield from self.ask_as_member(call)
            if answer.status == 404:
                return None
            if answer.status == 200:  # all of it: this hub, or a proxy, knows no ranges
                return answer.body
            total = _total(answer, len(found))
            found += answer.body
            if not answer.body or total > most or len(found) > total:
                raise FaultyServer(f"expected at most {most} bytes in parts, got others")
            if len(found) == total:
                return bytes(found)

    def _sign_in(self) -> Part[str]:
        """Return the token of a new session.

        A challenge works once: where the answer to its signature was lost, it takes another one.
        """
        if self.member is None:
            raise ConfigError("a participant has either a charter and an identity, or a token")
        for _ in range(_SIGN_INS):
            answer = yield from self._signed_challenge(self.member)
            if answer.status in (200, 201):
                self.token = _checked_token(read(answer, _Session).token)
                return self.token
        raise ConfigError(f"the hub does not let this member in ({answer})")

    def _signed_challenge(self, member: Member) -> Part[Answer]:
        asked = read((yield from self.ask(Call(method="GET", path="/v1/challenge"))), _Challenge)
        challenge = _decoded(asked.challenge)
        said = {
            "key": in_base64(member.identity.public),
            "challenge": asked.challenge,
            "origin": member.origin,
            "signature": in_base64(member.signature(challenge)),
        }
        call = Call(
            method="POST",
            path="/v1/sessions",
            body=msgspec.json.encode(said),
            headers={"content-type": "application/json"},
        )
        return (yield from self.ask(call))


class _Challenge(msgspec.Struct, frozen=True):
    challenge: str


class _Session(msgspec.Struct, frozen=True):
    token: str


_BYTES = {"content-type": "application/octet-stream"}


def _decoded(challenge: str) -> bytes:
    try:
        found = base64.b64decode(challenge, validate=True)
    except (binascii.Error, ValueError):
        raise FaultyServer("the hub's challenge is not in base64") from None
    if not 16 <= len(found) <= _MOST_CHALLENGE:
        raise FaultyServer(f"a challenge of {len(found)} bytes")
    return found


def is_token(token: str) -> bool:
    """Tell whether a header can have this for a token."""
    return _TOKEN.fullmatch(token) is not None


def _checked_token(token: str) -> str:
    if not is_token(token):
        raise FaultyServer(f"the token contains characters not allowed in a header: {quoted(token)}")
    return token


def _told_offset(answer: Answer, length: int) -> int:
    """Return where the hub wants an upload to go on."""
    offset = answer.upload_offset if answer.upload_offset is not None else answer.number("upload-offset")
    if offset is None or not 0 <= offset <= length:
        raise FaultyServer("the hub wants an upload to go on at a place that is not in it")
    return offset


_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


def _total(answer: Answer, start: int) -> int:
    """Return how many bytes there are in all; raise FaultyServer unless this is the part that starts here."""
    found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    if answer.status != 206 or found is None:
        raise FaultyServer(f"the hub did not hand a task over ({answer})")
    first, last, total = map(int, found.groups())
    if (first, last) != (start, start + len(answer.body) - 1):
        raise FaultyServer("the hub handed over another part than it was asked for")
    return total
