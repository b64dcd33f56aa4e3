"""``Participant`` carries the core over HTTP, with httpx.

It checks certificates, uses the proxies of the environment, and reads only as much as the core wants.
"""

import contextlib
import math
import os
import random
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ccesa.agreement.agreement import ATTEMPTS
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import Floor
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError, FaultyServer, quoted
from ccesa.extras import missing
from ccesa.helper_keys import HelperKeys
from ccesa.memory import Memory, ProcessMemory
from ccesa.privacy.ledger import Ledger
from ccesa.service.participant.calls import Call, Flow, HubAnswer, Pause, Tell, silent
from ccesa.service.participant.core import take_part
from ccesa.service.participant.helping import assist
from ccesa.service.participant.home import Home
from ccesa.service.participant.site import Contribute, Enrolled, Helping, Make, Site, TakeResult, at_once, standing_of
from ccesa.words import Vector

if TYPE_CHECKING:
    import httpx

_CONNECT, _SILENCE = 20.0, 60.0  # seconds to connect, and between two pieces of a body
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PORTS = {"http": 80, "https": 443}
_DAY, _MINUTE = 86400.0, 60.0
_LOOK, _FAREWELL = 1.0, 5.0  # seconds between two looks at a helper's thread, and to wait for one that is stopped
#: The errors of a plain connection to a port that expects TLS.
_BROKEN = ("ReadError", "RemoteProtocolError")


class Participant:
    """A site's part in a federation, until the federation is over. A site that is a helper in the charter helps, too.

    Args:
        url: Address of the hub, ``https://hub.example``; without TLS only on this machine.
        charter: This site's own copy of the charter, or its file.
        identity: The site's private key, or its file; it goes with the charter.
        token: Without a charter: the client's token from ``ccesa invite``.
        client: Without a charter: the id of this client; by default from the hub.
        memory: Folder with the memory of this site. With a charter it is required, because the hub may lie.
            Without one, the memory ends with the process unless a folder is given. A helper's keys are beside it.
        ledger: The ledger that is charged for vectors with noise, or its file.
        floor: Without a charter: this site's own minimum.
        attempts: Without a charter: the maximum number of vectors that leave for one task.
        ca: File with certificates of a private authority, instead of the public ones.
        insecure_http: Whether to talk to another machine without TLS, as inside a tunnel.
        progress: Called with an ``Event`` whenever something happens.
        once: Whether to take part in one sum only.
        strict: Whether to end at the first fault. By default the site only sits out its round.
        threads: The maximum number of threads that make masks; 0 takes as many as help.
        patience: Seconds after which the site gives up a hub that is away.
        results: Called in the end with each published result, as in JSON.
        max_task_bytes: The largest task to fetch. By default the federation's form sets it: for arrays, the
            size of the model; at most 1 GiB.
        answer_after: With noise: seconds from the call of the function until a vector leaves, however long
            the function takes. If it has not returned by then, noise around zeros leaves. The function runs
            in its own thread. By default a vector leaves when it is ready.

    Raises:
        ConfigError: Arguments that contradict each other, an invalid address, an identity that is not in the
            charter, or a file that cannot be trusted.
        OSError: The system cannot read a file.
    """

    def __init__(
        self,
        url: str,
        *,
        charter: Charter | Path | str | None = None,
        identity: Identity | Path | str | None = None,
        token: str | None = None,
        client: int | None = None,
        memory: Path | str | None = None,
        ledger: Ledger | Path | str | None = None,
        floor: Floor | None = None,
        attempts: int = ATTEMPTS,
        ca: Path | str | None = None,
        insecure_http: bool = False,
        progress: Tell = silent,
        once: bool = False,
        strict: bool = False,
        threads: int = 0,
        patience: float = 3600.0,
        results: TakeResult | None = None,
        max_task_bytes: int | None = None,
        answer_after: float | None = None,
    ) -> None:
        self._origin = origin_of(url, insecure_http)
        self._ca, self._file = ca, identity if isinstance(identity, Path | str) else None
        self._memory = None if memory is None else Path(memory)
        standing = standing_of(
            charter=Charter.load(charter) if isinstance(charter, Path | str) else charter,
            identity=Identity.load(identity) if isinstance(identity, Path | str) else identity,
            token=token,
            client=client,
            floor=floor,
            attempts=attempts,
            origin=self._origin,
        )
        if standing.needs_folder and memory is None:
            raise ConfigError("a site with a charter needs a folder for its memory: the hub may ask twice")
        self._site = Site(
            standing=standing,
            contribute=lambda task, number: None,  # until ``run`` has the function
            memory=ProcessMemory(),
            ledger=Ledger(ledger) if isinstance(ledger, Path | str) else ledger,
            threads=threads,
            once=once,
            strict=strict,
            patience=patience,
            tell=progress,
            results=results,
            max_task=max_task_bytes,
            make=at_once if answer_after is None else InTime(answer_after),
        )

    def run(self, contribute: Contribute) -> None:
        """Take part until the federation is over.

        Args:
            contribute: Called with the task and the number of the round. The task is bytes, a dict of arrays
                or a schema, depending on the federation. It returns a vector of words, a dict of arrays, such
                a dict and a weight, or records. If it raises, the round goes on without this site; with noise
                the site sends noise around zeros, and ``progress`` gets an event.

        Raises:
            ConfigError: The hub runs rounds that this site has not agreed to, or does not let it in; another
                process uses this memory; or httpx is not installed.
            FaultyServer: The hub sends an invalid answer.
            OrderError: Another process answers in the name of this site.
            OSError: The hub has been away for too long, or the memory cannot be written.
            VectorError: With ``strict`` and noise, in the end: the site had no vector in some round.
        """
        standing = self._site.standing
        home = Home(folder=self._memory, identity=standing.identity, file=self._file, tell=self._site.tell)
        with home.open() as memory, open_line(self._origin, self._ca) as client, contextlib.ExitStack() as closing:
            site, check = replace(self._site, contribute=contribute, memory=memory), _nothing
            if isinstance(standing, Enrolled) and (helping := standing.as_helper()) is not None:
                beside = closing.enter_context(open_line(self._origin, self._ca))
                helper = closing.enter_context(HelperThread(site, helping, home.keys(), beside))
                check = helper.check
            drive(take_part(site), Carrier(client, memory, check=check))


