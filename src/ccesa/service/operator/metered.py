"""Counts what passes an application over HTTP, whatever it is: nothing in it has to know of metrics."""

from contextlib import nullcontext

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ccesa.service.operator.meters import Meters


class _Problem(msgspec.Struct):
    type: str = ""


class Metered:
    """An application whose bytes, refusals and long polls are counted.

    Args:
        inner: The application.
        meters: What counts.
    """

    def __init__(self, inner: ASGIApp, meters: Meters) -> None:
        self._inner, self._meters = inner, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as ASGI has it."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        waits = any(name == b"prefer" for name, _ in scope["headers"])
        with self._meters.polls.track_inprogress() if waits else nullcontext():
            await self._inner(scope, self._received(receive), self._sent(send))

    def _received(self, receive: Receive) -> Receive:
        async def counted() -> Message:
            message = await receive()
            self._meters.received(len(message.get("body", b"")))
            return message

        return counted

    def _sent(self, send: Send) -> Send:
        refused = False

        async def counted(message: Message) -> None:
            nonlocal refused
            body = message.get("body", b"")
            if message["type"] == "http.response.start":
                refused = message["status"] >= 400
            elif refused:
                refused = False
                self._meters.refused(_name(body))
            self._meters.sent(len(body))
            await send(message)

        return counted


def _name(body: bytes) -> str:
    """Return the name of a problem; empty for anything else."""
    try:
        return msgspec.json.decode(body, type=_Problem).type.rpartition(":")[2]
    except msgspec.MsgspecError:
        return ""
