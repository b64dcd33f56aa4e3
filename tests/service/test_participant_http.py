"""``Participant`` and ``ccesa join`` against a real hub on a loopback port."""

import asyncio
import datetime
import hashlib
import ipaddress
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import commands
from ccesa.cli.options import import_function
from ccesa.errors import ConfigError, FaultyServer
from ccesa.files import write_new
from ccesa.memory import ProcessMemory
from ccesa.policy import Policy
from ccesa.service.federation import Federation, HubTable
from ccesa.service.hub.hub import Hub
from ccesa.service.participant import driver
from ccesa.service.participant.calls import Call, HubAnswer
from ccesa.service.participant.driver import Participant, origin_of
from ccesa.service.store import open_store
from processes import free_ports
from rounds import charter, configure, identity
from series_rounds import GUARDS

CLIENTS, WORDS = 5, 40
#: Somebody, for hubs that nobody gets as far as to say so to.
WHO = {"token": "x"}


def federation(folder, guard: str, **options) -> Federation:
    hub = {
        "listen": f"127.0.0.1:{free_ports(1)[0]}",
        "operate": "127.0.0.1:0",
        "spool": str(folder / "spool"),
        "counter": str(folder / "federation.counter"),
        **options.pop("hub", {}),
    }
    rounds = (
        {"charter": charter(CLIENTS, bits=32)}
        if guard == "active"
        else {"config": configure(CLIENTS, bits=32, min_survivors=3)}
    )
    policy = Policy(gather=60, after=3, deadline=6, vector_after=3, vector_deadline=6, absent=10)
    return Federation(
        **{
            "name": "a test",
            "rounds": 2,
            "form": {"type": "words", "words": WORDS, "bits": 32},
            "policy": policy,
            "folder": folder,
            "hub": HubTable(**hub),
            **rounds,
            **options,
        }
    )


def vector(client: int, task: bytes, words: int = WORDS) -> np.ndarray:
    return np.random.default_rng([client, *task]).integers(0, 2**32, words, dtype=np.uint32)


def participant(made: Federation, client: int, url: str, folder, **options) -> Participant:
    who = (
        {"charter": made.agreement, "identity": identity(client), "memory": folder / f"memory-{client}"}
        if made.signs_in
        else {"token": f"token-{client}"}
    )
    return Participant(url, **{**who, **options})


def run(made: Federation, *works, early: bool = False, coordinator=None) -> None:
    """Run a hub, and each of these in a thread of its own, told the hub's address; or before it is there."""
    if not made.signs_in:
        store = open_store(made.store)
        for client in range(CLIENTS):
            store.add_token(hashlib.sha256(f"token-{client}".encode()).digest(), client, "")
        store.close()

    async def everything() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(works) + 4))
        hub, ready = Hub(made, coordinator), asyncio.Event()
        working = [asyncio.ensure_future(asyncio.to_thread(work, made.origins[0])) for work in works * early]
        await asyncio.sleep(early)
        running = asyncio.ensure_future(hub.run(lambda _: ready.set()))
        await asyncio.wait([running, asyncio.ensure_future(ready.wait())], return_when="FIRST_COMPLETED")
        try:
            working = working or [asyncio.to_thread(work, hub.address) for work in works]
            await asyncio.gather(*working)
        finally:
            hub.stop()
            await running

    asyncio.run(everything())


def check(made: Federation, vector=vector) -> list[tuple[int, ...]]:
    """Every sum is the plain one; return who is in each."""
    store = open_store(made.store)
    rows = [row for row in store.rounds(totals=True) if row.outcome == "sum"]
    for row in rows:
        task = store.task_of(row.question)
        found = np.frombuffer(row.total, np.uint32)
        assert np.array_equal(found, sum(vector(client, task, found.size) for client in row.survivors))
    store.close()
    return [row.survivors for row in rows]


def works(made: Federation, folder, events=None, **options):
    def work(client: int):
        def doing(url: str) -> None:
            kept = [] if events is None else events.setdefault(client, [])
            site = participant(made, client, url, folder, progress=kept.append, **options)
            site.run(lambda task, number: vector(client, task, made.form.words))

        return doing

    return [work(client) for client in range(CLIENTS)]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_federation_over_http(guard, tmp_path):
    made, events = federation(tmp_path, guard), {}
    run(made, *works(made, tmp_path, events))
    assert check(made) == [tuple(range(CLIENTS))] * 2
    for told in events.values():
        assert [event.text for event in told if event.kind == "summed"] == [
            "in the sum of round 0",
            "in the sum of round 1",
        ]
        assert told[-1].kind == "over"


