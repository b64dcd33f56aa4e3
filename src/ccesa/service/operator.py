"""The operator's port: the page, its events, metrics, health, and actions behind the operator's token.

Nothing here can see a vector, a share or a key. Events (server-sent) are the whole status first, then changes, at most
four times a second: a status of 5,000 members is most of a megabyte, and a reply changes a hundred bytes of it.
"""

import asyncio
import hashlib
import ipaddress
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Collection
from importlib import resources
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ccesa.errors import ConfigError, shown
from ccesa.service import problems
from ccesa.service.desk import ACTIONS, TO_MEMBERS, Desk, MemberStatus, Status
from ccesa.service.errors import Unavailable
from ccesa.service.logs import Seldom, event
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem

#: The maximum number of open pages, and of bytes in an action's body.
MAXIMUM_VIEWERS, MAXIMUM_BYTES = 64, 4096
_CLIENT = re.compile("[0-9]{1,9}", re.ASCII)  # a member in a path
_HEALTH = "/healthz"  # this path answers under any host name, as it says only that the process works
#: Seconds between two looks at the status, and between ticks while nothing changes.
PERIOD, HEARTBEAT = 0.25, 15.0
_STALE = 20.0  # seconds after which a new time of last contact is sent; members poll all the time
_PLAIN = [name for name in Status.__struct_fields__ if name not in ("members", "rounds", "now")]


