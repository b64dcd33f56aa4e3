"""What members work on: immutable bytes under their digest. They and results come whole or in ranges."""

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ccesa.service.desk import Desk
from ccesa.service.http.members import Members
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem
from ccesa.wire import Data

_RANGE = re.compile("bytes=([0-9]{0,15})-([0-9]{0,15})", re.ASCII)
#: Bytes that are handed to the network at a time.
_PIECE = 1 << 18


class Bytes(Response):
    """An answer that is sent piece by piece, as fast as it is read: so many bytes of all there are."""

    def __init__(self, data: Data, asked: range, status: int, headers: dict[str, str], kind: str) -> None:
        super().__init__(None, status, headers, kind)
        self._data, self._asked = data, asked
        self.headers["Content-Length"] = str(len(asked))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; the connection cuts off whoever does not read."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        asked = self._asked if scope["method"] != "HEAD" else range(0)
        for start in asked[::_PIECE]:
            piece = bytes(self._data[start : min(start + _PIECE, asked.stop)])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Tasks:
    """Gives members what they are to work on."""

    def __init__(self, desk: Desk, members: Members, meters: Meters) -> None:
        self._desk, self._members, self._meters = desk, members, meters

    async def get(self, request: Request) -> Response:
        """Give out a task, or a range of it."""
        await self._members.who(request)
        digest = request.path_params["digest"]
        tag = f'"{digest.hex()}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=31536000, immutable, no-transform"}
        if tag in request.headers.get("if-none-match", "") or request.headers.get("if-none-match") == "*":
            return Response(None, 304, headers)
        task = await self._desk.task(digest)
        if task is None:
            raise Problem("not-found", "there is no such task, or no longer")
        answer = ranged(request, task, headers, "application/octet-stream")
        self._meters.sent(int(answer.headers["Content-Length"]))
        return answer


def ranged(request: Request, data: Data, headers: dict[str, str], kind: str) -> Response:
    """Answer with these bytes, or with the range of them that is asked for; ``headers`` have their ETag."""
    headers["Accept-Ranges"] = "bytes"
    found = _range(request, headers["ETag"], len(data))
    if found is None:
        return Bytes(data, range(len(data)), 200, headers, kind)
    headers["Content-Range"] = f"bytes {found.start}-{found.stop - 1}/{len(data)}"
    return Bytes(data, found, 206, headers, kind)


def _range(request: Request, tag: str, size: int) -> range | None:
    """Return the bytes that are asked for; None for all, also where the range cannot be understood."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or request.headers.get("if-range", tag) != tag:
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        asked = range(max(0, size - int(last)), size)
    else:
        asked = range(int(first), min(size, int(last) + 1) if last else size)
        if last and int(last) < int(first):
            return None
    if not asked:
        raise Problem("range", f"it has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return asked