def test_whoever_comes_before_the_hub_waits_for_it(tmp_path):
    made, events = federation(tmp_path, "active", rounds=1), {}
    run(made, *works(made, tmp_path, events), early=True)
    assert check(made) == [tuple(range(CLIENTS))]
    assert all([event.kind for event in told][:2] == ["waiting", "away"] for told in events.values())


@pytest.mark.parametrize("guard", GUARDS)
def test_large_vectors_go_in_parts(guard, tmp_path):
    form = {"type": "words", "words": 100_000, "bits": 32}
    made, events = federation(tmp_path, guard, form=form, rounds=1, hub={"part_bytes": 1 << 16}), {}
    run(made, *works(made, tmp_path, events))
    assert check(made) == [tuple(range(CLIENTS))]
    sending = [event.text for event in events[0] if event.kind == "sending"]
    assert len(sending) == 400_000 // (1 << 16)
    assert sending[0].startswith("65,536 of 40")


# TLS


def certify(folder: Path) -> tuple[str, str]:
    """A certificate for the loopback address that is its own authority, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a hub")])
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(loopback, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "hub.pem").write_bytes(made.public_bytes(pem))
    (folder / "hub.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(folder / "hub.pem"), str(folder / "hub.key")


def test_the_certificate_of_a_private_authority_is_trusted_where_it_is_given(tmp_path):
    certificate, key = certify(tmp_path)
    made = federation(tmp_path, "active", rounds=1, hub={"certificate": certificate, "key": key})
    stranger = participant(made, 0, made.origins[0], tmp_path, memory=tmp_path / "stranger")

    def untrusting(url: str) -> None:
        assert url.startswith("https://")
        with pytest.raises(FaultyServer, match="the hub's certificate is not trusted"):
            stranger.run(lambda task, number: None)

    run(made, *works(made, tmp_path, ca=certificate), untrusting)
    assert check(made) == [tuple(range(CLIENTS))]


def test_an_address_without_tls_of_a_hub_that_wants_it_is_refused(tmp_path):
    certificate, key = certify(tmp_path)
    made = federation(tmp_path, "active", rounds=1, hub={"certificate": certificate, "key": key})

    def plain(url: str) -> None:
        site = participant(made, 0, url.replace("https:", "http:"), tmp_path, memory=tmp_path / "plain")
        with pytest.raises(ConfigError, match=f"expects TLS: use {url}"):
            site.run(lambda task, number: None)

    run(made, *works(made, tmp_path, ca=certificate), plain)


def test_a_certificate_that_is_bad_for_a_while_does_not_end_a_site(tmp_path):
    """It is the hub's that was met before, or of a box on the way: nothing is said to whoever has it."""
    refused = FaultyServer("the hub's certificate is not trusted")
    answers = [HubAnswer(status=204), refused, refused, HubAnswer(status=204)]

    def carry(client, call):
        found = answers.pop(0)
        if isinstance(found, FaultyServer):
            raise found
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "carry", carry)
        carrier = driver.Carrier(None, ProcessMemory())
        found = [carrier(Call(method="GET", path="/")) for _ in range(4)]
        assert [one.status for one in found] == [204, 0, 0, 204]
        assert found[1].reason == str(refused)
        answers += [refused]
        with pytest.raises(FaultyServer):
            driver.Carrier(None, ProcessMemory())(Call(method="GET", path="/"))


def test_keys_of_connections_are_written_nowhere(tmp_path, monkeypatch):
    """SSLKEYLOGFILE is for those who look into their own browser; a token can be read with such keys."""
    certificate, key = certify(tmp_path)
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    assert ssl.create_default_context().keylog_filename == str(tmp_path / "keys")
    (tmp_path / "keys").unlink()
    made = federation(tmp_path, "active", rounds=1, hub={"certificate": certificate, "key": key})
    run(made, *works(made, tmp_path, ca=certificate))
    assert check(made) == [tuple(range(CLIENTS))]
    assert driver._trusting(None).keylog_filename is None
    assert not (tmp_path / "keys").exists()


