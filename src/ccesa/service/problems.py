"""Every refusal is a problem document (RFC 9457) with a row in a table here. None quotes a request."""

import math
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ccesa.service.errors import Unavailable

MEDIA_TYPE = "application/problem+json"
#: No cache may keep an answer to one client for another, or change it on its way.
FRESH = {"Cache-Control": "no-store, no-transform"}

#: Problems on the port for sites: status and title, by the name in the problem's type.
KINDS = {
    "malformed": (400, "Bad request"),
    "unauthorized": (401, "Authentication required"),
    "not-found": (404, "Not found"),
    "no-result": (404, "No result yet"),
    "set-aside": (404, "This member is set aside"),
    "method-not-allowed": (405, "Method not allowed"),
    "timeout": (408, "The request took too long to arrive"),
    "conflict": (409, "Conflicts with an earlier reply of this client"),
    "upload-offset": (409, "Wrong upload offset"),
    "late": (410, "The exchange has closed"),
    "series-over": (410, "The series is over"),
    "length-required": (411, "Content-Length required"),
    "too-large": (413, "The body is too large"),
    "encoded": (415, "Compressed bodies are not accepted"),
    "range": (416, "Range not satisfiable"),
    "faulty": (422, "Invalid reply"),
    "busy": (429, "Too many requests"),
    "header-too-large": (431, "The header is too large"),
    "internal": (500, "Internal error of the hub"),
    "unavailable": (503, "Temporarily unavailable"),
    "full": (503, "Too many connections"),
    "stopping": (503, "The hub is stopping"),
}
#: Further problems on the operator's port.
OPERATORS = {
    "another-page": (403, "Other web pages have no access"),
    "misdirected": (421, "Unknown host name"),
    "no-reason": (422, "A reason is required"),
    "refused": (422, "The hub refuses this action"),
    "dead": (503, "The engine has stopped"),
    "not-ready": (503, "Not ready"),
}
#: Names of refusals by Starlette itself, by status.
_BY_STATUS = {404: "not-found", 405: "method-not-allowed"}


class Problem(Exception):
    """A refusal of a request, by a name in ``KINDS`` or ``OPERATORS``; ``more`` are members of the document."""

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name)
        self.name, (self.status, title) = name, (KINDS | OPERATORS)[name]
        self.headers = {**FRESH, **(headers or {})}
        kind = f"urn:ccesa:problem:{name}"
        self.document = {"type": kind, "title": title, "status": self.status, "detail": detail, **more}
        if retry_after is not None:
            seconds = max(0, math.ceil(retry_after))
            self.headers["Retry-After"], self.document["retry_after"] = str(seconds), seconds

    def response(self) -> Response:
        return Response(msgspec.json.encode(self.document), self.status, self.headers, MEDIA_TYPE)

    def raw(self) -> bytes:
        """Return the whole answer as bytes, for requests that do not reach the application."""
        answer = self.response()
        answer.headers["Connection"] = "close"
        head = [b"HTTP/1.1 %d Refused" % self.status]
        head += [b"%b: %b" % header for header in answer.raw_headers]
        return b"\r\n".join([*head, b"", bytes(answer.body)])


def of_error(error: Exception) -> Problem:
    """Return the problem that clients see for an error; ``internal`` for an unexpected one."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # no route fits
        headers = error.headers or {}
        kept = {"Allow": headers["Allow"]} if "Allow" in headers else {}
        name = _BY_STATUS.get(error.status_code, "malformed")
        return Problem(name, "see the documentation of the HTTP interface", headers=kept)
    if isinstance(error, Unavailable):
        return Problem("unavailable", "the store cannot be reached", retry_after=5)
    return Problem("internal", "see the hub's log")
