"""The line to a hub: calls that are repeated while it is away, and sign in again.

A call that is repeated has the same bytes, so a hub that has taken it already says so and changes nothing.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field, replace

import msgspec

from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity, in_base64
from ccesa.errors import ConfigError, FaultyServer, quoted
from ccesa.service.participant.calls import Answer, Call, Part, Pause, read
from ccesa.service.participant.events import Event, Tell, silent
from ccesa.service.tokens import signed_text

#: Seconds between repeated calls: first, and at most.
_FIRST, _MOST = 0.5, 30.0
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,1024}")
_MOST_CHALLENGE = 1024
#: Bytes of the first part of a large body, of the smallest, and of the largest.
_FIRST_PART, SMALLEST, _LARGEST = 1 << 20, 1 << 15, 1 << 26
#: Once a part was cut off, so many have to arrive in a row before they are made larger again.
_CALM = 16
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


class Pace:
    """How large parts are on this line: doubled while all goes well, halved where one was cut off."""

    def __init__(self) -> None:
        self.size, self._needed, self._arrived = _FIRST_PART, 1, 0

    def arrive(self) -> None:
        """Note that a part has arrived in one piece."""
        self._arrived += 1
        if self._arrived >= self._needed:
            self.size, self._arrived = min(_LARGEST, 2 * self.size), 0

    def cut(self, size: int) -> None:
        """Note that a part of this size was cut off."""
        self.size = max(SMALLEST, min(self.size, size) // 2)
        self._needed, self._arrived = _CALM, 0


@dataclass(kw_only=True)
class Line:
    """The line of one participant to its hub: either it is a member, or it has a token."""

    member: Member | None = None
    token: str | None = field(default=None, repr=False)
    #: Seconds of pauses after which a hub that is away is given up.
    patience: float = 3600.0
    #: The most bytes of one part of an upload or a download.
    part_bytes: int = 8 << 20
    pace: Pace = field(default_factory=Pace)
    tell: Tell = silent

    @property
    def part(self) -> int:
        """How many bytes the next part has."""
        return min(self.pace.size, self.part_bytes)

    def ask(self, call: Call) -> Part[Answer]:
        """Make a call until the hub has answered it."""
        trouble = Trouble(self)
        while True:
            answer = yield from _once(call)
            if answer.is_final:
                return answer
            yield from trouble.wait(answer)

    def ask_as_member(self, call: Call, patient: bool = True) -> Part[Answer]:
        """Make a call in the name of this participant; sign in before, and again where that has run out.

        Unless it is ``patient`` it is made once, and whatever comes is the answer.
        """
        for _ in range(2):
            token = self.token or (yield from self._sign_in())
            signed = replace(call, headers={**call.headers, "authorization": f"Bearer {token}"})
            answer = yield from (self.ask(signed) if patient else _once(signed))
            if answer.status != 401 or not answer.is_hubs:
                return answer
            if self.member is None:
                break
            self.token = None
        raise ConfigError(f"the hub does not know this participant ({answer})")

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
        raise FaultyServer(f"the hub does not let this member in ({answer})")

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


def _once(call: Call) -> Part[Answer]:
    answer: Answer = yield call
    if len(answer.body) > call.most:
        raise FaultyServer(f"expected an answer of at most {call.most} bytes, got more")
    return answer


class Trouble:
    """A hub that does not answer, or that something on the way hides: it is asked more and more rarely."""

    def __init__(self, line: Line) -> None:
        self._line, self._waited, self._pause = line, 0.0, _FIRST

    def wait(self, answer: Answer) -> Part[None]:
        """Wait before the next attempt; raise TimeoutError where the line's patience is at its end."""
        seconds = min(max(self._pause, answer.number("retry-after") or 0), _MOST)
        if self._waited + seconds > self._line.patience:
            raise TimeoutError(f"the hub has been away for {self._waited:.0f} seconds or more ({answer})")
        self._line.tell(Event(kind="away", text=f"the hub is away, trying again ({answer})"))
        yield Pause(seconds=seconds)
        self._waited, self._pause = self._waited + seconds, self._pause * 2


class _Challenge(msgspec.Struct, frozen=True):
    challenge: str


class _Session(msgspec.Struct, frozen=True):
    token: str


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
