"""Two hubs on one PostgreSQL behind the proxy of deploy/, as its compose file has them."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest

import ccesa

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))
from service_demo import Processes, free_ports  # noqa: E402

pytestmark = pytest.mark.service
SITES, WORDS, QUESTIONS = 5, 100_000, 8
WORK = f"""
import json, os
from pathlib import Path
import numpy as np
from ccesa.service import Questions

def contribute(task, number):
    return np.full({WORDS}, 10 ** int(os.environ["SITE"]), np.uint32)

class Written(Questions):
    def result(self, result):
        found = [sorted(set(result.value.tolist())), result.survivors]
        Path(f"{{result.question}}.new").write_text(json.dumps(found))
        os.replace(f"{{result.question}}.new", f"{{result.question}}.json")
"""


def tool(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or pytest.skip(f"there is no {name} here")


class Place:
    """A federation in a folder, with the addresses of its parts."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.port, *self.ports = free_ports(5)
        self.url, self.certificate = f"https://localhost:{self.port}", folder / "fullchain.pem"
        identities = [ccesa.Identity.new(f"site-{one}") for one in range(SITES)]
        members = ccesa.Admission(ccesa.Member(one.name, one.public) for one in identities)
        planned = ccesa.plan.plan(SITES, dropout=0.01, guard="active", length=WORDS, reliability_bits=1)
        charter = ccesa.plan.charter(planned, members, expires=date(2100, 1, 1))
        for one in identities:
            one.save(folder / f"{one.name}.key")
        (folder / "charter.toml").write_text(str(charter), encoding="utf-8")
        (folder / "work.py").write_text(WORK, encoding="utf-8")
        self._certify()

    def _certify(self) -> None:
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        made = ["-keyout", str(self.folder / "privkey.pem"), "-out", str(self.certificate), *names]
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        subprocess.run([tool("openssl"), "req", "-x509", *key, *made], check=True, capture_output=True)

    def proxy(self) -> list[str]:
        """The command of the proxy: its file as it is, but for names and places."""
        text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
        for hub in (1, 2):
            text = text.replace(f"hub-{hub}:8470", f"127.0.0.1:{self.ports[2 * hub - 2]}")
        text = text.replace("listen 443", f"listen 127.0.0.1:{self.port}").replace(
            "server_name hub.example", "server_name localhost"
        )
        text = text.replace("/etc/nginx/tls", str(self.folder)).replace("/run/nginx.pid", str(self.folder / "pid"))
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")
        return [tool("nginx"), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-g", "daemon off;"]

    def hub(self, number: int) -> str:
        """Write the file of a hub; places are all that differs."""
        listen, operate = self.ports[2 * number - 2 : 2 * number]
        text = f"""
            name = "behind a proxy"
            rounds = {QUESTIONS}
            charter = "charter.toml"
            form = {{type = "words", words = {WORDS}}}
            policy = {{after = 15, vector_after = 20}}
            [hub]
            store = "{self.store}"
            listen = "127.0.0.1:{listen}"
            operate = "127.0.0.1:{operate}"
            origins = ["{self.url}"]
            spool = "spool-{number}"
            counter = "{number}.counter"
            part_bytes = {WORDS}
        """
        (self.folder / f"hub-{number}.toml").write_text(text, encoding="utf-8")
        return f"hub-{number}.toml"

    def connected(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.certificate)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10), server_hostname="localhost")

    def ask(self, text: str) -> str:
        """Send a request, without the body that it announces, and return what comes."""
        with self.connected() as line:
            line.sendall(text.replace("\n", "\r\n").encode() + b"Host: localhost\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: line.recv(65536), b"")).decode("utf-8", "replace")


def wait_for(what, seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def place(tmp_path, postgres_url):
    """Proxy and hubs at work; all of it ends with the test."""
    place = Place(tmp_path, postgres_url)
    with Processes(tmp_path) as processes:
        with (tmp_path / "proxy.log").open("wb") as log:
            command = place.proxy()
            processes.running["proxy"] = subprocess.Popen(command, stderr=log, start_new_session=True)
        for number in (1, 2):
            processes.start(f"hub-{number}", "serve", place.hub(number), "--run", "work:Written")
        wait_for(lambda: all(" 204 " in asked(port, "/readyz") for port in place.ports[1::2]))
        yield place, processes


def asked(port: int, path: str) -> str:
    """What a hub answers its operator; nothing where it does not."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: line.recv(65536), b"")).decode()
    except OSError:
        return ""


def leads(port: int) -> bool:
    return "\nccesa_hub_leads 1.0\n" in asked(port, "/metrics")


def test_what_the_proxy_lets_through(place):
    place, _ = place
    found = place.ask("GET /v1/federation HTTP/1.1\nAccept-Encoding: gzip\n")
    assert found.startswith("HTTP/1.1 200 ")
    assert '"name":"behind a proxy"' in found, "nothing is compressed"
    for path in ("/", "/metrics", "/status", "/healthz", "/v2/federation", "/v1/../status"):
        assert place.ask(f"GET {path} HTTP/1.1\n").startswith("HTTP/1.1 404 "), path
    # A hub refuses before a body is there: a proxy that collects bodies first would wait for this one.
    put = "PUT /v1/series/1/exchanges/0/reply HTTP/1.1\nContent-Length: 400000\n"
    assert "urn:ccesa:problem:unauthorized" in place.ask(put)
    assert place.ask(put.replace("400000", str(10 << 20))).startswith("HTTP/1.1 413 ")


def test_sums_are_exact_though_the_hub_that_leads_is_killed(place):
    place, processes = place
    for one in range(SITES):
        agreed = ("--charter", "charter.toml", "--identity", f"site-{one}.key", "--ca", str(place.certificate))
        processes.start(f"site-{one}", "join", place.url, *agreed, "--run", "work:contribute", SITE=str(one))
    wait_for(lambda: (place.folder / "0.json").exists())
    first = 1 if leads(place.ports[1]) else 2
    processes.kill(f"hub-{first}")
    assert not (place.folder / f"{QUESTIONS - 1}.json").exists(), "there is something left to do"
    wait_for(lambda: (place.folder / f"{QUESTIONS - 1}.json").exists())
    for question in range(QUESTIONS):
        values, survivors = json.loads((place.folder / f"{question}.json").read_text(encoding="utf-8"))
        assert values == [sum(10**one for one in survivors)]
    assert len(survivors) == SITES, "all are back by the last sum"
    assert leads(place.ports[1 if first == 2 else 3])
    for one in range(SITES):
        assert processes.running.pop(f"site-{one}").wait(60) == 0, "sites end with the federation"
