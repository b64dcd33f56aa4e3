"""Requests: strict readers of their headers and bodies, and the authentication of members by tokens and sessions.

A client's id comes from its token alone. Under a charter, a member signs a challenge with its identity and gets a
session. A challenge is a nonce and the time, under a key that only hubs of this federation have. The member also
signs the origin of its hub, so a hub cannot pass on the challenge of another one.
"""

import asyncio
import hmac
import math
import os
import re
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from ccesa import labels
from ccesa.agreement.identity import Admission
from ccesa.crypto import primitives
from ccesa.errors import ConfigError
from ccesa.service.desk import Desk
from ccesa.service.federation import Federation
from ccesa.service.http.serving import Connection, Limits, connection_of
from ccesa.service.logs import Seldom
from ccesa.service.problems import FRESH, Problem
from ccesa.service.tokens import signed_text

_AFTER = re.compile("-1|[0-9]{1,9}", re.ASCII)
_SIZE = re.compile("[0-9]{1,15}", re.ASCII)
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,4})(?![0-9])', re.ASCII)
#: Seconds to answer a challenge, and the maximum difference between clocks of hubs.
CHALLENGE_SECONDS = 120
_SKEW = 30
_NONCE_BYTES = 16
_TIME = struct.Struct("<Q")
_STATED_BYTES = _NONCE_BYTES + _TIME.size
_MOST_BODY = 2048
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII)


class _Number(Convertor[int]):
    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        return int(value)


class _Digest(Convertor[bytes]):
    regex = "[0-9a-f]{64}"

    def convert(self, value: str) -> bytes:
        return bytes.fromhex(value)


register_url_convertor("number", _Number())
register_url_convertor("digest", _Digest())


def after(request: Request) -> int:
    """Return the number in ``?after=``."""
    text = request.query_params.get("after", "-1")
    if not _AFTER.fullmatch(text):
        raise Problem("malformed", "after must be -1 or greater")
    return int(text)


def size(request: Request, name: str, most: float = math.inf) -> int:
    """Return the size in a header; refuse one above the maximum."""
    text = request.headers.get(name, "")
    if not _SIZE.fullmatch(text):
        raise Problem("malformed", f"{name} must be a number of bytes")
    if int(text) > most:
        raise Problem("too-large", f"send at most {most} bytes", most_bytes=most)
    return int(text)


