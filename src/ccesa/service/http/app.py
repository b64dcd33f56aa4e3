"""The application: all routes under /v1, and answers about the federation, exchanges, tasks and results."""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ccesa.agreement.identity import in_base64
from ccesa.service import problems
from ccesa.service.desk import Desk, View
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.http import asking
from ccesa.service.http.asking import Members
from ccesa.service.http.serving import Limits, connection_of
from ccesa.service.http.uploads import Spool, Uploads
from ccesa.service.meters import Meters
from ccesa.service.problems import FRESH, Problem
from ccesa.wire import Data

VERSION = 1  # version of this interface
_ASKED = ["Authorization", "Content-Type", "If-None-Match", "Prefer", "Range"]
_UPLOAD = ["Upload-Offset", "Upload-Length"]
_ANSWERED = ["Ccesa-Exchange", "Ccesa-Task", "Ccesa-Closes-In", "Retry-After", "ETag", "Content-Range"]
_RANGE = re.compile("bytes=([0-9]{0,15})-([0-9]{0,15})", re.ASCII)
_PIECE = 1 << 18  # bytes handed to the network at a time


class Bytes(Response):
    """An answer of a range of bytes, sent piece by piece as fast as the client reads."""

    def __init__(self, data: Data, asked: range, status: int, headers: dict[str, str], kind: str) -> None:
        super().__init__(None, status, headers, kind)
        self._data, self._asked = data, asked
        self.headers["Content-Length"] = str(len(asked))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; the connection cuts off a client that does not read."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        asked = self._asked if scope["method"] != "HEAD" else range(0)
        for start in asked[::_PIECE]:
            piece = bytes(self._data[start : min(start + _PIECE, asked.stop)])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _Reading:
    """The routes that change nothing."""

    def __init__(self, desk: Desk, federation: Federation, members: Members, limits: Limits, meters: Meters) -> None:
        self._desk, self._federation, self._members = desk, federation, members
        self._limits, self._meters = limits, meters
        #: The latest result that was asked for, its JSON and its ETag: clients may fetch it in many parts.
        self._result: tuple[dict[str, Any], bytes, str] | None = None

    async def _until(self, request: Request, ready: Callable[[View], bool]) -> View:
        """Return the first view that is ready, or the latest one when the request's patience is used up."""
        clock, view = asyncio.get_running_loop().time, self._desk.view
        end = clock() + asking.patience(request, self._limits.wait_seconds)
        while not ready(view) and (left := end - clock()) > 0:
            with connection_of(request).interruptible(), self._meters.polls.track_inprogress():
                view = await self._desk.next_view(view, left)
        return view

    async def federation(self, request: Request) -> Response:
        """Describe the federation to anyone, once a series newer than ``after`` has begun."""
        after, federation = asking.after(request), self._federation
        view = await self._until(request, lambda view: view.series > after or view.is_over)
        described = {
            "name": federation.name,
            "guard": federation.guard,
            "version": VERSION,
            "charter": federation.agreement.digest.hex() or None,
            "clients": federation.clients,
            "part_bytes": federation.hub.part_bytes,
            "form": federation.form,
            "state": view.state,
            "series": view.series,
            "config": in_base64(view.config),
            "closes": view.closes,
            "next_start": view.next_start,
            "question": view.question,
        }
        return asking.answer(described)

    async def exchange(self, request: Request) -> Response:
        """Give a client its request in the open exchange, as soon as there is one."""
        client = await self._members.authenticate(request)
        series, after = request.path_params["series"], asking.after(request)
        self._desk.hear(client, series, after)  # the hub compares it with its database, which may have gone back

        def is_over(view: View) -> bool:
            return series < view.series or view.is_over

        def is_asked(view: View) -> bool:
            if series != view.series:
                return False
            return (view.exchange > after and client in view.requests) or is_beside(view)

        def is_beside(view: View) -> bool:  # a helper may be asked more than once in one exchange
            return view.exchange >= after and client in view.beside

        view = await self._until(request, lambda view: is_over(view) or is_asked(view) or not view.serves)
        self._desk.hear(client)
        if not view.serves:
            raise Problem("unavailable", "another hub of this federation serves now", retry_after=1)
        if is_over(view):
            raise Problem("series-over", "ask for the federation to learn the next series", series=view.series)
        if is_asked(view):
            envelope = view.beside[client] if is_beside(view) else view.requests[client]
            self._meters.sent.inc(len(envelope))
            headers = {**FRESH, "Ccesa-Exchange": str(view.exchange)}
            if view.task is not None:
                headers["Ccesa-Task"] = view.task.hex()
            if view.closes:
                headers["Ccesa-Closes-In"] = f"{max(0.0, view.closes - time.time()):.1f}"
            return Response(envelope, 200, headers, "application/octet-stream")
        has_waited = asking.patience(request, self._limits.wait_seconds) > 0
        return Response(None, 204, {**FRESH, "Retry-After": "0" if has_waited else "1"})

    async def _member(self, request: Request) -> int:
        """Return the member that asks; a helper needs no tasks and no results."""
        client = await self._members.authenticate(request)
        if client in self._federation.helper_ids:
            raise Problem("not-found", "helpers get no tasks and no results: sign in as a member")
        return client

    async def result(self, request: Request) -> Response:
        """Give a member a result, once it is known."""
        client = await self._member(request)
        question = request.path_params["question"]
        if not self._federation.hub.publish:
            raise Problem("not-found", "this federation does not publish its results")
        if self._desk.is_set_aside(client):
            raise Problem("set-aside", "a member that is set aside gets no results until the operator lets it in again")
        view = await self._until(request, lambda view: view.question >= question or view.is_over)
        result = await self._desk.result(question) if view.question >= question else None
        if result is None:
            raise Problem("no-result", "ask again later", retry_after=5)
        if self._result is None or self._result[0] != result:
            body = msgspec.json.encode(result)
            self._result = result, body, f'"{hashlib.sha256(body).hexdigest()}"'
        _, body, tag = self._result
        return answer_range(request, body, {**FRESH, "ETag": tag}, "application/json")

    async def task(self, request: Request) -> Response:
        """Give a member a task, or a range of it."""
        await self._member(request)
        digest = request.path_params["digest"]
        tag = f'"{digest.hex()}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=31536000, immutable, no-transform"}
        if tag in request.headers.get("if-none-match", "") or request.headers.get("if-none-match") == "*":
            return Response(None, 304, headers)
        task = await self._desk.task(digest)
        if task is None:
            raise Problem("not-found", "this hub does not have this task")
        answer = answer_range(request, task, headers, "application/octet-stream")
        self._meters.sent.inc(int(answer.headers["Content-Length"]))
        return answer


