"""A real federation on the loopback address: a SuperLink, SuperNodes, and an app to run on them."""

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ccesa.agreement.charter import Learning
from ccesa.agreement.identity import Identity
from ccesa.simulate.enrolment import make_charter

BIN = Path(sys.executable).parent
LENGTH = 200
#: What a handful of sites can be promised.
PROMISE = ["--dropout", "0.02", "--reliability-bits", "3"]

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "secure-app"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "ccesa"

[tool.flwr.app.components]
serverapp = "secure_app.server:app"
clientapp = "secure_app.client:app"

[tool.flwr.app.config]
nodes = 4
rounds = 2
folder = ""
charter = ""
"""

SERVER = """\
import json
import logging
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from ccesa import Charter
from ccesa.flower import SecureGrid

app = ServerApp()
said, seconds = [], []


class Timed(SecureGrid):
    def send_and_receive(self, messages, *, timeout=None):
        messages, began = list(messages), time.monotonic()
        replies = super().send_and_receive(messages, timeout=timeout)
        if messages:
            seconds.append(time.monotonic() - began)
        return replies


class Keep(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


@app.main()
def main(grid, context):
    logging.getLogger("flwr").addHandler(Keep())
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.5)
    settings = {"dropout": 0.2, "max_weight": 64}
    if config["charter"]:
        settings = {"charter": Charter.load(config["charter"])}
    result = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3).start(
        grid=Timed(grid, **settings),
        initial_arrays=ArrayRecord({"w": Array(np.zeros(LENGTH, np.float32))}),
        num_rounds=config["rounds"],
    )
    metrics = {key: dict(value) for key, value in result.train_metrics_clientapp.items()}
    found = {"w": result.arrays["w"].numpy().tolist(), "metrics": metrics, "said": said, "seconds": seconds}
    (Path(config["folder"]) / "results.json").write_text(json.dumps(found))
""".replace("LENGTH", str(LENGTH))

#: A site with a file ``hang-N-step`` says that it got there, and never comes back.
CLIENT = """\
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ccesa.flower import secure_mod

def hang(message, context, call_next):
    site, folder = context.node_config["site"], Path(context.run_config["folder"])
    step = message.content["ccesa"]["step"]
    if (folder / f"hang-{site}-{step}").exists():
        (folder / f"there-{site}").touch()
        time.sleep(3600)
    return call_next(message, context)


app = ClientApp(mods=[hang, secure_mod])


