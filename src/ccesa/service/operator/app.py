"""The operator's port: the page, its events, metrics, health, and actions behind the operator's token."""

import hashlib
import ipaddress
import logging
import math
import re
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Collection
from importlib import resources

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
from ccesa.service.desk import ACTIONS, TO_MEMBERS, Desk
from ccesa.service.errors import Unavailable
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.operator import events
from ccesa.service.problems import Problem

#: Pages that may be open at a time, and bytes that an action's body may have.
MOST_VIEWERS, MOST_BYTES = 64, 4096
#: These have to say why.
_WITH_REASON = ("set-aside",)
#: A member in a path: Python refuses to read thousands of digits.
_CLIENT = re.compile("[0-9]{1,9}", re.ASCII)
#: What answers whatever name it is asked by: it says nothing but that the process works.
_ANY_HOST = ("/healthz",)


def page() -> tuple[bytes, str]:
    """Return the page, and the policy under which browsers run its own script and style and nothing else."""
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
    """Return the operator's side of a hub as an ASGI application.

    Args:
        desk: The hub's desk.
        meters: What the hub counts; without them ``/metrics`` shows the status only.
        hosts: Names by which browsers may ask for it, besides ``localhost`` and addresses. A page of somebody
            else's can give its own name this machine's address, and would read everything here.
    """
    side = _Operator(desk, meters or Meters(), *page())
    routes = [
        Route("/", side.page),
        Route("/events", side.events),
        Route("/status", side.status),
        Route("/metrics", side.metrics),
        Route("/healthz", side.healthz),
        Route("/readyz", side.readyz),
        Route("/actions/{action}", side.act, methods=["POST"]),
        Route("/members/{client}/{action}", side.act, methods=["POST"]),
    ]
    guarded = Middleware(_Guarded, hosts=frozenset(hosts))
    handlers = dict.fromkeys((Problem, HTTPException, Unavailable), _on_problem)
    return Starlette(routes=routes, middleware=[guarded], exception_handlers=handlers)


async def _on_problem(request: Request, error: Exception) -> Response:
    return problems.of_error(error).response()


class _Guarded:
    """Answers only to names of this machine, and adds headers that keep other pages away."""

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
        if scope["type"] == "http" and scope["path"] not in _ANY_HOST and not self._ours(scope):
            answer = Problem("misdirected", "ask by an address, or add the name to hosts").response()
        elif scope["type"] == "http" and _is_of_another_page(Request(scope)):
            answer = Problem("another-page", "pages of others cannot look in here").response()
        await answer(scope, receive, with_headers)

    def _ours(self, scope: Scope) -> bool:
        host = Request(scope).url.hostname or ""
        return host == "localhost" or host in self._hosts or _is_address(host)


def _is_of_another_page(request: Request) -> bool:
    """Tell whether a browser says that a page of somebody else's asks; a link to here is not that.

    It could read nothing, but would take up the places of viewers, fill the log, and keep the store busy.
    """
    asks = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return asks and (request.headers.get("sec-fetch-mode") != "navigate" or request.method != "GET")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


class _Action(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = ""


class _Operator:
    """The handlers."""

    def __init__(self, desk: Desk, meters: Meters, content: bytes, policy: str) -> None:
        self._desk, self._meters, self._page, self._policy = desk, meters, content, policy
        #: Pages that are open, the oldest first.
        self._viewers: dict[object, None] = {}
        #: When a stranger was last logged, and how many were not since.
        self._logged, self._unlogged = -math.inf, 0
        meters.follow(desk.status)

    async def page(self, request: Request) -> Response:
        headers = {"content-security-policy": self._policy}
        return Response(self._page, headers=headers, media_type="text/html")

    async def status(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self._desk.status()), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        content, media_type = self._meters.exposed(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def healthz(self, request: Request) -> Response:
        """Say whether this process works: the event loop does, or nobody would answer."""
        if not self._desk.alive():
            raise Problem("dead", "restart this process")
        return Response(status_code=204)

    async def readyz(self, request: Request) -> Response:
        """Say whether members can be served: the store is there and what goes on is known."""
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
        """Yield events to a page; where too many are open, the oldest makes room, and its page asks again."""
        connection, viewer = getattr(request.state, "connection", None), object()
        self._viewers[viewer] = None
        while len(self._viewers) > MOST_VIEWERS:
            del self._viewers[next(iter(self._viewers))]

        def stopping() -> bool:
            return viewer not in self._viewers or getattr(connection, "stopping", False)

        try:
            with self._meters.viewers.track_inprogress():
                async for one in events.follow(self._desk, stopping):
                    yield one
        finally:
            self._viewers.pop(viewer, None)

    async def act(self, request: Request) -> Response:
        """Do what an operator asks; whose token it is comes before everything else."""
        action, named = request.path_params["action"], request.path_params.get("client")
        try:
            token = _token(request)
            if not token or not await self._desk.is_operator(token):
                raise self._stranger(action)
            known = action in ACTIONS if named is None else action in TO_MEMBERS and _CLIENT.fullmatch(named)
            if not known:
                raise Problem("not-found", "there is no such action")
            client = None if named is None else int(named)
            reason = await _reason(request, action)
            await self._desk.act(action, client, reason)
        except ConfigError as error:
            raise Problem("refused", shown(str(error), 300)) from None
        except Unavailable:
            self._meters.store_away()
            raise
        self._meters.acted(action)
        event("operator-acted", action=action, client=client, reason=reason)
        return Response(status_code=204)

    def _stranger(self, action: str) -> Problem:
        self._meters.refused("unauthorized")
        self._unlogged += 1
        if time.monotonic() - self._logged >= 1:  # whoever fails often does not fill a disk
            event("operator-refused", logging.WARNING, action=action, attempts=self._unlogged)
            self._logged, self._unlogged = time.monotonic(), 0
        challenge = {"WWW-Authenticate": 'Bearer realm="operator"'}
        return Problem("unauthorized", "this is not the operator's token", headers=challenge)


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _reason(request: Request, action: str) -> str:
    """Return the reason in an action's body. No more is read than may be there."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise Problem("too-large", f"at most {MOST_BYTES} bytes are taken here", most_bytes=MOST_BYTES)
    try:
        reason = msgspec.json.decode(body or b"{}", type=_Action).reason.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Problem("malformed", 'expected JSON such as {"reason": "..."}') from None
    if action in _WITH_REASON and not reason:
        raise Problem("no-reason", "it goes into the audit log")
    return shown(reason, 200)
