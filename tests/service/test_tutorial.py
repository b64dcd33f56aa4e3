"""The federations of the tutorial, as processes, with the commands and the output of its pages."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import commands
from followed import BLOCK, COMMAND, fits, follow
from processes import free_ports

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
#: How many sites a page starts, and how the page's command becomes that of one of them.
SITES = {
    "between-machines": (3, lambda line, i: line.replace("client-0", f"client-{i}")),
    "three-laptops": (3, lambda line, i: line.replace("north", ("north", "south", "west")[i])),
    "thirty-hospitals": (27, lambda line, i: line.replace("$i", f"{i + 1:02}")),
}


def shown(page: Path) -> dict[str, tuple[str, str]]:
    """The commands of a page by their first words, each with what is shown after it."""
    blocks = [text for kind, _, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == "console"]
    found = {}
    for line, expected in COMMAND.findall("".join(blocks)):
        if called := re.search(r"ccesa (\w+) .*?(?= & done|$)", line):
            found[called[1]] = (called[0], expected)
    return found


@pytest.mark.service
@pytest.mark.parametrize("name", SITES)
def test_a_federation_of_the_tutorial_ends_as_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(TUTORIAL / f"{name}.md")
    public, operator = free_ports(2)
    with Path("federation.toml").open("a", encoding="utf-8") as file:
        file.write(f'[hub]\nlisten = "127.0.0.1:{public}"\noperate = "127.0.0.1:{operator}"\n')
    lines, (sites, command_of) = shown(TUTORIAL / f"{name}.md"), SITES[name]
    join, said = lines["join"]
    calls = [(lines["serve"][0], 0), *((command_of(join, i), i + 1) for i in range(sites))]
    running = [started(call.replace("8470", str(public)), site) for call, site in calls]
    try:
        outputs = [one.communicate(timeout=300)[0] for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0] * len(running), outputs
    assert not said or fits(outputs[1].partition("waiting")[1] + outputs[1].partition("waiting")[2], said)
    assert not [path for folder in Path().glob("*.keys") for path in folder.iterdir()], "keys of rounds that are over"
    for command in ("results", "audit"):
        if command in lines:
            call, expected = lines[command]
            printed = re.sub(r"(?<=head: )\w+", "", commands.run(*shlex.split(call)[1:]).stdout)
            assert fits(printed, re.sub(r"(?<=head: )\w+", "", expected)), printed


def started(call: str, site: int) -> subprocess.Popen:
    command = [commands.FRESH[0], *shlex.split(call)[1:]]
    environment = os.environ | {"SITE": str(site)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