@app.train()
def train(message, context):
    site = context.node_config["site"]
    model = message.content["arrays"]["w"].numpy()
    change = np.random.default_rng(site).uniform(-1.0, 1.0, model.size).astype(np.float32)
    metrics = MetricRecord({"num-examples": 10 + site, "site": float(site)})
    arrays = ArrayRecord({"w": Array(model + change)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
"""


@dataclass
class Federation:
    """Processes of one federation, all ended by ``stop``; their output is in ``folder``."""

    folder: Path
    nodes: int
    tls: bool
    active: bool = False
    #: Nodes that only help, after the others. With them site 0 helps, too.
    helpers: int = 0
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self) -> None:
        self._write_app()
        self._enrol()
        port = free_port()
        link = ["flower-superlink", "--port", str(port), "--disable-runtime-dependency-installation"]
        if self.tls:
            make_certificates(self.folder)
            link += ["--ssl-certfile", self._path("server.pem"), "--ssl-keyfile", self._path("server.key")]
            link += ["--ssl-ca-certfile", self._path("ca.pem")]
        security = ["--root-certificates", self._path("ca.pem")] if self.tls else ["--insecure"]
        self._launch("superlink", [*link, *([] if self.tls else ["--insecure"])])
        wait_for_port(port)
        for site in range(self.nodes + self.helpers):
            node = ["flower-supernode", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port())]
            config = f"site={site} {self._identity(site)}"
            self._launch(f"supernode-{site}", [*node, *security, "--node-config", config])
        trust = f'root-certificates = "{self._path("ca.pem")}"' if self.tls else "insecure = true"
        connection = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\n{trust}\n'
        (self.folder / "home" / "config.toml").write_text(connection)

    def submit(self, rounds: int) -> None:
        settings = f'nodes={self.nodes + self.helpers} rounds={rounds} folder="{self.folder}"'
        if self.active or self.helpers:
            settings += f' charter="{self._path("charter.toml")}"'
        command = ["flwr", "run", self._path("app"), "here", "--run-config", settings]
        done = subprocess.run(
            [BIN / command[0], *command[1:]],
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"flwr run failed: {done.stdout}{done.stderr}{self.output()}")

    def wait_for(self, name: str, seconds: float) -> Path:
        """A file that a process of the federation writes."""
        ends = time.monotonic() + seconds
        while not (self.folder / name).exists():
            if time.monotonic() > ends:
                raise TimeoutError(f"no {name} after {seconds:g} s\n{self.output()}")
            time.sleep(0.2)
        return self.folder / name

    def results(self, seconds: float) -> dict:
        path = self.wait_for("results.json", seconds)
        time.sleep(0.5)  # it is written in one go, right after it is made
        return json.loads(path.read_text())

    def kill(self, name: str) -> None:
        """As if the power had failed: the process and all that it started."""
        process = self.processes.pop(name)
        for pid in [*descendants(process.pid), process.pid]:
            kill(pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        every = {name: descendants(process.pid) for name, process in self.processes.items()}
        for process in self.processes.values():
            process.terminate()
        for name, process in self.processes.items():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pid in every[name]:
                kill(pid, signal.SIGKILL)
        self.processes.clear()

    def output(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text()[-4000:]}" for path in logs)

    def _enrol(self) -> None:
        """As sites do it: each makes its key by the command line, and the printed lines are the members."""
        if self.helpers:
            self._name_helpers()
        if not self.active:
            return
        keys = [["identity", "new", self._path(f"{n}.key"), "--name", f"site-{n}"] for n in range(self.nodes)]
        (self.folder / "admitted.txt").write_text("".join(map(self._ccesa, keys)))
        charter = self.folder / "charter.toml"
        named = ["--members", self._path("admitted.txt"), "--charter", str(charter), "--learning"]
        self._ccesa(["plan", "--guard", "active", *named, *PROMISE])
        filled = charter.read_text().replace("metrics = []", 'metrics = ["site"]')
        charter.write_text(filled.replace("max_weight = 65536.0", "max_weight = 64.0"))

    def _name_helpers(self) -> None:
        identities = [Identity.new() for _ in range(self.nodes + self.helpers)]
        for place, one in enumerate(identities):
            one.save(self.folder / f"{place}.key")
        members, helpers = identities[: self.nodes], [*identities[self.nodes :], identities[0]]
        learning = Learning(metrics=("site",), max_weight=64.0)
        charter = make_charter(members, helpers=helpers, bits=64, learning=learning, colluders=1)
        (self.folder / "charter.toml").write_text(str(charter))

    def _ccesa(self, command: list[str]) -> str:
        done = subprocess.run([BIN / "ccesa", *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ccesa {command[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _identity(self, site: int) -> str:
        if not (self.active or self.helpers):
            return ""
        files = f'ccesa-identity="{self._path(f"{site}.key")}" ccesa-charter="{self._path("charter.toml")}"'
        return files + f' ccesa-memory="{self._path(f"memory-{site}")}"' * bool(self.helpers)

    def _write_app(self) -> None:
        package = self.folder / "app" / "secure_app"
        package.mkdir(parents=True)
        (self.folder / "home").mkdir()
        (self.folder / "app" / "pyproject.toml").write_text(PROJECT)
        for name, text in (("__init__", ""), ("server", SERVER), ("client", CLIENT)):
            (package / f"{name}.py").write_text(text)

    def _launch(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / command[0], *command[1:]],
                env=self._environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        return {
            **os.environ,
            "PATH": path,
            "FLWR_HOME": self._path("home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    def _path(self, name: str) -> str:
        return str(self.folder / name)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for_port(port: int, seconds: float = 120.0) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port}")


def descendants(pid: int) -> list[int]:
    """Ids of all processes that this one has started, as far as they are known to the system."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(folder.name)] = int(fields[1])
    found, fresh = [], {pid}
    while fresh:
        fresh = {one for one, parent in parents.items() if parent in fresh}
        found += sorted(fresh)
    return found


def kill(pid: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


def make_certificates(folder: Path) -> None:
    """An authority of our own, and a certificate for the loopback address."""
    now = datetime.datetime.now(datetime.UTC)
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def certify(name: str, key, issuer: str) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    ours = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    root = (
        certify("test authority", authority, "test authority")
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(ours, critical=False)
        .sign(authority, hashes.SHA256())
    )
    loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = (
        certify("127.0.0.1", server, "test authority")
        .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ours), critical=False)
        .sign(authority, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        server.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
