"""The web server of the demo: the page, the lobby, and a way through to the hub of each round.

The page, the client's modules and the hub are one origin, so phones need one port and one address. What
passes through here on its way to a hub is also what ``/hub`` shows: all that the hub ever has.
"""

import base64
import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from lobby import Guest, Lobby, Room
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "clients" / "typescript"
#: More than any reply of the demo has.
MOST_BYTES = 1 << 18
#: Headers that go through to a hub, and back.
_THERE = ("authorization", "content-type", "prefer", "range", "upload-offset", "upload-length")
_BACK = re.compile(r"(ccesa-.*|content-type|content-range|etag|retry-after|upload-.*)")


def app(lobby: Lobby) -> Starlette:
    """Return the application."""
    http = httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=None))
    desk = _Desk(lobby, http)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with http:
            yield

    return Starlette(
        routes=[
            Route("/", _page("index.html")),
            Route("/hub", _page("hub.html")),
            Route("/lobby/{topic}", desk.ask, methods=["POST"]),
            Route("/lobby/{topic}/leave", desk.leave, methods=["POST"]),
            Route("/lobby/{topic}/seen", desk.seen),
            Route("/round/{number:int}/v1/{path:path}", desk.pass_on, methods=["GET", "POST", "PUT"]),
            Mount("/page", StaticFiles(directory=HERE / "page")),
            Mount("/ccesa", StaticFiles(directory=CLIENT / "dist")),
            Mount("/noble", StaticFiles(directory=CLIENT / "node_modules" / "@noble")),
        ],
        lifespan=lifespan,
    )


def _page(name: str) -> Any:
    """Return what serves a page, under a policy that lets nothing run but the files of this server."""
    text = (HERE / "page" / name).read_text(encoding="utf-8")
    inline = re.findall(r'<script type="importmap">(.*?)</script>', text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inline]
    scripts = " ".join(["'self'", "'wasm-unsafe-eval'", *(f"'sha256-{one}'" for one in hashes)])
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}

    async def serve(_: Request) -> Response:
        return Response(text, media_type="text/html", headers=headers)

    return serve


class _Desk:
    """Answers what pages ask, and passes on what is for a hub."""

    def __init__(self, lobby: Lobby, http: httpx.AsyncClient) -> None:
        self._lobby, self._http = lobby, http

    def _room(self, request: Request) -> Room:
        room = self._lobby.rooms.get(request.path_params["topic"])
        if room is None:
            raise HTTPException(404)
        return room

    async def ask(self, request: Request) -> Response:
        """Tell a tab what there is to know; with ``ready`` it presses the button, or takes that back."""
        room, asked = self._room(request), await _json(request)
        guest = room.sit(str(asked.get("ticket", "")))
        guest.heard = time.monotonic()
        if "ready" in asked:
            self._press(room, guest, asked)
        return JSONResponse({"ticket": guest.ticket, **room.told(guest)}, headers={"Cache-Control": "no-store"})

    def _press(self, room: Room, guest: Guest, asked: dict[str, Any]) -> None:
        key, is_ready = str(asked.get("key", "")), asked["ready"] is True
        if is_ready and room.guard == "active" and not re.fullmatch(r"[A-Za-z0-9+/]{43}=", key):
            raise HTTPException(400, "under this guard a tab brings the public key of its identity")
        room.ready(guest, is_ready, key)

    async def leave(self, request: Request) -> Response:
        """Note that a tab is being closed; it may be a reload."""
        ticket = (await _body(request)).decode("ascii", "replace")
        self._room(request).leave(ticket)
        return Response(status_code=204)

    async def seen(self, request: Request) -> Response:
        """Tell what the hub of the latest round has: masked vectors, and in the end the sum."""
        play = self._room(request).play
        if play is None:
            return JSONResponse({"round": None})
        return JSONResponse(
            {
                "round": play.number,
                "phase": play.phase,
                "names": play.names,
                "bits": play.bits,
                "length": play.length,
                "step": play.step,
                "vectors": [
                    {"client": client, "words": base64.b64encode(vector).decode()}
                    for client, vector in play.vectors.items()
                ],
                "outcome": play.outcome,
                "result": play.result,
            },
            headers={"Cache-Control": "no-store"},
        )

    async def pass_on(self, request: Request) -> Response:
        """Pass a request on to the hub of a round, and its answer back, as a proxy in front of a hub does."""
        play = self._lobby.plays.get(request.path_params["number"])
        if play is None or not play.address:
            raise HTTPException(404)
        body = await _body(request)
        path = f"/v1/{request.path_params['path']}"
        headers = {name: request.headers[name] for name in _THERE if name in request.headers}
        query = request.url.query
        try:
            answer = await self._http.request(
                request.method, f"{play.address}{path}{'?' if query else ''}{query}", content=body, headers=headers
            )
        except httpx.TransportError:
            raise HTTPException(502) from None
        if request.method == "PUT" and answer.status_code == 204:
            play.saw_reply(body)
        if path.startswith("/v1/results/") and answer.status_code in (200, 206):  # one part has all of it
            play.result = answer.json()
        back = {name: value for name, value in answer.headers.items() if _BACK.fullmatch(name)}
        return Response(answer.content, answer.status_code, {"Cache-Control": "no-store", **back})


async def _body(request: Request) -> bytes:
    """Return the body of a request, if it is not too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise HTTPException(413)
    return bytes(body)


async def _json(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(await _body(request))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise HTTPException(400, "expected an object of JSON")
    return value