def open_line(origin: str, ca: Path | str | None) -> "httpx.Client":
    """Return an HTTP client for the hub at this origin."""
    try:
        import httpx
    except ImportError as error:
        raise missing("ccesa join", "httpx", "join") from error
    trusting, headers = _trusting(ca), {"accept-encoding": "identity", "user-agent": "ccesa"}
    try:
        return httpx.Client(base_url=origin, verify=trusting, follow_redirects=False, headers=headers)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"the proxies of the environment cannot be used: {error}") from error


def _nothing() -> None:
    """Do nothing."""


def _trusting(ca: Path | str | None) -> ssl.SSLContext:
    """Trust only the authorities in a file, or those of httpx; ignore ``SSLKEYLOGFILE``, which reveals tokens."""
    import certifi  # httpx needs it, too

    ca = ca or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or certifi.where()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if os.path.isdir(ca):
            context.load_verify_locations(capath=ca)
        else:
            context.load_verify_locations(cafile=ca)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot read certificates from {ca}: {why}") from error
    return context


class Carrier:
    """Makes the calls of one site, and sweeps its memory and keys. ``check`` may raise before a call."""

    def __init__(
        self,
        client: "httpx.Client",
        memory: Memory,
        keys: HelperKeys | None = None,
        check: Callable[[], None] = _nothing,
    ) -> None:
        self._client, self._met = client, False
        self._memory, self._swept = memory, time.monotonic()
        self._keys, self._check, self._keys_swept = keys, check, -math.inf

    def __call__(self, call: Call) -> HubAnswer:
        """Make one call. A hub that was reached before may have a bad certificate for a while."""
        self._check()
        self._sweep(time.monotonic())
        try:
            answer = carry(self._client, call)
        except FaultyServer as error:
            if not self._met:
                raise
            return HubAnswer(status=0, reason=str(error))
        if not self._met and answer.reason.startswith(_BROKEN):
            _check_scheme(self._client.base_url)
        self._met = self._met or answer.is_hubs
        return answer

    def _sweep(self, now: float) -> None:
        if now - self._swept > _DAY:
            self._memory.sweep(time.time())
            self._swept = now
        if self._keys is not None and now - self._keys_swept > _MINUTE:
            self._keys.sweep(time.time())
            self._keys_swept = now


