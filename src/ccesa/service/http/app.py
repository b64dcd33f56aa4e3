"""The application: every route under /v1, and what is told about the federation and its exchanges."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
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

from ccesa.agreement.identity import in_base64
from ccesa.service import problems
from ccesa.service.desk import Desk, View
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.http import asking
from ccesa.service.http.limits import Limits
from ccesa.service.http.members import Members
from ccesa.service.http.replies import Replies
from ccesa.service.http.spool import Spool
from ccesa.service.http.tasks import Tasks, ranged
from ccesa.service.meters import Meters
from ccesa.service.problems import FRESH, Problem

#: Version of this interface.
VERSION = 1
_ASKED = ["Authorization", "Content-Type", "If-None-Match", "Prefer", "Range"]
_UPLOAD = ["Upload-Offset", "Upload-Length"]
_TOLD = ["Ccesa-Exchange", "Ccesa-Task", "Ccesa-Closes-In", "Retry-After", "ETag", "Content-Range"]


class _Told:
    """The routes that only tell what is there."""

    def __init__(
        self, desk: Desk, federation: Federation, members: Members, limits: Limits, meters: Meters
    ) -> None:
        self._desk, self._federation, self._members = desk, federation, members
        self._limits, self._meters = limits, meters
        #: The latest result that was asked for, as JSON has it: it may be fetched in many parts.
        self._result: tuple[dict[str, Any], bytes, str] | None = None

    def _patience(self, request: Request) -> asking.Patience:
        return asking.Patience(request, self._desk, self._limits, self._meters)

    async def federation(self, request: Request) -> Response:
        """Tell everyone what this hub runs, once there is a series after the one that they know."""
        after = asking.after(request)
        patience = self._patience(request)
        view = await patience.until(lambda view: view.series > after or view.is_over)
        return _json(self._described(view))

    def _described(self, view: View) -> dict[str, Any]:
        federation = self._federation
        return {
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

    async def exchange(self, request: Request) -> Response:
        """Give a client what the open exchange has for it, as soon as there is something."""
        client = await self._members.who(request)
        series, after = request.path_params["series"], asking.after(request)
        self._desk.seen(client, series, after)  # a database that has gone back does not know that exchange
        patience = self._patience(request)

        def is_over(view: View) -> bool:
            return series < view.series or view.is_over

        def is_asked(view: View) -> bool:
            return series == view.series and view.exchange > after and client in view.requests

        view = await patience.until(lambda view: is_over(view) or is_asked(view))
        self._desk.seen(client)
        if is_over(view):
            raise Problem("series-over", "ask which series is next", series=view.series)
        if is_asked(view):
            envelope = view.requests[client]
            self._meters.sent(len(envelope))
            return _envelope(view, envelope)
        return Response(None, 204, {**FRESH, "Retry-After": "0" if patience.seconds else "1"})

    async def result(self, request: Request) -> Response:
        """Give members a result, once it is known."""
        client = await self._members.who(request)
        question = request.path_params["question"]
        if not self._federation.hub.publish:
            raise Problem("not-found", "this federation does not publish its results")
        if self._desk.is_set_aside(client):
            raise Problem("set-aside", "it gets no results until the operator lets it in again")
        patience = self._patience(request)
        view = await patience.until(lambda view: view.question >= question or view.is_over)
        found = await self._desk.result(question) if view.question >= question else None
        if found is None:
            raise Problem("no-result", "ask again later", retry_after=5)
        if self._result is None or self._result[0] != found:
            body = msgspec.json.encode(found)
            self._result = found, body, f'"{hashlib.sha256(body).hexdigest()}"'
        _, body, tag = self._result
        return ranged(request, body, {**FRESH, "ETag": tag}, "application/json")


def _envelope(view: View, envelope: bytes) -> Response:
    headers = {**FRESH, "Ccesa-Exchange": str(view.exchange)}
    if view.task is not None:
        headers["Ccesa-Task"] = view.task.hex()
    if view.closes:
        headers["Ccesa-Closes-In"] = f"{max(0.0, view.closes - time.time()):.1f}"
    return Response(envelope, 200, headers, "application/octet-stream")


def _json(content: Any) -> Response:
    return Response(msgspec.json.encode(content), 200, FRESH, "application/json")


def app(
    desk: Desk, federation: Federation, limits: Limits | None = None, meters: Meters | None = None
) -> Starlette:
    """Return the application that members of a federation talk to; ``Front`` serves it.

    Args:
        desk: Of the hub.
        federation: What it runs.
        limits: On bodies and waiting.
        meters: Count refusals by the name of their problem, bytes, and who waits.

    Raises:
        ConfigError: Another hub uses the folder for uploads.
        OSError: That folder cannot be made.
    """
    limits, meters = limits or Limits(), meters or Meters()
    members = Members(desk, federation, limits)
    told = _Told(desk, federation, members, limits, meters)
    spool = Spool(federation.spool)
    replies = Replies(desk, members, spool, limits, meters)

    async def on_problem(request: Request, error: Exception) -> Response:
        problem = problems.of_error(error)
        meters.refused(problem.name)
        return problem.response()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.ensure_future(_sweep(desk, replies))
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            spool.close()

    reply = "/v1/series/{series:number}/exchanges/{exchange:number}/reply"
    made = Starlette(
        routes=[
            Route("/v1/federation", told.federation),
            Route("/v1/challenge", members.challenge),
            Route("/v1/sessions", members.open_session, methods=["POST"]),
            Route("/v1/series/{series:number}/exchanges", told.exchange),
            Route(reply, _by_method(replies), methods=["PUT", "HEAD", "PATCH"]),
            Route("/v1/tasks/{digest:digest}", Tasks(desk, members, meters).get),
            Route("/v1/results/{question:number}", told.result),
        ],
        middleware=_pages(federation.hub.pages),
        exception_handlers=dict.fromkeys((Problem, HTTPException, Unavailable, Exception), on_problem),
        lifespan=lifespan,
    )
    made.router.redirect_slashes = False
    return made


def _by_method(replies: Replies) -> Any:
    handlers = {"PUT": replies.put, "HEAD": replies.head, "PATCH": replies.patch}

    async def reply(request: Request) -> Response:
        return await handlers[request.method](request)

    return reply


def _pages(origins: tuple[str, ...]) -> list[Middleware]:
    """Let web pages of these origins take part."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "PATCH", "POST", "PUT"],
            allow_headers=_ASKED + _UPLOAD,
            expose_headers=_TOLD + _UPLOAD,
        )
    ]


async def _sweep(desk: Desk, replies: Replies) -> None:
    """Drop uploads whenever an exchange is over."""
    view = desk.view
    while True:
        replies.forget(view)
        view = await desk.changed(view, 3600)