def test_public_authorities_are_those_of_httpx(monkeypatch, tmp_path):
    certificate, _ = certify(tmp_path)
    assert driver._trusting(None).cert_store_stats() == httpx.create_ssl_context().cert_store_stats()
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    assert driver._trusting(None).cert_store_stats() == {"x509": 1, "crl": 0, "x509_ca": 1}


NO_CERTIFICATES = {
    "text": b"none",
    "bytes": bytes(range(256)),
    "no certificate inside": b"-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n",
    "nothing": None,
}


@pytest.mark.parametrize("content", NO_CERTIFICATES.values(), ids=NO_CERTIFICATES)
def test_a_file_without_certificates(tmp_path, content):
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    site = Participant("https://127.0.0.1:1", **WHO, ca=tmp_path / "ca.pem")
    with pytest.raises(ConfigError, match=r"^cannot read certificates from [^ ]*ca\.pem"):
        site.run(lambda task, number: None)


# Addresses


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://hub.example", "https://hub.example"),
        ("https://hub.example/", "https://hub.example"),
        ("https://HUB.example:443", "https://hub.example"),
        ("https://hub.example:8443", "https://hub.example:8443"),
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8470/", "http://[::1]:8470"),
    ],
)
def test_an_address_has_one_spelling(url, origin):
    assert origin_of(url) == origin
    assert origin_of(origin) == origin


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hub.example",
        "ftp://hub.example",
        "https://",
        "https://hub.example/v1",
        "https://hub.example?x",
        "https://hub.example#x",
        "https://user:word@hub.example",
        "https://hub.example:99999",
        "https://[::1",
        "https://h\u00fcb.example",
        "http://hub.example",
        "http://127.0.0.1.evil.example",
        "http://10.0.0.1",
    ],
)
def test_what_is_not_the_address_of_a_hub(url):
    with pytest.raises(ConfigError):
        origin_of(url)


def test_without_tls_to_another_machine_only_if_so_said():
    assert origin_of("http://hub.example", insecure_http=True) == "http://hub.example"


# Answers of others than hubs


@contextmanager
def raw_server(*answers: bytes, endless: bytes = b""):
    """Give each connection the next of these bytes, then an endless stream; keep what came."""
    heard: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            connection, _ = listening.accept()
            with connection:
                heard.append(connection.recv(65536))
                try:
                    connection.sendall(answer)
                    while endless:
                        connection.sendall(endless)
                except OSError:
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        thread.join(5)


def test_an_answer_without_an_end_is_not_read_to_it():
    answering = raw_server(b"HTTP/1.1 200 OK\r\n\r\n", endless=b" " * 65536)
    with answering as (url, _), pytest.raises(FaultyServer, match="at most 1048576 bytes"):
        Participant(url, **WHO).run(lambda task, number: None)


def test_what_is_not_http_counts_as_away():
    answering = raw_server(*[b"SSH-2.0-OpenSSH_9.2\r\n"] * 2)  # it is asked again at once
    with answering as (url, _), pytest.raises(TimeoutError, match="RemoteProtocolError"):
        Participant(url, **WHO, patience=0.1).run(lambda task, number: None)


def test_a_redirect_is_not_followed():
    answer = b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with raw_server(answer) as (url, _), pytest.raises(TimeoutError, match="301: this is not a hub's answer"):
        Participant(url, **WHO, patience=0.1).run(lambda task, number: None)


def test_the_proxy_of_the_environment_is_used(monkeypatch):
    answer = b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n"
    with raw_server(answer) as (proxy, heard):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", "")
        site = Participant("http://hub.example", **WHO, insecure_http=True, patience=0.1)
        with pytest.raises(TimeoutError, match=r"404: .*check the address and the port"):
            site.run(lambda task, number: None)
    assert heard[0].startswith(b"GET http://hub.example/v1/federation?after=0 HTTP/1.1\r\n")
    assert b"accept-encoding: identity\r\n" in heard[0].lower()
    assert b"authorization" not in heard[0].lower()


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "what://proxy.example")
    with pytest.raises(ConfigError, match="the proxies of the environment cannot be used"):
        Participant("https://hub.example", **WHO).run(lambda task, number: None)


def test_without_httpx_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"ccesa join needs httpx: .* pip install '.\[join\]'"):
        Participant("https://hub.example", **WHO).run(lambda task, number: None)


