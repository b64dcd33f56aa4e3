"""Large bodies go in parts, both ways, so that a line that breaks costs what was on its way and no more.

What has arrived is learned from the hub, never assumed. Whatever breaks off is repeated in smaller parts: a
box on the way may let only so much through one connection, or collect a body before it passes it on.
"""

import io
import re
from collections.abc import Callable

from ccesa.errors import ConfigError, FaultyServer
from ccesa.service.participant.calls import Answer, Call, Part
from ccesa.service.participant.line import SMALLEST, Line, Trouble
from ccesa.wire import Data

#: How often an upload may be told to go back.
_REWINDS = 20
_BYTES = {"content-type": "application/octet-stream"}
_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


def send(line: Line, path: str, reply: Data, sent: Callable[[int], None]) -> Part[Answer]:
    """Hand a reply in, in parts if it is large; return what the hub says to the whole of it.

    Raises:
        FaultyServer: The hub goes back again and again, or to a place that is not in the reply.
        TimeoutError: For longer than the line is patient, nothing more has arrived.
    """
    if len(reply) <= min(line.part_bytes, SMALLEST):
        return (yield from line.ask_as_member(Call(method="PUT", path=path, body=reply, headers=_BYTES)))
    return (yield from _Upload(line, path, reply, sent).run())


class _Upload:
    """A reply on its way to a hub that has the first ``_offset`` bytes of it."""

    def __init__(self, line: Line, path: str, reply: Data, sent: Callable[[int], None]) -> None:
        self._line, self._path, self._reply, self._sent = line, path, memoryview(reply), sent
        self._trouble = Trouble(line)
        self._offset = self._rewinds = 0

    def run(self) -> Part[Answer]:
        """Send parts until the hub has answered the last one."""
        call = self._whole() if len(self._reply) <= self._line.part else self._part()
        while True:
            answer = yield from self._line.ask_as_member(call, patient=False)
            end = self._offset + len(call.body)
            if answer.is_final and answer.status == 204 and end < len(self._reply):
                self._line.pace.arrive()
                self._go_on(end)
            elif answer.problem == "upload-offset":
                yield from self._moved(answer, _told_offset(answer, len(self._reply)))
            elif answer.is_final:
                return answer
            else:
                yield from self._find(answer, len(call.body))
            call = self._part()

    def _whole(self) -> Call:
        return Call(method="PUT", path=self._path, body=bytes(self._reply), headers=_BYTES)

    def _part(self) -> Call:
        part = self._reply[self._offset : self._offset + self._line.part]
        place = {"upload-offset": str(self._offset), "upload-length": str(len(self._reply))}
        return Call(method="PATCH", path=self._path, body=bytes(part), headers=_BYTES | place)

    def _find(self, answer: Answer, size: int) -> Part[None]:
        """Ask how much has arrived, where the answer to a part was lost or is none of a hub."""
        if answer.is_cut:
            self._line.pace.cut(size)
        told = yield from self._line.ask_as_member(Call(method="HEAD", path=self._path))
        if told.status == 204 and "upload-offset" in told.headers:
            offset = _told_offset(told, len(self._reply))
        else:  # the next part is answered with the reason
            offset = self._offset
        yield from self._moved(answer, offset)

    def _moved(self, answer: Answer, offset: int) -> Part[None]:
        """Go on at another place: at once where that is further on, else after a while."""
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


def _told_offset(answer: Answer, length: int) -> int:
    """Return where the hub wants an upload to go on."""
    offset = answer.upload_offset if answer.upload_offset is not None else answer.number("upload-offset")
    if offset is None or not 0 <= offset <= length:
        raise FaultyServer("the hub wants an upload to go on at an offset that is not in it")
    return offset


def fetch(line: Line, path: str, most: int) -> Part[bytes | None]:
    """Return bytes that the hub keeps, fetched in parts; None where it does not have them.

    Raises:
        ConfigError: This site is set aside.
        FaultyServer: The hub hands over something else than it was asked for, or more than ``most`` bytes.
        TimeoutError: For longer than the line is patient, nothing more has arrived.
    """
    return (yield from _Download(line, path, most).run())


class _Download:
    """Bytes on their way from a hub, as far as they have come."""

    def __init__(self, line: Line, path: str, most: int) -> None:
        self._line, self._path, self._most = line, path, most
        self._trouble = Trouble(line)
        self._found, self._tag = io.BytesIO(), ""  # which hands its bytes over without a copy

    def run(self) -> Part[bytes | None]:
        """Ask for parts until all is there."""
        while True:
            answer = yield from self._line.ask_as_member(self._part(), patient=False)
            if answer.problem == "set-aside":
                raise ConfigError(f"the hub hands no results to this site ({answer})")
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
        if self._tag:  # where it is another by now, all of it comes
            headers["if-range"] = self._tag
        return Call(method="GET", path=self._path, headers=headers, most=self._most)

    def _take(self, answer: Answer) -> int | None:
        """Keep what has come; return how much there is in all, if that is known."""
        if answer.status == 200:  # from its beginning: it is another by now, or a proxy knows no ranges
            self._found = io.BytesIO()
            total = answer.number("content-length") if answer.broken else len(answer.body)
        else:
            total = _total(answer, self._found.tell())
        self._found.write(answer.body)
        self._tag = answer.headers.get("etag", "")
        told = self._found.tell() if total is None else total
        if max(told, self._found.tell()) > self._most:
            raise FaultyServer(f"the hub has {told} bytes where this site takes at most {self._most}")
        if self._found.tell() > told:
            raise FaultyServer(f"expected {told} bytes in parts, got more")
        return total


def _total(answer: Answer, start: int) -> int:
    """Return how many bytes there are in all; raise FaultyServer unless this is the part that starts here."""
    found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    if answer.status != 206 or found is None:
        raise FaultyServer(f"the hub did not hand over what it was asked for ({answer})")
    first, last, total = map(int, found.groups())
    end = start + len(answer.body) - 1
    if first != start or end > last or (end < last and not answer.broken) or last < first:
        raise FaultyServer("the hub handed over another part than it was asked for")
    return total
