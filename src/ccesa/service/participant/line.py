"""The line to a hub repeats calls while the hub is away, signs in again, and moves large bodies in parts.

A repeated call has the same bytes, so a hub that took it before changes nothing. The hub says how much of a body
has arrived, and the line assumes nothing. After a break the parts are smaller: a proxy on the way may limit the
bytes of one connection, or collect a body before it passes it on.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from ccesa.agreement.identity import in_base64
from ccesa.errors import ConfigError, FaultyServer, quoted
from ccesa.service.participant.calls import Call, Event, Flow, HubAnswer, Pause, Tell, read, read_base64, silent
from ccesa.service.participant.site import Enrolled, is_token
from ccesa.wire import Data

_FIRST, _MOST = 0.5, 30.0  # seconds between repeated calls: first, and at most
_MOST_CHALLENGE = 1024
#: Bytes of the first part of a large body, of the smallest, and of the largest.
_FIRST_PART, SMALLEST, _LARGEST = 1 << 20, 1 << 15, 1 << 26
_CALM = 16  # once a part was cut off, this many have to arrive in a row before parts grow again
_SIGN_INS = 3  # a member signs at most this many challenges for one session
_REWINDS = 20  # a hub may rewind an upload this many times
_BYTES = {"content-type": "application/octet-stream"}
_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


class Pace:
    """The size of parts on this line: doubled while all goes well, halved when one was cut off."""

    def __init__(self) -> None:
        self.size, self._needed, self._arrived = _FIRST_PART, 1, 0

    def arrive(self) -> None:
        """Note that a part has arrived whole."""
        self._arrived += 1
        if self._arrived >= self._needed:
            self.size, self._arrived = min(_LARGEST, 2 * self.size), 0

    def cut(self, size: int) -> None:
        """Note that a part of this size was cut off."""
        self.size = max(SMALLEST, min(self.size, size) // 2)
        self._needed, self._arrived = _CALM, 0


@dataclass(kw_only=True)
class Line:
    """The line of one participant to its hub. The participant is a member, or it has a token."""

    member: Enrolled | None = None
    token: str | None = field(default=None, repr=False)
    patience: float = 3600.0  # after this many seconds of pauses, the line gives up a hub that is away
    part_bytes: int = 8 << 20  # the maximum size of one part of an upload or a download
    pace: Pace = field(default_factory=Pace)
    tell: Tell = silent

    @property
    def part(self) -> int:
        return min(self.pace.size, self.part_bytes)

    def ask(self, call: Call) -> Flow[HubAnswer]:
        """Make a call until the hub has answered it."""
        trouble = Trouble(self)
        while True:
            answer = yield from _once(call)
            if answer.is_final:
                return answer
            yield from trouble.wait(answer)

    def ask_as_member(self, call: Call, patient: bool = True) -> Flow[HubAnswer]:
        """Make a call in this participant's name, and sign in as needed; without ``patient``, return any answer."""
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

    def _sign_in(self) -> Flow[str]:
        """Return the token of a new session. A challenge works once: after a lost answer, take another one."""
        if self.member is None:
            raise ConfigError("a participant has either a charter and an identity, or a token")
        for _ in range(_SIGN_INS):
            answer = yield from self._signed_challenge(self.member)
            if answer.status in (200, 201):
                token = read(answer, _Session).token
                if not is_token(token):
                    raise FaultyServer(f"the token contains characters not allowed in a header: {quoted(token)}")
                self.token = token
                return token
        raise FaultyServer(f"the hub refused this member ({answer})")

    def _signed_challenge(self, member: Enrolled) -> Flow[HubAnswer]:
        asked = read((yield from self.ask(Call(method="GET", path="/v1/challenge"))), _Challenge)
        challenge = read_base64(asked.challenge, "challenge")
        if not 16 <= len(challenge) <= _MOST_CHALLENGE:
            raise FaultyServer(f"expected a challenge of 16 to {_MOST_CHALLENGE} bytes, got {len(challenge)}")
        signed = {
            "key": in_base64(member.identity.public),
            "challenge": asked.challenge,
            "origin": member.origin,
            "signature": in_base64(member.signature(challenge)),
            **({"helper": True} if member.helps else {}),
        }
        body, headers = msgspec.json.encode(signed), {"content-type": "application/json"}
        return (yield from self.ask(Call(method="POST", path="/v1/sessions", body=body, headers=headers)))


def _once(call: Call) -> Flow[HubAnswer]:
    answer: HubAnswer = yield call
    if len(answer.body) > call.most:
        raise FaultyServer(f"expected an answer of at most {call.most} bytes, got more")
    return answer


class Trouble:
    """A hub that does not answer, or is out of reach: the pauses between calls grow."""

    def __init__(self, line: Line) -> None:
        self._line, self._waited, self._pause = line, 0.0, _FIRST

    def wait(self, answer: HubAnswer) -> Flow[None]:
        """Wait before the next attempt; raise TimeoutError when the line's patience is used up."""
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