# Memory


def test_a_site_with_a_charter_needs_a_memory():
    with pytest.raises(ConfigError, match="needs a folder for its memory"):
        Participant("https://hub.example", charter=charter(5), identity=identity(0))
    with pytest.raises(ConfigError, match="a charter and an identity go together"):
        Participant("https://hub.example", charter=charter(5))


def test_one_process_at_a_time_has_a_memory(tmp_path):
    def while_running(url: str) -> None:
        site = participant(made, 0, url, tmp_path)
        with pytest.raises(ConfigError, match="another process uses the memory in"):
            site.run(lambda task, number: None)

    made = federation(tmp_path, "active", rounds=1)
    blocking = threading.Barrier(2)

    def first(url: str) -> None:
        def told(event) -> None:
            if event.kind == "joined":
                blocking.wait(20)
                blocking.wait(20)

        participant(made, 0, url, tmp_path, progress=told).run(lambda task, number: vector(0, task))

    def second(url: str) -> None:
        blocking.wait(20)
        while_running(url)
        blocking.wait(20)

    run(made, first, second, *works(made, tmp_path)[1:])
    assert check(made) == [tuple(range(CLIENTS))]
    assert (tmp_path / "memory-0").stat().st_mode & 0o777 == 0o700


def refused_memory(url, folder, identity_file, memory) -> str:
    """Why a site does not begin; it says nothing to anybody."""
    site = Participant(url, charter=charter(CLIENTS, bits=32), identity=identity_file, memory=memory, patience=0)
    with pytest.raises(ConfigError) as refused:
        site.run(lambda task, number: None)
    return str(refused.value)


def test_a_memory_that_is_missing_is_not_made_anew(tmp_path):
    """Otherwise a site sends a second vector for a task; two masked vectors hide less than one."""
    key, memory, events = tmp_path / "site.key", tmp_path / "memory", []
    identity(0).save(key)
    agreed = charter(CLIENTS, bits=32)

    def begin(**options) -> None:
        site = Participant("http://127.0.0.1:1", charter=agreed, identity=key, patience=0, **options)
        with pytest.raises(TimeoutError):
            site.run(lambda task, number: None)

    begin(memory=memory, progress=events.append)
    assert f"a new memory begins in {memory}" in events[0].text
    begin(memory=memory, progress=events.append)
    assert sum("a new memory" in event.text for event in events) == 1
    memory.rename(tmp_path / "elsewhere")
    (tmp_path / "another").mkdir()
    for wrong in (memory, tmp_path / "another"):
        why = refused_memory("http://127.0.0.1:1", tmp_path, key, wrong)
        assert "site.key.used says that the identity was used" in why
    assert not memory.exists()
    begin(memory=tmp_path / "elsewhere")
    (tmp_path / "site.key.used").unlink()  # whoever knows better
    begin(memory=memory)


def test_a_memory_is_swept_while_a_site_runs(tmp_path, monkeypatch):
    """A federation may go on for years in one process."""
    swept = []
    memory = ProcessMemory()
    memory.sweep = swept.append
    monkeypatch.setattr(driver, "carry", lambda client, call: HubAnswer(status=204))
    clock = [0.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: clock[0])
    carrier = driver.Carrier(None, memory)
    for hour in range(80):
        clock[0] = hour * 3600.0 + 1
        carrier(Call(method="GET", path="/"))
    assert len(swept) == 3


# The command

MODULE = """
import numpy as np

def contribute(task, number):
    assert isinstance(task, bytes)
    return np.full(40, number + 1, np.uint32)
"""