class HelperThread:
    """A site's part as a helper, in a thread beside its part as a member. In the end it waits for the thread.

    The member may train for an hour, and the helper has to answer meanwhile.
    """

    def __init__(self, site: Site, standing: Helping, keys: HelperKeys, client: "httpx.Client") -> None:
        carrier = Carrier(client, site.memory, keys, self._go_on)
        self._core, self._carry = assist(site, standing, keys), carrier
        self._failure: BaseException | None = None
        self._stopping, self._client = False, client
        self._thread = Thread(target=self._run, name="ccesa-helper", daemon=True)

    def __enter__(self) -> "HelperThread":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is None and self._thread.is_alive():  # the member is done; others may still need the helper
                self._thread.join(_LOOK)
        finally:
            self._stopping = True
            self._client.close()
            self._thread.join(_FAREWELL)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise what has ended the helper."""
        if self._failure is not None:
            raise self._failure

    def _go_on(self) -> None:
        if self._stopping:
            raise _Stopped

    def _run(self) -> None:
        try:
            drive(self._core, self._carry)
        except BaseException as error:  # for the thread of the member
            if not self._stopping:
                self._failure = error


class _Stopped(BaseException):
    """Ends the helper of a site that is being stopped."""


def drive(core: Flow[None], carry: Callable[[Call], HubAnswer], sleep: Callable[[float], None] = time.sleep) -> None:
    """Run a core to its end. Afterwards its secrets are dropped, also after an interrupt."""
    answer: HubAnswer | None = None
    with contextlib.closing(core), contextlib.suppress(StopIteration):
        while True:
            wish = core.send(answer)
            if isinstance(wish, Pause):
                sleep(wish.seconds * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all come at once
                answer = None
            else:
                answer = carry(wish)


def carry(client: "httpx.Client", call: Call) -> HubAnswer:
    """Make one call. Without an answer the result has the reason; an untrusted certificate raises FaultyServer."""
    import httpx

    timeout = httpx.Timeout(_SILENCE, connect=_CONNECT, read=_SILENCE + call.wait)
    answer, body = HubAnswer(status=0), bytearray()
    try:
        with client.stream(
            call.method,
            call.path,
            headers=dict(call.headers),
            content=bytes(call.body) if call.method not in ("GET", "HEAD") else None,
            timeout=timeout,
        ) as response:
            answer = HubAnswer(status=response.status_code, headers=dict(response.headers))
            _read(response, call.most, body)
        return replace(answer, body=bytes(body))
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise FaultyServer(f"the hub's certificate is not trusted: {error}") from None
        reason = f"{type(error).__name__} {error}".strip()
        if "range" in call.headers and answer.status in (200, 206):
            return replace(answer, body=bytes(body), broken=True, reason=reason)
        return HubAnswer(status=0, reason=reason)


def _check_scheme(url: "httpx.URL") -> None:
    """Refuse a plain address of a port that expects TLS: another attempt would not help."""
    if url.scheme != "http":
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent over it
    address = url.host, url.port or _PORTS["http"]
    with (
        contextlib.suppress(OSError),  # an SSLError is one, too
        socket.create_connection(address, _CONNECT) as plain,
        context.wrap_socket(plain, server_hostname=url.host),
    ):
        raise ConfigError(f"the hub at {url} expects TLS: use {url.copy_with(scheme='https')}")


def _read(response: "httpx.Response", most: int, body: bytearray) -> None:
    """Add pieces to a body, up to one byte more than ``most``."""
    for piece in response.iter_raw():
        body += piece[: most + 1 - len(body)]
        if len(body) > most:
            break


def origin_of(url: str, insecure_http: bool = False) -> str:
    """Return scheme, host and port of a hub, in the only spelling that a member signs."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{quoted(url)} is not the address of a hub") from None
    if parts.scheme not in _PORTS or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(f"{quoted(url)} is not the address of a hub: https://HOST, or https://HOST:PORT")
    if parts.username is not None or not host.isascii():
        raise ConfigError(f"{quoted(url)} must have only scheme, host and port")
    if parts.scheme == "http" and host not in _LOOPBACK and not insecure_http:
        raise ConfigError(
            f"{quoted(url)} is another machine, without TLS: anyone on the network could read tokens and act "
            "as the hub. Use https, or --insecure-http inside a tunnel"
        )
    shown_host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown_host}" + (f":{port}" if port not in (None, _PORTS[parts.scheme]) else "")


class InTime:
    """Makes each vector in the same time, in a thread: with noise, the time could reveal a site's data.

    A function that is still running after this time cannot be stopped. Until it ends, it is not called again.
    """

    def __init__(self, seconds: float) -> None:
        if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
            raise ConfigError(f"answer_after must be a positive number of seconds, not {seconds!r}")
        self._seconds, self._thread = seconds, Thread()

    def __call__(self, make: Make) -> Vector:
        """Return the vector, or raise the function's exception, when the time is over and not before."""
        end, made = time.monotonic() + self._seconds, Future[Vector]()

        def fulfil() -> None:
            try:
                made.set_result(make())
            except BaseException as error:  # for the thread that waits
                made.set_exception(error)

        if not self._thread.is_alive():
            self._thread = Thread(target=fulfil, daemon=True)
            self._thread.start()
        self._thread.join(self._seconds)
        time.sleep(max(0.0, end - time.monotonic()))
        if not made.done():
            raise TimeoutError(f"no vector was ready after {self._seconds:g} seconds")
        return made.result()
