"""A line between a site and its hub that goes wrong, over real sockets, and counts what it carries."""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress

#: Bytes that may be on their way on either side of the line: more is not sent before some has arrived.
WINDOW = 1 << 16


class _Requests:
    """Where one request ends and the next begins, in what a site sends."""

    def __init__(self) -> None:
        self._head, self._left = b"", 0

    def feed(self, data: bytes) -> tuple[bytes, bool, bool]:
        """Return what belongs to one request, whether it begins with that, and whether it ends there.

        ``rest`` is what is left over; of a head nothing is returned before it is whole.
        """
        begins = False
        if not self._left:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                self.rest = b""
                return b"", False, False
            begins, self._head = True, b""
            sizes = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = int(sizes[0]) if sizes else 0
            self.rest, own = data[body:], data[:body]
            self._left = body - len(own)
            return head + found + own, begins, not self._left
        own, self.rest = data[: self._left], data[self._left :]
        self._left -= len(own)
        return own, begins, not self._left


class BadLine:
    """Listens on a port of its own, and carries bytes to a hub and back.

    Args:
        cut: Bytes, both ways together, after which a connection is reset.
        silent: Bytes after which a connection stays open and carries nothing more.
        collects: Whether a request is passed on only when all of it is there.
        refuse: Told how many bytes were carried so far; returns what a request is answered in place of the
            hub, if anything.
    """

    def __init__(
        self,
        *,
        cut: int | None = None,
        silent: int | None = None,
        collects: bool = False,
        refuse: Callable[[int], bytes | None] = lambda carried: None,
    ) -> None:
        self.cut, self.silent, self.collects, self._refuse = cut, silent, collects, refuse
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        #: Bytes that left the site, and that left the hub.
        self.up = self.down = 0
        #: How many connections there were, requests, and requests that were answered here.
        self.connections = self.requests = self.refused = 0
        self._open: set[socket.socket] = set()

    def carry(self, hub: str) -> None:
        """Begin to carry bytes to this address."""
        host, port = hub.removeprefix("http://").split(":")
        self._hub = host, int(port)
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        for one in [self._listening, *self._open]:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                site, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._connected, args=(site,), daemon=True).start()

    def _connected(self, site: socket.socket) -> None:
        hub = socket.socket()
        hub.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
        self._open |= {site, hub}
        with site, hub, suppress(OSError):
            hub.connect(self._hub)
            _Connection(self, site, hub).run()

    def refusal(self) -> bytes | None:
        """Count a request; return what it is answered here, if anything."""
        self.requests += 1
        found = self._refuse(self.up + self.down)
        self.refused += found is not None
        return found

    def keep(self, hub: socket.socket) -> None:
        """Leave a connection to the hub open that nobody uses any more."""
        self._open.add(hub.dup())


class _Connection:
    def __init__(self, line: BadLine, site: socket.socket, hub: socket.socket) -> None:
        self._line, self._site, self._hub = line, site, hub
        self._requests, self._carried = _Requests(), 0
        #: What waits until the rest of a request is there, and what this request is answered here.
        self._collected, self._refusal = b"", None

    def run(self) -> None:
        """Carry bytes until somebody hangs up, or the line does."""
        line = self._line
        while line.cut is None or self._carried < line.cut:
            for one in select.select([self._site, self._hub], [], [])[0]:
                room = WINDOW if line.cut is None else min(WINDOW, line.cut - self._carried)
                data = one.recv(room) if room else b""
                if not data:
                    return
                self._carried += len(data)
                (self._to_hub if one is self._site else self._to_site)(data)
            if line.silent is not None and self._carried >= line.silent:
                self._swallow()
                return
        self._count_rest()
        self._site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def _to_site(self, data: bytes) -> None:
        self._line.down += len(data)
        self._site.sendall(data)

    def _to_hub(self, data: bytes) -> None:
        self._line.up += len(data)
        while data:
            own, begins, ends = self._requests.feed(data)
            data = self._requests.rest
            if begins:
                self._refusal = self._line.refusal()
            if self._refusal is not None:
                self._site.sendall(self._refusal * ends)
                continue
            self._collected += own
            if ends or not self._line.collects:
                self._hub.sendall(self._collected)
                self._collected = b""

    def _swallow(self) -> None:
        """Say nothing more until the site gives up; the hub is not told even then."""
        closed = select.poll()
        closed.register(self._site, select.POLLRDHUP)
        closed.poll()
        self._count_rest()
        self._line.keep(self._hub)

    def _count_rest(self) -> None:
        self._line.up += _left(self._site)
        self._line.down += _left(self._hub)


def _left(one: socket.socket) -> int:
    """What had arrived at this end of the line."""
    one.setblocking(False)
    found = 0
    with suppress(OSError):
        while data := one.recv(1 << 20):
            found += len(data)
    return found


@contextmanager
def bad_line(**options):
    made = BadLine(**options)
    try:
        yield made
    finally:
        made.stop()
