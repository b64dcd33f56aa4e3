"""``Assistant`` carries a helper over HTTP."""

from dataclasses import replace
from pathlib import Path

from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.memory import ProcessMemory
from ccesa.service.participant.calls import Tell, silent
from ccesa.service.participant.driver import Carrier, drive, open_line, origin_of
from ccesa.service.participant.helping import assist
from ccesa.service.participant.home import Home
from ccesa.service.participant.site import Helping, Site


class Assistant:
    """A helper's part in a federation, until the federation is over: it has no vector of its own.

    A member that helps needs none, because ``Participant`` does both.

    Args:
        url: Address of the hub, ``https://hub.example``; without TLS only on this machine.
        charter: This helper's own copy of the charter, or its file.
        identity: The helper's private key, or its file.
        memory: Folder with the memory of this helper. The keys of rounds are in a folder beside it. Neither belongs
            into a backup.
        ca: File with certificates of a private authority, instead of the public ones.
        insecure_http: Whether to talk to another machine without TLS, as inside a tunnel.
        progress: Called with an ``Event`` whenever something happens.
        threads: The maximum number of threads that sum masks; 0 takes as many as help.
        patience: Seconds after which the helper gives up a hub that is away.

    Raises:
        ConfigError: The charter names no such helper or has expired, or a file cannot be trusted.
        OSError: The system cannot read a file.
    """

    def __init__(
        self,
        url: str,
        *,
        charter: Charter | Path | str,
        identity: Identity | Path | str,
        memory: Path | str,
        ca: Path | str | None = None,
        insecure_http: bool = False,
        progress: Tell = silent,
        threads: int = 0,
        patience: float = 3600.0,
    ) -> None:
        self._origin, self._ca = origin_of(url, insecure_http), ca
        self._standing = Helping(
            agreement=Charter.load(charter) if isinstance(charter, Path | str) else charter,
            identity=Identity.load(identity) if isinstance(identity, Path | str) else identity,
            origin=self._origin,
        )
        file = identity if isinstance(identity, Path | str) else None
        self._home = Home(folder=Path(memory), identity=self._standing.identity, file=file, tell=progress)
        self._site = Site(
            standing=self._standing,
            contribute=lambda task, number: None,
            memory=ProcessMemory(),  # until ``run`` opens the folder
            threads=threads,
            patience=patience,
            tell=progress,
        )

    def run(self) -> None:
        """Help until the federation is over. Then all keys of its rounds are destroyed.

        Raises:
            ConfigError: The hub has another charter, another process uses this memory, or httpx is not installed.
            FaultyServer: The hub sends an invalid answer.
            OSError: The hub has been away for too long, or memory and keys cannot be written.
        """
        with self._home.open() as memory, open_line(self._origin, self._ca) as client:
            keys = self._home.keys()
            core = assist(replace(self._site, memory=memory), self._standing, keys)
            drive(core, Carrier(client, memory, keys))