def app(desk: Desk, federation: Federation, limits: Limits | None = None, meters: Meters | None = None) -> Starlette:
    """Return the application for the members of a federation; ``Front`` serves it."""
    limits, meters = limits or Limits(), meters or Meters()
    members = Members(desk, federation, limits)
    reading = _Reading(desk, federation, members, limits, meters)
    spool = Spool(federation.spool)
    uploads = Uploads(desk, members, spool, limits, meters)

    async def on_problem(request: Request, error: Exception) -> Response:
        problem = problems.of_error(error)
        meters.count_refusal(problem.name)
        return problem.response()

    async def sweep() -> None:
        """Delete uploads whenever an exchange is over."""
        view = desk.view
        while True:
            spool.sweep(view.series, view.exchange)
            view = await desk.next_view(view, 3600)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.ensure_future(sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            spool.close()

    pages = Middleware(  # whose clients may take part (CORS)
        CORSMiddleware,
        allow_origins=federation.hub.pages,
        allow_methods=["GET", "HEAD", "PATCH", "POST", "PUT"],
        allow_headers=_ASKED + _UPLOAD,
        expose_headers=_ANSWERED + _UPLOAD,
    )
    reply = "/v1/series/{series:number}/exchanges/{exchange:number}/reply"
    made = Starlette(
        routes=[
            Route("/v1/federation", reading.federation),
            Route("/v1/challenge", members.challenge),
            Route("/v1/sessions", members.open_session, methods=["POST"]),
            Route("/v1/series/{series:number}/exchanges", reading.exchange),
            Route(reply, uploads.reply, methods=["PUT", "HEAD", "PATCH"]),
            Route("/v1/tasks/{digest:digest}", reading.task),
            Route("/v1/results/{question:number}", reading.result),
        ],
        middleware=[pages] if federation.hub.pages else [],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Unavailable, Exception), on_problem),
        lifespan=lifespan,
    )
    made.router.redirect_slashes = False
    return made


def answer_range(request: Request, data: Data, headers: dict[str, str], kind: str) -> Response:
    """Answer with these bytes, or the range of them that the request names; ``headers`` have their ETag."""
    headers["Accept-Ranges"] = "bytes"
    part = _range(request, headers["ETag"], len(data))
    if part is None:
        return Bytes(data, range(len(data)), 200, headers, kind)
    headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{len(data)}"
    return Bytes(data, part, 206, headers, kind)


def _range(request: Request, tag: str, size: int) -> range | None:
    """Return the range that a request names; None for all, also if the range is not valid."""
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
        raise Problem("range", f"the content has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return asked