def join(folder: Path, url: str, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "ccesa", "join", url, "--run", "mine:contribute", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def files(folder: Path, client: int) -> list[str]:
    """Write charter and identity of a site, and return the options that name them."""
    path = folder / f"site-{client}.key"
    identity(client).save(path)
    (folder / "charter.toml").write_text(str(charter(CLIENTS, bits=32)))
    return ["--charter", "charter.toml", "--identity", path.name]


def test_the_command_takes_part_until_it_is_over(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    made = federation(tmp_path, "active")
    said = {}

    def command(client: int, *options: str):
        def work(url: str) -> None:
            with join(tmp_path, url, *files(tmp_path, client), *options) as process:
                said[client] = (*process.communicate(timeout=60), process.returncode)

        return work

    others = works(made, tmp_path)[3:]
    run(made, command(0, "--json"), command(1, "--once"), command(2, "--quiet"), *others)
    assert {status for _, _, status in said.values()} == {0}, said
    events = [json.loads(line) for line in said[0][0].splitlines()]
    assert [one["round"] for one in events if one["kind"] == "summed"] == [0, 1]
    assert events[-1] == {"kind": "over", "text": "the federation is over"}
    assert "in the sum of round 0" in said[1][1]
    assert "round 1" not in said[1][1]
    assert said[2][:2] == ("", "")
    assert {path.name for path in tmp_path.glob("*.memory")} == {f"site-{i}.key.memory" for i in range(3)}


FORKING = """
import os


def twice(task, number):
    ours = os.fork() > 0
    vector = contribute(task, number)
    return vector if ours else vector + 1
"""


def test_c16_a_site_whose_function_forks_sends_one_vector_and_the_fork_ends(tmp_path):
    """The fork comes back with the same masks, the same identity and another vector."""
    (tmp_path / "mine.py").write_text(MODULE + FORKING)
    made, said = federation(tmp_path, "active"), []

    def command(url: str) -> None:
        with join(tmp_path, url, *files(tmp_path, 0), "--run", "mine:twice", "--json") as process:
            said.extend((*process.communicate(timeout=60), process.returncode))

    run(made, command, *works(made, tmp_path)[1:])
    store = open_store(made.store)
    rows = [row for row in store.rounds(totals=True) if row.outcome == "sum"]
    for row in rows:
        others = sum(vector(client, store.task_of(row.question)) for client in range(1, CLIENTS))
        assert set(np.frombuffer(row.total, np.uint32) - others) == {row.number + 1}
    store.close()
    assert [row.survivors for row in rows] == [tuple(range(CLIENTS))] * 2
    assert said[2] == 0
    assert said[1].count("keys are dropped in this fork") == 2, said[1]
    assert said[1].count("Traceback") == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_is_stopped_by_a_signal(how, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    write_new(tmp_path / "token", "x\n", private=True)
    with join(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}", "--token", "@token") as process:
        assert "the hub is away" in process.stderr.readline()
        process.send_signal(how)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.endswith("ccesa: stopped\n")
    assert "Traceback" not in said


def test_a_token_that_others_can_read_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "token").write_text("x")
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    done = commands.run("join", url, "--run", "mine:contribute", "--token", "@token", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "ccesa: token is secret, and others can use it; if it is yours alone: chmod 600 token\n"


def test_what_could_not_be_done_in_the_end_is_said_before(tmp_path):
    """Nobody counts on a site whose table has other columns, or whose results have no place."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "kept").write_text("precious")
    asked = ["join", f"http://127.0.0.1:{free_ports(1)[0]}", *files(tmp_path, 0)]
    done = commands.run(*asked, "--run", "mine:contribute", "--results", "kept", cwd=tmp_path)
    assert done.stderr == "ccesa: kept already exists and will not be overwritten\n"
    done = commands.run(*asked, "--statistics", "kept", cwd=tmp_path)
    assert done.stderr == "ccesa: this federation asks for no statistics: its charter has no [statistics]\n"


def test_the_function_that_a_command_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("own_site.py").write_text("def contribute(task, number): return task\nplain = 3\n")
    Path("own_broken.py").write_text("def contribute(:\n")
    Path("own_script.py").write_text("raise SystemExit(0)\n")
    Path("own_needy.py").write_text("import never_installed\n")
    assert import_function("own_site:contribute")(b"x", 0) == b"x"
    for name, why in (
        ("own_site", "takes MODULE:FUNCTION"),
        (":contribute", "takes MODULE:FUNCTION"),
        ("own_site:", "takes MODULE:FUNCTION"),
        ("own_site:other", "'own_site' has no function 'other'"),
        ("own_site:plain", "'own_site' has no function 'plain'"),
        ("own_nowhere:contribute", "cannot import 'own_nowhere'"),
        ("own_needy:contribute", "cannot import 'own_needy': No module named 'never_installed'"),
        ("own_broken:contribute", "own_broken.py, line 1"),
        ("own_script:contribute", "'own_script' ends the process when it is imported"),
    ):
        with pytest.raises(ConfigError, match=why):
            import_function(name)