def page() -> tuple[bytes, str]:
    """Return the page, and the content security policy that allows its own script and style alone."""
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    digests = {kind: _digest(kind, text) for kind in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src '{digests['script']}'; style-src '{digests['style']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return text.encode(), policy


def _digest(kind: str, text: str) -> str:
    inside = re.search(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
    if inside is None:
        raise ConfigError(f"the page has no {kind}")
    return "sha256-" + b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()


def app(desk: Desk, meters: Meters | None = None, *, hosts: Collection[str] = ()) -> Starlette:
    """Return the operator's side of a hub as an ASGI application; browsers may use the names in ``hosts`` for it."""
    side = _Operator(desk, meters or Meters(), *page())
    routes = [
        Route("/", side.page),
        Route("/events", side.events),
        Route("/status", side.status),
        Route("/metrics", side.metrics),
        Route(_HEALTH, side.healthz),
        Route("/readyz", side.readyz),
        Route("/actions/{action}", side.act, methods=["POST"]),
        Route("/members/{client}/{action}", side.act, methods=["POST"]),
    ]
    # Without this check, another site could point its own name here and read everything (DNS rebinding).
    guarded = Middleware(_Guarded, hosts=frozenset(hosts))
    handlers = dict.fromkeys((Problem, HTTPException, Unavailable), _on_problem)
    return Starlette(routes=routes, middleware=[guarded], exception_handlers=handlers)


async def _on_problem(request: Request, error: Exception) -> Response:
    return problems.of_error(error).response()


class _Guarded:
    """Refuses unknown host names and other web pages, and adds headers that protect the page."""

    HEADERS = (
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    )

    def __init__(self, inner: ASGIApp, hosts: frozenset[str]) -> None:
        self._inner, self._hosts = inner, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.HEADERS:
                    headers.setdefault(name, value)
            await send(message)

        answer = self._inner
        if scope["type"] == "http" and scope["path"] != _HEALTH and not self._ours(scope):
            answer = Problem("misdirected", "use an IP address, or add this name to hosts").response()
        elif scope["type"] == "http" and _is_of_another_page(Request(scope)):
            answer = Problem("another-page", "other web pages have no access to this port").response()
        await answer(scope, receive, with_headers)

    def _ours(self, scope: Scope) -> bool:
        host = Request(scope).url.hostname or ""
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return host == "localhost" or host in self._hosts
        return True


def _is_of_another_page(request: Request) -> bool:
    """Return whether a browser sends this for another site's page. A click on a link to here is allowed.

    Such a page could read nothing, but could use up viewers, fill the log, and keep the store busy.
    """
    asks = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return asks and (request.headers.get("sec-fetch-mode") != "navigate" or request.method != "GET")


class _Action(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = ""


class _Operator:
    """The handlers."""

    def __init__(self, desk: Desk, meters: Meters, content: bytes, policy: str) -> None:
        self._desk, self._meters, self._page, self._policy = desk, meters, content, policy
        self._viewers: dict[object, None] = {}  # pages that are open, the oldest first
        self._refusals = Seldom()
        meters.follow(desk.status)

    async def page(self, request: Request) -> Response:
        headers = {"content-security-policy": self._policy}
        return Response(self._page, headers=headers, media_type="text/html")

    async def status(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self._desk.status()), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        content, media_type = self._meters.render(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def healthz(self, request: Request) -> Response:
        if not self._desk.alive():
            raise Problem("dead", "restart this process")
        return Response(status_code=204)

    async def readyz(self, request: Request) -> Response:
        """Answer whether members can be served: engine and store work."""
        trouble = self._desk.trouble()
        if trouble or not self._desk.alive():
            raise Problem("not-ready", shown(trouble, 300) or "the engine has stopped", retry_after=5)
        return Response(status_code=204)

    async def events(self, request: Request) -> Response:
        headers = {"x-accel-buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        return StreamingResponse(self._viewed(request), headers=headers, media_type="text/event-stream")

    async def _viewed(self, request: Request) -> AsyncIterator[bytes]:
        """Yield events to a page. If too many are open, close the oldest, which connects again."""
        connection, viewer = getattr(request.state, "connection", None), object()
        self._viewers[viewer] = None
        while len(self._viewers) > MAXIMUM_VIEWERS:
            del self._viewers[next(iter(self._viewers))]

        def stopping() -> bool:
            return viewer not in self._viewers or getattr(connection, "stopping", False)

        try:
            with self._meters.viewers.track_inprogress():
                async for one in follow(self._desk, stopping):
                    yield one
        finally:
            self._viewers.pop(viewer, None)

    async def act(self, request: Request) -> Response:
        """Check the token, and do the action."""
        action, named = request.path_params["action"], request.path_params.get("client")
        try:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token.strip() or not await self._desk.is_operator(token.strip()):
                self._meters.count_refusal("unauthorized")
                self._refusals.event("operator-refused", action=action)
                challenge = {"WWW-Authenticate": 'Bearer realm="operator"'}
                raise Problem("unauthorized", "not the operator's token", headers=challenge)
            is_known = action in ACTIONS if named is None else action in TO_MEMBERS and _CLIENT.fullmatch(named)
            if not is_known:
                raise Problem("not-found", "unknown action")
            client = None if named is None else int(named)
            reason = await _reason(request, action)
            await self._desk.act(action, client, reason)
        except ConfigError as error:
            raise Problem("refused", shown(str(error), 300)) from None
        except Unavailable:
            self._meters.store_away.inc()
            raise
        self._meters.count_action(action)
        event("operator-acted", action=action, client=client, reason=reason)
        return Response(status_code=204)


async def _reason(request: Request, action: str) -> str:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAXIMUM_BYTES:
            raise Problem("too-large", f"send at most {MAXIMUM_BYTES} bytes", most_bytes=MAXIMUM_BYTES)
    try:
        reason = msgspec.json.decode(body or b"{}", type=_Action).reason.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Problem("malformed", 'expected JSON such as {"reason": "..."}') from None
    if action == "set-aside" and not reason:
        raise Problem("no-reason", "state a reason; it goes into the audit log")
    return shown(reason, 200)


def change(old: Status, new: Status) -> dict[str, Any] | None:
    """Return the fields of ``new`` that a page with ``old`` needs; None if members were added or removed."""
    if [one.client for one in old.members] != [one.client for one in new.members]:
        return None
    known = {(one.series, one.number): one for one in old.rounds}
    lists = {
        "members": [after for before, after in zip(old.members, new.members, strict=True) if _differs(before, after)],
        "rounds": [one for one in new.rounds if known.get((one.series, one.number)) != one],
    }
    fields = {name: getattr(new, name) for name in _PLAIN if getattr(old, name) != getattr(new, name)}
    return fields | {name: changed for name, changed in lists.items() if changed}


def _differs(old: MemberStatus, new: MemberStatus) -> bool:
    if old == new:
        return False
    return new.seen - old.seen > _STALE or msgspec.structs.replace(new, seen=old.seen) != old


def merge(old: Status, new: Status, fields: dict[str, Any]) -> Status:
    """Return the status that a page shows after a change. Members keep the time of last contact that was sent."""
    fresh = {one.client: one for one in fields.get("members", ())}
    return msgspec.structs.replace(new, members=[fresh.get(one.client, one) for one in old.members])


def encode_event(name: str, data: object) -> bytes:
    """Return an event as bytes; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


async def follow(desk: Desk, stopping: Callable[[], bool] = lambda: False) -> AsyncIterator[bytes]:
    """Yield events for one viewer until ``stopping()``, each with the hub's clock, ``now``."""
    shown = desk.status()
    yield encode_event("status", shown)
    quiet = 0.0
    while not stopping():
        await asyncio.sleep(PERIOD)
        quiet += PERIOD
        newest = desk.status()
        fields = {} if newest is shown else change(shown, newest)
        if fields is None:
            shown, quiet = newest, 0.0
            yield encode_event("status", newest)
        elif fields:
            shown, quiet = merge(shown, newest, fields), 0.0
            yield encode_event("change", fields | {"now": newest.now})
        elif quiet >= HEARTBEAT:
            quiet = 0.0
            yield encode_event("tick", {"now": newest.now})