def body_size(request: Request, most: int) -> int:
    """Return the size of a body before any of it is read; refuse an unknown size and a compressed body."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("encoded", "send the body uncompressed: masked data does not compress")
    if "transfer-encoding" in request.headers or "content-length" not in request.headers:
        raise Problem("length-required", "send Content-Length, and no chunks")
    return size(request, "content-length", most)


def answer(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, FRESH, "application/json")


async def pieces(request: Request, limits: Limits, check: Callable[[], object] = lambda: None) -> AsyncIterator[bytes]:
    """Yield a body as it arrives; refuse a slow one. ``check`` raises once the body is no longer wanted."""
    clock, got, more = asyncio.get_running_loop().time, 0, True
    began = clock()
    while more:
        slowest = began + limits.grace_seconds + got / limits.minimum_rate
        try:
            async with asyncio.timeout_at(min(slowest, clock() + limits.silence_seconds)):
                message = await request.receive()
        except TimeoutError:
            rate, pause = limits.minimum_rate, limits.silence_seconds
            text = f"send at least {rate} bytes per second, and pause for at most {pause:g} seconds"
            raise Problem("timeout", text) from None
        if message["type"] != "http.request":
            raise Problem("timeout", "the connection ended before the body")
        piece, more = message.get("body", b""), message.get("more_body", False)
        got += len(piece)
        check()
        yield piece


def patience(request: Request, most: int) -> int:
    """Return the seconds in ``Prefer: wait=SECONDS``, at most this many; 0 without them."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), most) if found else 0


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member's or a helper's answer to a challenge; bytes are in base64."""

    key: bytes
    challenge: bytes
    origin: str
    signature: bytes
    #: A site that is both has a session for each.
    helper: bool = False


class Members:
    """Authenticates members, and opens sessions."""

    def __init__(self, desk: Desk, federation: Federation, limits: Limits) -> None:
        self._desk, self._federation, self._limits = desk, federation, limits
        #: Clients by key, and whether it is a helper's; empty without a charter.
        self._ids = {(False, one.public): client for client, one in enumerate(self._admitted(False).members)}
        helpers = zip(federation.helper_ids, self._admitted(True).members, strict=True)
        self._ids |= {(True, one.public): helper for helper, one in helpers}
        self._lookups = 0  # the number of strangers' tokens that are being looked up
        #: The current minute, and the number of sessions that each member has opened in it.
        self._minute, self._opened = 0, Counter[int]()
        self._failures = Seldom()

    def _admitted(self, helper: bool) -> Admission:
        agreed = self._federation.agreement
        return agreed.helper_admission if helper else agreed.admission

    def is_helper(self, client: int) -> bool:
        return client in self._federation.helper_ids

    async def authenticate(self, request: Request) -> int:
        """Return the client of a request, before anything else of the request is read."""
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        connection = connection_of(request)
        client = None if found is None else await self._look_up(found[1], connection)
        if client is None:
            raise self._unauthorized(request, "send a valid token, as Authorization: Bearer TOKEN")
        connection.door.admit(connection, client)
        self._desk.hear(client)
        return client

    async def _look_up(self, token: str, connection: Connection) -> int | None:
        """Look up a token. Strangers that guess tokens must not make members wait for the store."""
        if connection.door.is_member(connection):
            return await self._desk.member_of(token)
        if self._lookups >= self._limits.lookups:
            raise Problem("unavailable", "too many tokens are being looked up", retry_after=1)
        self._lookups += 1
        try:
            return await self._desk.member_of(token)
        finally:
            self._lookups -= 1

    async def challenge(self, request: Request) -> Response:
        """Return a challenge. The hub keeps nothing about it."""
        self._check_signs_in()
        stated = os.urandom(_NONCE_BYTES) + _TIME.pack(int(time.time()))
        return answer({"challenge": stated + self._code(stated), "expires_in": CHALLENGE_SECONDS})

    async def open_session(self, request: Request) -> Response:
        self._check_signs_in()
        body_size(request, _MOST_BODY)
        with connection_of(request).interruptible():
            body = b"".join([piece async for piece in pieces(request, self._limits)])
        try:
            signed = msgspec.json.decode(body, type=SessionRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem("malformed", "expected key, challenge, origin and signature in JSON") from None
        try:
            client = self._check(signed)
        except ConfigError as error:
            raise self._unauthorized(request, str(error)) from None
        self._count_session(client)
        session = await self._desk.new_session(client, signed.challenge[:_NONCE_BYTES])
        if session is None:
            raise self._unauthorized(request, "this challenge was used before: ask for a new one")
        return answer({"token": session[0], "expires_in": session[1], "client": client}, 201)

    def _check_signs_in(self) -> None:
        if not self._federation.signs_in:
            raise Problem("not-found", "this federation has no charter: use the token from the operator")

    def _check(self, signed: SessionRequest) -> int:
        """Return the client that has answered a challenge; the cheapest checks come first."""
        stated, code = signed.challenge[:_STATED_BYTES], signed.challenge[_STATED_BYTES:]
        if not hmac.compare_digest(code, self._code(stated)):
            raise ConfigError("this challenge is not from this hub")
        age = time.time() - _TIME.unpack(stated[_NONCE_BYTES:])[0]
        if not -_SKEW <= age <= CHALLENGE_SECONDS:
            raise ConfigError("this challenge is too old: ask for a new one")
        if signed.origin not in self._federation.origins:
            known = " or ".join(self._federation.origins)
            raise ConfigError(f"the member signed another address than this hub's: use {known}")
        text = signed_text(self._federation.agreement.digest, signed.origin, signed.challenge)
        client, admitted = self._ids.get((signed.helper, signed.key)), self._admitted(signed.helper)
        if not len(admitted):
            raise ConfigError("the charter of this federation names no helpers")
        place = 0 if client is None else client - (self._federation.clients if signed.helper else 0)
        try:  # neither the answer nor its time may show whether a key is a member's
            primitives.verify(admitted.key(place), signed.signature, text)
        except primitives.BadSignature:
            client = None
        if client is None:
            who = "helper" if signed.helper else "member"
            raise ConfigError(f"no {who} of this federation made this signature: compare the charters and the keys")
        return client

    def _count_session(self, client: int) -> None:
        minute = int(time.monotonic() / 60)
        if minute != self._minute:
            self._minute = minute
            self._opened.clear()
        if self._opened[client] >= self._limits.sessions_per_minute:
            raise Problem("busy", "too many sessions; use each until it expires", retry_after=60)
        self._opened[client] += 1

    def _code(self, stated: bytes) -> bytes:
        return hmac.digest(self._desk.secret, labels.frame(labels.CHALLENGE, stated), "sha256")

    def _unauthorized(self, request: Request, why: str) -> Problem:
        connection_of(request).failures += 1
        self._failures.event("unauthorized", why=why, address=request.client.host if request.client else "")
        return Problem("unauthorized", why, headers={"WWW-Authenticate": 'Bearer realm="ccesa"'})
