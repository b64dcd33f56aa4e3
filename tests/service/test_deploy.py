"""What deploy/ and its page name exists, and agrees: commands, options, files, ports, limits, metrics."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from unittest.mock import Mock

import click
import httpx
import pytest
import typer
import yaml

import ccesa
from ccesa import cli
from ccesa.cli.app import app
from ccesa.errors import ConfigError, FaultyServer, OrderError
from ccesa.service import Federation
from ccesa.service.http.serving import Limits
from ccesa.service.meters import LOST, MEMBERS, REFUSED, STATES, Meters
from commands import run
from shown_desk import ShownDesk

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
PAGES = [ROOT / "docs" / name for name in ("deploy.md", "service.md")]
UNITS = sorted(DEPLOY.glob("*.service"))
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in [*PAGES, *DEPLOY.iterdir()]}
CONTAINER = TEXTS["Containerfile"]
COMPOSE = yaml.safe_load(TEXTS["compose.yaml"])
ALERTS = yaml.safe_load(TEXTS["alerts.yml"])["groups"][0]["rules"]
FEDERATION = tomllib.loads(TEXTS["federation.toml"])
#: What sites and operators put beside compose.yaml themselves; its first lines say so.
THEIR_OWN = {"charter.toml", "tls"}
#: A port of the hub, as the file has it.
LISTEN, OPERATE = (FEDERATION["hub"][name].rpartition(":")[2] for name in ("listen", "operate"))


def console(text: str) -> list[str]:
    """The commands of a page, as they would be typed."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def container_words(instruction: str) -> list[str]:
    found = re.findall(rf"^{instruction} (\[.*\])$", CONTAINER, re.MULTILINE)
    return json.loads(found[-1])


def commands() -> list[list[str]]:
    """Every call of ccesa, as words, without the word ccesa."""
    found = [line for page in PAGES for line in console(TEXTS[page.name])]
    found += [line for text in TEXTS.values() for line in re.findall(r"`(ccesa [^`]+)`", text)]
    found += [line for unit in UNITS for line in re.findall(r"^ExecStart=(.*)$", TEXTS[unit.name], re.MULTILINE)]
    words = [shlex.split(line, comments=True) for line in found]
    words += [container_words("ENTRYPOINT") + container_words("CMD")]
    words += [["ccesa", *service["command"]] for service in COMPOSE["services"].values() if "command" in service]
    return [
        line[place + 1 :]
        for line in words
        for place, word in enumerate(line)
        if word == "ccesa" or word.endswith("/bin/ccesa")
    ]


def test_every_command_and_option_exists():
    lines = commands()
    assert {line[0] for line in lines} >= {"serve", "join", "plan", "charter", "identity"}
    for line in lines:
        command, words = typer.main.get_command(app), list(line)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, line


def test_every_file_named_exists():
    for text in TEXTS.values():
        for name in re.findall(r"\bdeploy/([\w.-]*\w)", text):
            assert (DEPLOY / name).exists(), name
        for name in re.findall(r"\btests/[\w/]+\.py|\bexamples/\w+\.py", text):
            assert (ROOT / name).exists(), name
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            known = source in COMPOSE["volumes"] or source[2:] in THEIR_OWN or (DEPLOY / source).exists()
            assert known, volume
    assert all(name in TEXTS["compose.yaml"].partition("services:")[0] for name in THEIR_OWN)
    assert all((DEPLOY / name).exists() for name in yaml.safe_load(TEXTS["prometheus.yml"])["rule_files"])
    assert all(
        (ROOT / name).exists()
        for line in re.findall(r"^COPY ([^-].*) \S+$", CONTAINER, re.MULTILINE)
        for name in line.split()
    )


