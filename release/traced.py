"""Count the files and functions of ccesa that a piece of work enters: ``python release/traced.py aggregate``.

Only public names are used, so that other versions can be counted with the same script: ``release.measure``
runs it with the package of the commit that it measures.
"""

import asyncio
import json
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import ccesa

CLIENTS = 12
#: Sites of the federation whose hub asks one question.
SITES = 4
PACKAGE = str(Path(ccesa.__file__).parent)
FEDERATION = """
name = "a measurement"
rounds = 1
charter = "charter.toml"
form = {type = "words", words = 10, bits = 32}
hub = {listen = "127.0.0.1:%d", operate = "127.0.0.1:0"}
policy = {gather = 10, after = 5}
"""


def aggregate() -> None:
    """Sum a vector of each client, all in this process."""
    ccesa.aggregate([np.full(10, client, np.uint32) for client in range(CLIENTS)])


def question() -> None:
    """Ask one question through a hub and its sites, over HTTP, under a charter."""
    from ccesa.service import Federation, Hub
    from ccesa.simulate import federate

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = federate(SITES)
        for file, text in (("charter.toml", str(made.charter)), ("federation.toml", FEDERATION % _free_port())):
            (folder / file).write_text(text)
            (folder / file).chmod(0o600)  # files that others could change are refused
        hub = Hub(Federation.load(folder / "federation.toml"), until_over=True)
        asyncio.run(_ask(hub, made, folder))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _ask(hub: Any, made: Any, folder: Path) -> None:
    ready = asyncio.Event()
    running = asyncio.ensure_future(hub.run(lambda _: ready.set()))
    await asyncio.wait([running, asyncio.ensure_future(ready.wait())], return_when="FIRST_COMPLETED")
    try:
        await asyncio.gather(*(asyncio.to_thread(_take_part, hub.address, made, site, folder) for site in range(SITES)))
    finally:
        hub.stop()
        await running


def _take_part(address: str, made: Any, site: int, folder: Path) -> None:
    from ccesa.service import Participant

    who = {"charter": made.charter, "identity": made.identities[site], "memory": folder / f"memory-{site}"}
    Participant(address, **who).run(lambda *_: np.full(10, site, np.uint32))


def count(work: str) -> dict[str, int]:
    """Do the work once, and return how many files and functions it entered; modules are loaded before."""
    {"aggregate": aggregate, "question": question}[work]()
    entered: set[CodeType] = set()

    def note(frame: FrameType, what: str, _: object) -> None:
        if what == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        {"aggregate": aggregate, "question": question}[work]()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"files": len({code.co_filename for code in entered}), "functions": len(entered)}


if __name__ == "__main__":
    print(json.dumps(count(sys.argv[1])))
