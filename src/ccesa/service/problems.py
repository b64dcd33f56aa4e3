"""Every refusal is a problem document (RFC 9457), and has one row in a table here.

Its texts are ours: nothing of a request is repeated in them.
"""

import math
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ccesa.service.errors import Unavailable

MEDIA_TYPE = "application/problem+json"
#: Nothing that is said to one client may be kept for another, or changed on its way.
FRESH = {"Cache-Control": "no-store, no-transform"}

#: What can be wrong where sites ask: status and title, by the name in the problem's type.
KINDS = {
    "malformed": (400, "This is not a request that can be understood"),
    "unauthorized": (401, "Authentication required"),
    "not-found": (404, "There is nothing here"),
    "no-result": (404, "There is no result yet"),
    "set-aside": (404, "This member is set aside"),
    "method-not-allowed": (405, "This cannot be done here"),
    "timeout": (408, "The request took too long to arrive"),
    "conflict": (409, "Another reply of this client came first"),
    "upload-offset": (409, "The upload goes on elsewhere"),
    "late": (410, "The exchange has closed"),
    "series-over": (410, "The series is over"),
    "length-required": (411, "The length of the body must be known"),
    "too-large": (413, "The body is too large"),
    "encoded": (415, "Bodies are not compressed"),
    "range": (416, "There are no such bytes"),
    "faulty": (422, "An honest client would not send this"),
    "busy": (429, "Too many requests"),
    "header-too-large": (431, "The header is too large"),
    "internal": (500, "The hub has made a mistake"),
    "unavailable": (503, "The hub cannot do this now"),
    "full": (503, "There are too many connections"),
    "stopping": (503, "The hub is stopping"),
}
#: What can be wrong on the operator's port besides.
OPERATORS = {
    "another-page": (403, "Not for pages of others"),
    "misdirected": (421, "Not a name of this machine"),
    "no-reason": (422, "A reason is needed"),
    "refused": (422, "This cannot be done"),
    "dead": (503, "The engine has stopped"),
    "not-ready": (503, "Not ready"),
}
#: Names for refusals that the framework makes, by status.
_BY_STATUS = {404: "not-found", 405: "method-not-allowed"}


class Problem(Exception):
    """A refusal, raised wherever it is found.

    Args:
        name: One of ``KINDS`` or ``OPERATORS``.
        detail: What happened and what to do, in our own words.
        retry_after: Seconds after which to try again.
        headers: Further headers of the answer.
        members: Further members of the document.
    """

    def __init__(
        self,
        name: str,
        detail: str,
        *,
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(name)
        self.name, (self.status, title) = name, (KINDS | OPERATORS)[name]
        self.headers = {**FRESH, **(headers or {})}
        self.document = {
            "type": f"urn:ccesa:problem:{name}",
            "title": title,
            "status": self.status,
            "detail": detail,
            **members,
        }
        if retry_after is not None:
            seconds = max(0, math.ceil(retry_after))
            self.headers["Retry-After"], self.document["retry_after"] = str(seconds), seconds

    def response(self) -> Response:
        """Return the answer that says so."""
        body = msgspec.json.encode(self.document)
        return Response(body, self.status, self.headers, MEDIA_TYPE)

    def raw(self) -> bytes:
        """Return the whole answer as bytes, for whoever never got as far as the application."""
        answer = self.response()
        answer.headers["Connection"] = "close"
        head = [b"HTTP/1.1 %d Refused" % self.status]
        head += [b"%b: %b" % header for header in answer.raw_headers]
        return b"\r\n".join([*head, b"", bytes(answer.body)])


def of_error(error: Exception) -> Problem:
    """Return the problem that an error is told as; a mistake of ours, unless it is known to be none."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # the framework refuses what no route is for
        headers = error.headers or {}
        kept = {"Allow": headers["Allow"]} if "Allow" in headers else {}
        name = _BY_STATUS.get(error.status_code, "malformed")
        return Problem(name, "see the description of the interface", headers=kept)
    if isinstance(error, Unavailable):
        return Problem("unavailable", "the store cannot be reached", retry_after=5)
    return Problem("internal", "the operator finds more in the log")