class Upload:
    """A reply on its way to a hub, which has the first ``_offset`` bytes of it."""

    def __init__(self, line: Line, path: str, reply: Data, sent: Callable[[int], None]) -> None:
        self._line, self._path, self._reply, self._sent = line, path, memoryview(reply), sent
        self._trouble = Trouble(line)
        self._offset = self._rewinds = 0

    def run(self) -> Flow[HubAnswer]:
        """Hand the reply in, in parts if it is large; return the hub's answer to the whole."""
        call = self._part()
        if len(self._reply) <= self._line.part:
            call = Call(method="PUT", path=self._path, body=bytes(self._reply), headers=_BYTES)
            if len(self._reply) <= SMALLEST:
                return (yield from self._line.ask_as_member(call))
        while True:
            answer = yield from self._line.ask_as_member(call, patient=False)
            end = self._offset + len(call.body)
            if answer.is_final and answer.status == 204 and end < len(self._reply):
                self._line.pace.arrive()
                self._go_on(end)
            elif answer.problem == "upload-offset":
                yield from self._move(answer, _offset_of(answer, len(self._reply)))
            elif answer.is_final:
                return answer
            else:
                yield from self._find(answer, len(call.body))
            call = self._part()

    def _part(self) -> Call:
        part = self._reply[self._offset : self._offset + self._line.part]
        place = {"upload-offset": str(self._offset), "upload-length": str(len(self._reply))}
        return Call(method="PATCH", path=self._path, body=bytes(part), headers=_BYTES | place)

    def _find(self, answer: HubAnswer, size: int) -> Flow[None]:
        """Ask how much has arrived, after the answer to a part was lost or was not the hub's."""
        if answer.is_cut:
            self._line.pace.cut(size)
        arrived = yield from self._line.ask_as_member(Call(method="HEAD", path=self._path))
        offset = self._offset  # if it stays unknown, the answer to the next part has the reason
        if arrived.status == 204 and "upload-offset" in arrived.headers:
            offset = _offset_of(arrived, len(self._reply))
        yield from self._move(answer, offset)

    def _move(self, answer: HubAnswer, offset: int) -> Flow[None]:
        """Continue at another offset: at once if more has arrived, otherwise after a pause."""
        if offset > self._offset:
            self._go_on(offset)
            return
        if offset < self._offset or answer.is_final:
            self._rewinds += 1
        if self._rewinds > _REWINDS:
            raise FaultyServer("the upload has failed: the server repeatedly rewound it")
        self._offset = offset
        yield from self._trouble.wait(answer)

    def _go_on(self, offset: int) -> None:
        self._offset, self._trouble = offset, Trouble(self._line)
        self._sent(offset)


def _offset_of(answer: HubAnswer, length: int) -> int:
    """Return the offset from which the hub wants the upload to continue."""
    offset = answer.upload_offset if answer.upload_offset is not None else answer.number("upload-offset")
    if offset is None or not 0 <= offset <= length:
        raise FaultyServer("the hub asked to continue the upload at an offset beyond its end")
    return offset


class Download:
    """At most this many bytes on their way from a hub, in parts."""

    def __init__(self, line: Line, path: str, most: int) -> None:
        self._line, self._path, self._most = line, path, most
        self._trouble = Trouble(line)
        self._found, self._tag = io.BytesIO(), ""  # which hands its bytes over without a copy

    def run(self) -> Flow[bytes | None]:
        """Return the bytes once the last part has come; None if the hub does not have them."""
        while True:
            answer = yield from self._line.ask_as_member(self._part(), patient=False)
            if answer.problem == "set-aside":
                raise ConfigError(f"the hub refused to send results to this site ({answer})")
            if answer.is_final and answer.status == 404:
                return None
            before = self._found.tell()
            if answer.broken or answer.is_final:
                total = self._take(answer)
                if self._found.tell() == total:
                    return self._found.getvalue()
            if answer.is_cut:
                self._line.pace.cut(self._line.part)
            elif answer.is_final:
                self._line.pace.arrive()
            if self._found.tell() > before:
                self._trouble = Trouble(self._line)
            else:
                yield from self._trouble.wait(answer)

    def _part(self) -> Call:
        start = self._found.tell()
        last = start + min(self._line.part, self._most + 1 - start) - 1
        headers = {"range": f"bytes={start}-{last}"}
        if self._tag:  # if the content has changed since, all of it comes
            headers["if-range"] = self._tag
        return Call(method="GET", path=self._path, headers=headers, most=self._most)

    def _take(self, answer: HubAnswer) -> int | None:
        """Keep the bytes that have come; return the length of the whole, if that is known."""
        if answer.status == 200:  # from the beginning: the content has changed, or a proxy knows no ranges
            self._found = io.BytesIO()
            total = answer.number("content-length") if answer.broken else len(answer.body)
        else:
            total = _total(answer, self._found.tell())
        self._found.write(answer.body)
        self._tag = answer.headers.get("etag", "")
        stated = self._found.tell() if total is None else total
        if max(stated, self._found.tell()) > self._most:
            raise FaultyServer(f"the hub has {stated} bytes, and this site takes at most {self._most}")
        if self._found.tell() > stated:
            raise FaultyServer(f"expected {stated} bytes in parts, got more")
        return total


def _total(answer: HubAnswer, start: int) -> int:
    """Return the length of the whole; raise FaultyServer unless this is the part that starts here."""
    found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    if answer.status != 206 or found is None:
        raise FaultyServer(f"the hub did not send the requested bytes ({answer})")
    first, last, total = map(int, found.groups())
    end = start + len(answer.body) - 1
    if first != start or end > last or (end < last and not answer.broken) or last < first:
        raise FaultyServer("the hub sent a part that was not requested")
    return total
