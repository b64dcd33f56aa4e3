"""docs/service.md: its keys, defaults and problems are those of the code, and its examples run."""

import ast
import re
import subprocess
import sys
import threading
from datetime import date
from pathlib import Path

import msgspec
import pytest

import ccesa
from ccesa.service import Arrays, Federation, HubTable, Policy, Words
from ccesa.service.federation import _File
from ccesa.service.problems import KINDS
from ccesa.simulate.enrolment import make_charter
from processes import free_ports

PAGE = (Path(__file__).parent.parent.parent / "docs" / "service.md").read_text(encoding="utf-8")
SITE, HELPER, HUB, COORDINATOR = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[TOML] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
SITES = 5


def told(title: str) -> dict[str, str]:
    """Keys of a table of the page, with the defaults that it states."""
    [table] = re.findall(rf"^\| {re.escape(title)} \| default \|.*?(?=\n\n)", PAGE, re.MULTILINE | re.DOTALL)
    found = {}
    for row in table.splitlines()[2:]:
        keys, defaults, _ = (cell.strip() for cell in row.strip("|").split("|", 2))
        names = re.findall(r"`\[?(\w+)\]?`", keys)
        values = [value.strip() for value in defaults.split(",")]
        found |= dict(zip(names, values if len(values) == len(names) else values * len(names), strict=True))
    return found


def fields(struct: type[msgspec.Struct]) -> dict[str, object]:
    return {field.name: field.default for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(
    ("title", "real"),
    [
        ("key", {name: value for name, value in fields(_File).items() if name not in ("form", "policy", "hub")}),
        ("key of `[form]`", {"type": msgspec.NODEFAULT} | fields(Words) | fields(Arrays)),
        ("key of `[policy]`", fields(Policy)),
        ("key of `[hub]`", fields(HubTable)),
    ],
)
def test_every_key_is_told_with_its_default(title, real):
    real = {name: value for name, value in real.items() if name != "privacy"}  # only in a charter
    stated = told(title)
    assert stated.keys() == real.keys()
    for name, text in stated.items():
        if text in ("", "none", "loopback"):
            assert real[name] in (None, (), msgspec.NODEFAULT), name
        elif text == "true":
            assert real[name] is True
        elif text.startswith("`"):
            assert real[name] == text.strip("`").strip('"'), name
        else:
            assert real[name] == ast.literal_eval(text), name


def test_every_problem_is_told_with_its_status():
    rows = re.findall(r"^\| `([\w-]+)` \| (\d{3}) \|", PAGE, re.MULTILINE)
    assert {name: int(status) for name, status in rows} == {name: status for name, (status, _) in KINDS.items()}


@pytest.fixture
def folder(tmp_path):
    """The folder of a federation with the page's file, on free ports."""
    identities = [ccesa.Identity.new(f"site-{one}") for one in range(SITES)]
    members = ccesa.Admission(ccesa.Member(one.name, one.public) for one in identities)
    planned = ccesa.plan.plan(SITES, dropout=0.01, guard="active", length=12, reliability_bits=1)
    charter = ccesa.plan.charter(planned, members, expires=date(2100, 1, 1))
    (tmp_path / "charter.toml").write_text(str(charter), encoding="utf-8")
    for one in identities:
        one.save(tmp_path / f"{one.name}.key")
    here = re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{free_ports(1)[0]}", TOML)
    (tmp_path / "federation.toml").write_text(re.sub("origins.*", "", here), encoding="utf-8")
    return tmp_path


def test_the_file_shown_is_one(folder):
    (folder / "federation.toml").write_text(TOML, encoding="utf-8")
    found = Federation.load(folder / "federation.toml")
    assert (found.rounds, found.clients, found.origins) == (3, SITES, ("https://hub.example",))


def test_hub_and_sites_shown_run_as_they_stand(folder, capsys, monkeypatch):
    """The hub in a process, the sites in threads; they end with the federation."""
    monkeypatch.chdir(folder)
    hub = subprocess.Popen([sys.executable, "-u", "-c", HUB], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        found = re.search(r"sites: (http://\S+), page: http://", hub.stdout.readline())
        sites = [
            threading.Thread(
                target=exec, args=(SITE.replace('"site.', f'"site-{one}.'), {"url": found[1]}), daemon=True
            )
            for one in range(SITES)
        ]
        for site in sites:
            site.start()
        for site in sites:
            site.join(90)
        assert not any(site.is_alive() for site in sites)
        assert hub.wait(30) == 0
    finally:
        hub.kill()
        hub.communicate()
    asked = capsys.readouterr().out
    for question in range(3):
        assert asked.count(f"asked for how many patients came in each month#{question} ") >= 3


def test_the_helper_shown_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    helper, ran = ccesa.Identity.new("uni"), []
    helper.save("helper.key")
    charter = make_charter([ccesa.Identity.new() for _ in range(3)], helpers=[helper, ccesa.Identity.new()])
    (tmp_path / "charter.toml").write_text(str(charter), encoding="utf-8")
    monkeypatch.setattr(ccesa.service.Assistant, "run", lambda self: ran.append(self))
    exec(HELPER, {"url": "https://hub.example"})  # noqa: S102 - our own words
    assert len(ran) == 1


def test_the_coordinator_shown_is_one():
    names = {"np": __import__("numpy")}
    exec(COORDINATOR, names)  # noqa: S102 - our own words
    made = names["Training"]()
    mean = ccesa.values.quantize.Mean(arrays={name: value + 1 for name, value in made.task(0).items()}, weight=5.0)
    assert made.result(ccesa.service.Result(question=0, value=mean, survivors=(0, 1))) == {"norm": 640**0.5}
