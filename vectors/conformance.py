"""Which checks of docs/protocol.md an implementation does not make, by name.

``python vectors/conformance.py --command COMMAND`` starts an implementation and asks it the refusal vectors.
Each question is one line of JSON, and so is each answer. docs/protocol.md, section 17, says what is in them.
Exits with 1 if a check is missing.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from probes import Case, Files, Probe, load, probes

#: What an implementation says to a question: {"refused": true or false}; None if it has no such part.
Answer = Callable[[Case], Any]

#: Who has to pass a file: a client of ``curious``, one of ``active``, one of a series under ``active``, a member and a
#: helper of ``assisted``, a site, a server. A word in place of "all" names the option without which the file may be
#: left out.
ROLES = ("curious", "active", "series", "member", "helper", "site", "server")
_CHARTERED = ROLES[1:]
_ALONG_A_GRAPH = ("curious", "active", "series", "site", "server")
NEEDED: dict[str, dict[str, str]] = {
    "derivations": dict.fromkeys(ROLES, "all"),
    "masks": dict.fromkeys(ROLES, "all"),
    "sharing": dict.fromkeys(_ALONG_A_GRAPH, "all"),
    "sealing": dict.fromkeys(_ALONG_A_GRAPH[:4], "all"),
    "graphs": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "messages": dict.fromkeys(_ALONG_A_GRAPH, "all"),
    "round": {"curious": "all", "server": "all"},
    "accept_round": {"curious": "all", "server": "all"},
    "refused": dict.fromkeys(_ALONG_A_GRAPH[:4], "all"),
    "refused_accept": dict.fromkeys(_ALONG_A_GRAPH[:4], "all"),
    "identities": dict.fromkeys(_CHARTERED, "all"),
    "signatures": dict.fromkeys(_CHARTERED, "all"),
    "lists": dict.fromkeys(_CHARTERED, "all"),
    "charters": dict.fromkeys(_CHARTERED, "all"),
    "roster": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "active_messages": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "active_round": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "active_accept_round": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "active_refused": dict.fromkeys(_ALONG_A_GRAPH[1:], "all"),
    "refused_active": dict.fromkeys(_ALONG_A_GRAPH[1:4], "all"),
    "series": dict.fromkeys(("series", "site", "server"), "all"),
    "refused_replies": {"server": "all"},
    "hybrid": dict.fromkeys(ROLES, "hybrid"),
    "hybrid_round": dict.fromkeys(_ALONG_A_GRAPH, "hybrid"),
    "hybrid_active_round": dict.fromkeys(_ALONG_A_GRAPH[1:], "hybrid"),
    "service": {"site": "all", "server": "all"},
    "quantizer": dict.fromkeys(("site", "server"), "learning"),
    "noise": dict.fromkeys(("site", "server"), "noise"),
    "statistics": dict.fromkeys(("site", "server"), "statistics"),
    "assisted_messages": {"member": "all", "helper": "all", "site": "helpers", "server": "helpers"},
    "assisted_round": {"member": "all", "helper": "all", "site": "helpers", "server": "helpers"},
    "assisted_series": {"member": "series", "helper": "series", "site": "helpers", "server": "helpers"},
    "assisted_hybrid": {"member": "hybrid", "helper": "hybrid", "site": "helpers, hybrid", "server": "helpers, hybrid"},
    "refused_assisted": {"member": "all", "helper": "all", "site": "helpers", "server": "helpers"},
    "refused_helpers": {"helper": "all", "site": "helpers"},
}
#: Questions for servers alone, and for clients alone.
_SERVERS = ("server", "correct", "mean", "noisy mean", "total")
_CLIENTS = ("client", "series", "joining", "many")


def missing(answer: Answer, asked: Iterable[Probe]) -> dict[str, list[str]]:
    """Return the checks that are not made: by name, the vectors that are not refused as they must be."""
    found: dict[str, list[str]] = {}
    for probe in asked:
        if not _refuses(answer(probe.question), probe.case):
            found.setdefault(probe.case["check"], []).append(f"{probe.file}: {probe.reason}")
    return found


def _refuses(said: Any, case: Case) -> bool:
    """Whether the answer is a refusal; the name of the error counts if both have one."""
    if not isinstance(said, dict) or said.get("refused") is not True:
        return False
    return said.get("error", case.get("error")) == case.get("error", said.get("error"))


def chosen(files: Files, role: str, without: Iterable[str] = ()) -> list[Probe]:
    """Return what this role is asked, without these options."""
    out = {"no", *without}
    wanted = {file for file, roles in NEEDED.items() if out.isdisjoint(roles.get(role, "no").split(", "))}
    return [probe for probe in probes(files) if probe.file in wanted and _concerns(probe.question, role)]


def _concerns(question: Case, role: str) -> bool:
    if role == "curious" and "charter" in {*question, *question.get("party", ())}:
        return False
    if role in ("member", "helper") and (question["kind"] == "hybrid text" or helps(question) is (role == "member")):
        return False
    return question["kind"] not in (_CLIENTS if role == "server" else _SERVERS)


def helps(question: Case) -> bool | None:
    """Whether a helper is asked, and not a client; None if it is asked neither."""
    if question["kind"] == "series":
        return question["client"] in [one["client"] for one in question["series"].get("helpers", ())]
    if question["kind"] in ("client", "joining"):
        return bool(question.get("party", question).get("helps"))
    return None


@contextmanager
def running(command: str) -> Iterator[Answer]:
    """Start an implementation that answers lines with lines."""
    with subprocess.Popen(  # noqa: S603 - what the caller asked for
        shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes to the implementation")
        put, take = process.stdin, process.stdout

        def answer(question: Case) -> Any:
            with suppress(BrokenPipeError):
                put.write(json.dumps(question) + "\n")
                put.flush()
            line = take.readline()
            if not line:
                sys.exit(f"the implementation has ended; it was asked: {str(question)[:200]}")
            return json.loads(line)

        try:
            yield answer
        finally:
            with suppress(BrokenPipeError):
                put.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the checks that an implementation does not make.")
    parser.add_argument("--command", required=True, help="starts the implementation")
    parser.add_argument("--role", choices=ROLES, default="series", help="what it is (default: %(default)s)")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=("helpers", "hybrid", "learning", "noise", "series", "statistics"),
        help="an option that it does not have; may be given several times",
    )
    parser.add_argument("--all", action="store_true", help="print every vector, not the first of each check")
    given = parser.parse_args(arguments)
    asked = chosen(load(), given.role, given.without)
    with running(given.command) as answer:
        found = missing(answer, asked)
    for check in sorted(found):
        shown = found[check] if given.all else found[check][:1]
        print(f"{check} is not made, by {len(found[check])} vectors:", *shown, sep="\n    ")
    checks = {probe.case["check"] for probe in asked}
    print(f"{len(checks) - len(found)} of {len(checks)} checks are made ({len(asked)} vectors)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