def test_what_runs_in_the_container_is_nobody_and_has_no_build_tools():
    _, last = re.split(r"^FROM .* AS build$", CONTAINER, flags=re.MULTILINE)
    final = last[last.index("\nFROM ") :]
    assert "gcc" in last.partition("\nFROM ")[0]
    assert "apt-get" not in final
    assert " pip " not in final
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", final, re.MULTILINE)
    assert f"http://127.0.0.1:{OPERATE}/healthz" in final
    assert re.search(rf"^EXPOSE {LISTEN} {OPERATE}$", final, re.MULTILINE)
    owner = re.search(r"^USER (\d+)", final, re.MULTILINE)[1]
    assert f"-o {owner} -g {owner} /var/lib/ccesa" in final
    for own in ("spool", "counter"):
        assert FEDERATION["hub"][own].startswith("/var/lib/ccesa/")


def test_compose_opens_the_proxy_and_nothing_else_to_the_outside():
    services = COMPOSE["services"]
    hubs = {name for name in services if name.startswith("hub-")}
    assert len(hubs) == 2
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port == "443:443" if name == "proxy" else port.startswith("127.0.0.1:")
    assert {port.rpartition(":")[2] for name in hubs for port in services[name]["ports"]} == {OPERATE}
    for name in hubs:
        hub = services[name]
        assert hub["read_only"]
        assert hub["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in hub["security_opt"]
        assert f"{name}:/var/lib/ccesa" in hub["volumes"], "each hub has its own spool"
        assert (ROOT / "deploy" / hub["build"]["context"]).resolve() == ROOT
        assert (ROOT / hub["build"]["dockerfile"]).exists()
        assert all(
            "{}:/etc/ccesa/{}:ro".format(f"./{file}", file) in hub["volumes"]
            for file in ("federation.toml", "charter.toml")
        )
    assert {name for name, service in services.items() if "inside" in service["networks"]} == hubs | {"database"}
    assert services["database"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"]
    database = services["database"]["environment"]
    where = f"{database['POSTGRES_USER']}@database/{database['POSTGRES_DB']}"
    assert FEDERATION["hub"]["store"] == f"postgresql://{where}"
    assert database["POSTGRES_PASSWORD"] == services["hub-1"]["environment"]["PGPASSWORD"]


def seconds(name: str) -> int:
    return int(re.search(rf"\b{name} (\d+)s;", TEXTS["nginx.conf"])[1])


def test_the_proxy_passes_on_what_hubs_need_and_limits_the_rest():
    text = TEXTS["nginx.conf"]
    assert set(re.findall(r"server (hub-\d:\d+)", text)) == {f"hub-{one}:{LISTEN}" for one in (1, 2)}
    assert re.search(r"proxy_request_buffering off;.*proxy_buffering off;.*gzip off;", text, re.DOTALL)
    for name in ("proxy_read_timeout", "proxy_send_timeout", "send_timeout"):
        assert seconds(name) > Limits().wait_seconds
    assert seconds("client_header_timeout") <= Limits().header_seconds
    most = int(re.search(r"client_max_body_size (\d+)m;", text)[1]) << 20
    assert FEDERATION["hub"].get("part_bytes", 8 << 20) < most < 2 * (8 << 20)
    [origin] = FEDERATION["hub"]["origins"]
    assert origin == "https://" + re.search(r"server_name (\S+);", text)[1]
    assert re.findall(r"location (\S+) ", text) == ["/v1/", "/"]


def test_prometheus_asks_the_hubs():
    [job] = yaml.safe_load(TEXTS["prometheus.yml"])["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"hub-{one}:{OPERATE}" for one in (1, 2)]
    assert FEDERATION["hub"]["hosts"] == [f"hub-{one}" for one in (1, 2)]  # else it is answered with 421
    assert all(f'job="{job["job_name"]}"' in rule["expr"] for rule in ALERTS if "up{" in rule["expr"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_is_about_something_that_a_hub_counts_and_is_explained(rule):
    meters = Meters()
    meters.follow(lambda: ShownDesk(5).now)
    shown = meters.render("")[0].decode()
    named = re.findall(r"\b(ccesa_\w+)(?:{(\w+)=\"([^\"]*)\"})?", rule["expr"])
    assert named or rule["expr"].startswith("up{")
    for name, label, value in named:
        assert re.search(rf"^# HELP {name} ", shown, re.MULTILINE), name
        tables = {"outcome": ("sum", "lost"), "reason": LOST + REFUSED, "state": STATES + MEMBERS}
        assert not label or value in tables[label]
    assert f"| `{rule['alert']}` |" in TEXTS["deploy.md"]
    assert rule["labels"]["severity"] in ("page", "ticket", "note")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_run_as_nobody_and_reach_nothing_that_they_do_not_need(unit):
    lines = [line for line in TEXTS[unit.name].splitlines() if line and not line.startswith("#")]
    for needed in (
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "LimitCORE=0",
        "CapabilityBoundingSet=",
    ):
        assert needed in lines
    state = next(line for line in lines if line.startswith("StateDirectory="))
    assert state == f"StateDirectory={unit.stem}"
    assert "StateDirectoryMode=0700" in lines


def status_of(error: Exception) -> str:
    """The exit status of a command that ends with this error."""
    app = Mock(side_effect=error)
    return str(cli._run(lambda: app)[0])


def test_a_site_is_not_started_again_where_that_changes_nothing():
    """Two machines with one identity would end each other for ever; a hub that is away comes back."""
    lines = TEXTS["ccesa-site.service"].splitlines()
    [kept_down] = [line.partition("=")[2] for line in lines if line.startswith("RestartPreventExitStatus=")]
    for error in (OrderError("somebody else answers"), ConfigError("a memory that is missing")):
        assert status_of(error) == kept_down
    assert status_of(FaultyServer("the hub has another charter")) != kept_down
    assert int(kept_down) != cli.WENT_WRONG, "a hub that is away"
    assert "Restart=on-failure" in lines
    assert "MemoryMax=50%" in lines


def test_a_site_reads_its_key_where_only_it_can():
    """Newer systemd hands over credentials with an access list, which an identity does not accept."""
    lines = TEXTS["ccesa-site.service"].splitlines()
    assert "LoadCredential=site.key:/etc/ccesa/site.key" in lines
    assert "ExecStartPre=/usr/bin/install -m 0600 %d/site.key %t/ccesa-site/site.key" in lines
    assert "RuntimeDirectoryMode=0700" in lines
    assert any("--identity %t/ccesa-site/site.key" in line for line in lines)


# ---------------------------------------------------------------- the tools that read these files


def tool(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or pytest.skip(f"there is no {name} here")


def passes(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_its_files(tmp_path):
    promtool = tool("promtool")
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(DEPLOY / name, tmp_path)
    passes(promtool, "check", "config", tmp_path / "prometheus.yml")


def test_nginx_reads_its_file(tmp_path):
    nginx, openssl = tool("nginx"), tool("openssl")
    key = [tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem", "-subj", "/CN=hub.example"]
    passes(openssl, "req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", *key)
    text = re.sub(r"hub-\d:", "127.0.0.1:", TEXTS["nginx.conf"]).replace("/etc/nginx/tls", str(tmp_path))
    (tmp_path / "nginx.conf").write_text(text.replace("/run/nginx.pid", str(tmp_path / "pid")), encoding="utf-8")
    passes(nginx, "-t", "-q", "-p", tmp_path, "-c", tmp_path / "nginx.conf")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_reads_its_files(unit, tmp_path):
    analyze = tool("systemd-analyze")
    (tmp_path / unit.name).write_text(TEXTS[unit.name].replace("/opt/ccesa/bin/ccesa", "/bin/true"), encoding="utf-8")
    passes(analyze, "verify", "--man=no", tmp_path / unit.name)


# ---------------------------------------------------------------- thirty hospitals, step by step


def run_ccesa(line: str, folder: Path) -> str:
    words = shlex.split(line.replace("/etc/ccesa", str(folder)), comments=True)
    done = run(*words[1:], cwd=folder)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    """The commands of the page, up to the sites' own, run in a folder; what each printed."""
    folder = tmp_path_factory.mktemp("hospitals")
    others = [ccesa.Member(f"hospital-{one:02}", ccesa.Identity.new().public) for one in range(1, 31) if one != 7]
    here = TEXTS["federation.toml"].replace(FEDERATION["hub"]["store"], "sqlite:///federation.db")
    (folder / "federation.toml").write_text(here, encoding="utf-8")
    said = {}
    for line in console(TEXTS["deploy.md"]):
        if not line.startswith("ccesa ") or line.startswith("ccesa join"):
            continue
        said[line] = run_ccesa(line, folder)
        if line.startswith("ccesa identity new"):
            (folder / "members.txt").write_text(said[line] + "".join(f"{one}\n" for one in others), encoding="utf-8")
    return folder, said


def test_the_commands_of_the_page_run_as_they_stand(hospitals):
    folder, said = hospitals
    assert [line.split()[1] for line in said] == [
        *("identity", "plan", "charter", "charter", "charter", "invite"),
        *("identity", "plan", "charter"),
    ]
    first, second = (ccesa.Charter.load(folder / name) for name in ("charter-2.toml", "charter.toml"))
    assert first.serial == 2
    assert second.serial == 2, "a site's own copy is the newest that it has accepted"
    planned = next(
        printed for line, printed in said.items() if "--replaces" not in line and line.startswith("ccesa plan")
    )
    assert "at least 14 honest" in " ".join(planned.split())
    assert "at least 14 honest sites" in TEXTS["deploy.md"]


def test_the_federation_of_the_page_can_be_run_by_its_hub(hospitals, tmp_path):
    folder, _ = hospitals
    shutil.copy(folder / "charter-2.toml", tmp_path / "charter.toml")
    shutil.copy(DEPLOY / "federation.toml", tmp_path)
    found = Federation.load(tmp_path / "federation.toml")
    assert (found.clients, found.guard, found.form.length(b"")) == (30, "active", 12)
    assert found.origins == ("https://hub.example",)
    assert found.agreement.expires > ccesa.agreement.toml.seconds(date(2099, 1, 1))


def test_the_file_for_one_machine_is_run_as_its_unit_runs_it(hospitals, tmp_path):
    """With SQLite where the unit makes a folder; only the folders and ports are others here."""
    text = TEXTS["one-machine.toml"]
    one = tomllib.loads(text)
    state = re.search(r"^StateDirectory=(\S+)$", TEXTS["ccesa-hub.service"], re.MULTILINE)[1]
    assert one["hub"]["store"] == f"sqlite:////var/lib/{state}/federation.db"
    assert one["hub"]["spool"] == f"/var/lib/{state}/spool"
    assert {name: value for name, value in one.items() if name != "hub"} == {
        name: value for name, value in FEDERATION.items() if name != "hub"
    }
    assert one["hub"]["listen"].endswith(LISTEN)
    assert one["hub"]["operate"].endswith(OPERATE)
    folder, _ = hospitals
    shutil.copy(folder / "charter-2.toml", tmp_path / "charter.toml")
    here = text.replace(f"/var/lib/{state}", str(tmp_path)).replace(f":{LISTEN}", ":0").replace(f":{OPERATE}", ":0")
    (tmp_path / "federation.toml").write_text(here, encoding="utf-8")
    command = [sys.executable, "-u", "-m", "ccesa", "serve", str(tmp_path / "federation.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hub:
        try:
            assert hub.stdout.readline() == "sites: https://hub.example\n"
            page = hub.stdout.readline().split()[1]
            assert httpx.get(f"{page}/readyz").status_code == 204
            assert (tmp_path / "federation.db").stat().st_mode & 0o777 == 0o600
        finally:
            hub.terminate()
            assert hub.wait(20) == 0
