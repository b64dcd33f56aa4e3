"""Who asks: a client's id comes from its token alone, never from what it says about itself.

Under a charter a member signs a challenge with its identity and is given a session. A challenge needs no
memory: it is a nonce and the time, under a key that only hubs of this federation have. The member signs the
origin that it talks to as well, so a hub that passes on the challenge of another one gets a signature that
is worth nothing there.
"""

import hmac
import logging
import math
import os
import re
import struct
import time
from collections import Counter

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ccesa import labels
from ccesa.crypto import primitives
from ccesa.errors import ConfigError
from ccesa.service.desk import Desk
from ccesa.service.federation import Federation
from ccesa.service.http import asking
from ccesa.service.http.limits import Limits
from ccesa.service.http.serving import Connection, connection_of
from ccesa.service.logs import event
from ccesa.service.problems import FRESH, Problem
from ccesa.service.tokens import signed_text

#: Seconds in which a challenge is to be answered, and by which clocks of hubs may differ.
CHALLENGE_SECONDS = 120
_SKEW = 30
_NONCE_BYTES = 16
_TIME = struct.Struct("<Q")
_STATED_BYTES = _NONCE_BYTES + _TIME.size
_MOST_BODY = 2048
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII)


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a member answers a challenge with; bytes are in base64."""

    key: bytes
    challenge: bytes
    origin: str
    signature: bytes


class Members:
    """Tells who asks, and opens sessions."""

    def __init__(self, desk: Desk, federation: Federation, limits: Limits) -> None:
        self._desk, self._federation, self._limits = desk, federation, limits
        #: Which client has which key; none have without a charter.
        admitted = federation.agreement.admission.members
        self._ids = {member.public: client for client, member in enumerate(admitted)}
        #: Tokens of strangers that are being looked up.
        self._lookups = 0
        #: In which minute this is, and how many sessions each member has opened in it.
        self._minute, self._opened = 0, Counter[int]()
        #: When a failure was last logged, and how many were not since.
        self._logged, self._unlogged = -math.inf, 0

    async def who(self, request: Request) -> int:
        """Return the client that asks, before anything else of its request is read.

        Raises:
            Problem: Nobody knows.
        """
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        connection = connection_of(request)
        client = None if found is None else await self._looked_up(found[1], connection)
        if client is None:
            raise self._unauthorized(request, "send a token that is valid, as Authorization: Bearer TOKEN")
        connection.door.know(connection, client)
        self._desk.seen(client)
        return client

    async def _looked_up(self, token: str, connection: Connection) -> int | None:
        """Ask whose a token is; strangers that guess do not make members wait for the store."""
        if connection.door.knows(connection):
            return await self._desk.member_of(token)
        if self._lookups >= self._limits.lookups:
            raise Problem("unavailable", "too many are asking who they are", retry_after=1)
        self._lookups += 1
        try:
            return await self._desk.member_of(token)
        finally:
            self._lookups -= 1

    async def challenge(self, request: Request) -> Response:
        """Give out a challenge; nothing is remembered about it."""
        self._check_signs_in()
        stated = os.urandom(_NONCE_BYTES) + _TIME.pack(int(time.time()))
        answer = {"challenge": stated + self._code(stated), "expires_in": CHALLENGE_SECONDS}
        return Response(msgspec.json.encode(answer), 200, FRESH, "application/json")

    async def open_session(self, request: Request) -> Response:
        """Give the member that has signed a challenge a session."""
        self._check_signs_in()
        asking.body_size(request, _MOST_BODY)
        with connection_of(request).interruptible():
            body = b"".join([piece async for piece in asking.pieces(request, self._limits)])
        try:
            said = msgspec.json.decode(body, type=SessionRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem("malformed", "expected key, challenge, origin and signature in JSON") from None
        try:
            client = self._checked(said)
        except ConfigError as error:
            raise self._unauthorized(request, str(error)) from None
        self._count_session(client)
        session = await self._desk.new_session(client, said.challenge[:_NONCE_BYTES])
        if session is None:
            raise self._unauthorized(request, "this challenge was answered before: ask for another")
        answer = {"token": session[0], "expires_in": session[1], "client": client}
        return Response(msgspec.json.encode(answer), 201, FRESH, "application/json")

    def _check_signs_in(self) -> None:
        if not self._federation.signs_in:
            raise Problem("not-found", "this federation has no charter: use the token that you were given")

    def _checked(self, said: SessionRequest) -> int:
        """Return the client that an answer to a challenge is from, the cheapest checks first."""
        stated, code = said.challenge[:_STATED_BYTES], said.challenge[_STATED_BYTES:]
        if not hmac.compare_digest(code, self._code(stated)):
            raise ConfigError("this is not a challenge of this hub")
        age = time.time() - _TIME.unpack(stated[_NONCE_BYTES:])[0]
        if not -_SKEW <= age <= CHALLENGE_SECONDS:
            raise ConfigError("this challenge is too old: ask for another")
        if said.origin not in self._federation.origins:
            known = " or ".join(self._federation.origins)
            raise ConfigError(f"the member signed another address than that of this hub: use {known}")
        agreed = self._federation.agreement
        text = signed_text(agreed.digest, said.origin, said.challenge)
        client = self._ids.get(said.key)
        try:  # whoever asks learns neither from the answer nor from its time whether a key is a member's
            primitives.verify(agreed.admission.key(client or 0), said.signature, text)
        except primitives.BadSignature:
            client = None
        if client is None:
            raise ConfigError(
                "this is not the signature of a member of this federation: compare the charters, and the keys"
            )
        return client

    def _count_session(self, client: int) -> None:
        minute = int(time.monotonic() / 60)
        if minute != self._minute:
            self._minute = minute
            self._opened.clear()
        if self._opened[client] >= self._limits.sessions_per_minute:
            raise Problem("busy", "a session lasts longer than this", retry_after=60)
        self._opened[client] += 1

    def _code(self, stated: bytes) -> bytes:
        return hmac.digest(self._desk.secret, labels.frame(labels.CHALLENGE, stated), "sha256")

    def _unauthorized(self, request: Request, why: str) -> Problem:
        connection_of(request).failures += 1
        self._unlogged += 1
        if time.monotonic() - self._logged >= 1:  # whoever fails often does not fill a disk
            self._logged = time.monotonic()
            address = request.client.host if request.client else ""
            event("unauthorized", logging.WARNING, why=why, address=address, attempts=self._unlogged)
            self._unlogged = 0
        return Problem("unauthorized", why, headers={"WWW-Authenticate": 'Bearer realm="ccesa"'})
