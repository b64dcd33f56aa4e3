"""The refusal vectors, each as a question to an implementation that needs no other file.

A question has a ``kind`` and what the vector gives; ``docs/protocol.md``, section 17, describes them all.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Case = dict[str, Any]
Files = Mapping[str, Case]

#: Fields of a vector that say what must happen; a question leaves them out.
_OUTCOMES = ("error", "check", "gives", "reason", "name", "operation", "waiting")
#: Lists whose vectors are questions as they are, under a kind.
_PLAIN = {
    ("messages", "bad_messages"): "message",
    ("active_messages", "bad_messages"): "message",
    ("messages", "bad_packed_ids"): "ids",
    ("roster", "bad_sets"): "set",
    ("messages", "bad_configurations"): "configuration",
    ("charters", "bad_charters"): "charter",
    ("lists", "charters"): "charter",
    ("identities", "bad_admission_lists"): "list",
    ("lists", "admission_lists"): "list",
    ("identities", "bad_identity_files"): "identity file",
    ("lists", "identity_files"): "identity file",
    ("signatures", "keys"): "identity key",
    ("signatures", "signatures"): "signature",
    ("identities", "bad_signatures"): "signature",
    ("sharing", "bad_words"): "elements",
    ("sharing", "bad_split"): "split",
    ("sharing", "correct"): "correct",
    ("derivations", "bad_public_keys"): "public key",
    ("roster", "bad_proofs"): "proof",
    ("sealing", "bad"): "sealed text",
    ("sealing", "bad_associated"): "sealed text",
    ("hybrid", "bad_keys"): "ml-kem key",
    ("refused", "joining"): "joining",
    ("assisted_messages", "bad_messages"): "message",
    ("assisted_messages", "bad_charters"): "charter",
    ("refused_assisted", "joining"): "joining",
    ("quantizer", "settings"): "quantizer",
    ("noise", "mechanisms"): "mechanism",
    ("noise", "tables"): "table",
    ("noise", "draws"): "draws",
    ("statistics", "schemas"): "schema",
}
#: Lists whose vectors name an entry of another list, which goes into the question.
_POINTING = {
    ("quantizer", "encoded"): ("quantized", {"settings": "settings"}),
    ("quantizer", "decoded"): ("mean", {"settings": "settings"}),
    ("noise", "encoded"): ("noisy vector", {"mechanism": "mechanisms"}),
    ("noise", "decoded"): ("noisy mean", {"mechanism": "mechanisms"}),
    ("statistics", "counted"): ("counted", {"schema": "schemas"}),
    ("statistics", "noisy"): ("noisy table", {"schema": "schemas", "mechanism": "mechanisms"}),
    ("statistics", "sums"): ("total", {"schema": "schemas", "mechanism": "mechanisms"}),
}
#: Files with parties, and what they are asked.
_TRIED = (
    *("refused", "refused_active", "refused_accept", "hybrid_round"),
    *("refused_assisted", "refused_helpers", "assisted_hybrid"),
)
_ROUNDS = ("round", "accept_round", "active_round", "active_accept_round")


@dataclass(frozen=True)
class Probe:
    """One refusal vector.

    Attributes:
        file: The file that it is in, without ``.json``.
        case: The part of the file that has, or gets, the name of the check.
        reason: What is wrong, in words.
        question: What an implementation is asked.
    """

    file: str
    case: Case
    reason: str
    question: Case


def load() -> dict[str, Case]:
    """Read all vector files, by their names without ``.json``."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))}


def probes(files: Files) -> Iterator[Probe]:
    """Give all refusal vectors of these files, of which some may be missing."""
    for (file, key), kind in _PLAIN.items():
        for case in _refused(files, file, key):
            yield Probe(file, case, _reason(case), {"kind": kind, **_given(case)})
    for (file, key), (kind, pointers) in _POINTING.items():
        for case in _refused(files, file, key):
            found = {name: _pointed(files[file][to], case[name]) for name, to in pointers.items()}
            yield Probe(file, case, _reason(case), {"kind": kind, **_given(case), **found})
    for file in ("charters", "assisted_messages"):
        for case in _refused(files, file, "bad_configurations"):
            text = files[file]["charters"][0]["text"]
            question = {"kind": "chartered configuration", "charter": text, **_given(case)}
            yield Probe(file, case, _reason(case), question)
    for case in _refused(files, "hybrid", "bad_sealing"):
        question = {"kind": "hybrid text", **_given(files["hybrid"]["sealing"][0]), **_given(case)}
        yield Probe("hybrid", case, _reason(case), question)
    yield from _asked(files)
    yield from _answered(files)


def _refused(files: Files, file: str, key: str) -> list[Case]:
    return [case for case in _listed(files, file, key) if "error" in case or key == "bad_proofs"]


def _listed(files: Files, file: str, key: str) -> list[Case]:
    return list(files.get(file, {}).get(key, ()))


def _given(case: Case) -> Case:
    return {name: value for name, value in case.items() if name not in _OUTCOMES}


def _reason(case: Case) -> str:
    return str(case.get("reason") or case.get("name") or case.get("operation") or _given(case))[:120]


def _pointed(entries: list[Case], place: int | None) -> Case | None:
    if place is None:
        return None
    return entries[place].get("schema") or _given(entries[place])


# Clients that are asked


def _asked(files: Files) -> Iterator[Probe]:
    for file in _TRIED:
        parties = {party["name"]: party for party in _listed(files, file, "parties")}
        for case in _listed(files, file, "exchanges"):
            party = parties[case["party"]]
            entry = {name: value for name, value in party.items() if name != "exchanges"}
            yield from _rows(file, case, "client", {"party": entry}, party["exchanges"])
    for case in _listed(files, "refused", "many"):
        party = next(one for one in files["refused"]["parties"] if one["name"] == case["party"])
        question = {"kind": "many", "neighbours": case["neighbours"], "party": party}
        yield Probe("refused", case, _reason(case), question)
    for file in ("series", "assisted_series"):
        every = {case["name"]: case for case in _listed(files, file, "series")}
        for case in _listed(files, file, "refused"):
            told = every[case["series"]]
            mine = [each for one in told["exchanges"] for each in one["envelopes"]]
            mine = [each for each in mine if each["client"] == case["client"]]
            entry = {name: value for name, value in told.items() if name not in ("exchanges", "rounds")}
            yield from _rows(file, case, "series", {"series": entry, "client": case["client"]}, mine)
    for case in _listed(files, "active_refused", "requests"):
        yield _lied_to(files["active_refused"], files["active_round"]["rounds"][0], case)


def _rows(file: str, case: Case, kind: str, who: Case, exchanges: list[Case]) -> Iterator[Probe]:
    """Steps one after the other: each refusal after all that comes before it."""
    asked = [{"request": each["request"]} for each in exchanges[: case["after"]]]
    for step in case["steps"]:
        given = step["request"]
        request = exchanges[given]["request"] if isinstance(given, int) else given
        beside = {name: step[name] for name in ("memory", "now") if name in step}
        asked = [*asked, {"request": request, **beside}]
        if "error" in step:
            yield Probe(file, step, case["reason"], {"kind": kind, **who, "asked": asked})


def _lied_to(told: Case, round: Case, case: Case) -> Probe:
    """A request of the step that the case names, after all those before."""
    before = itertools.takewhile(lambda step: step["step"] != case["step"], round["steps"])
    mine = [
        {"request": each["request"]}
        for step in before
        for each in step["exchanges"]
        if each["client"] == told["client"]
    ]
    (entry,) = (one for one in round["clients"] if one["client"] == told["client"])
    party: Case = {"config": round["config"], "charter": round["charter"], "task": round["task"], **entry}
    question = {"kind": "client", "party": party, "asked": [*mine, {"request": case["request"]}]}
    return Probe("active_refused", case, case["reason"], question)


# Servers that are answered


def _answered(files: Files) -> Iterator[Probe]:
    rounds = {one["name"]: one for file in _ROUNDS for one in _listed(files, file, "rounds")}
    for case in _listed(files, "refused_replies", "replies"):
        own = case["sender"] if case["waiting"] else None
        question = _server(rounds[case["round"]], case, case["sender"], own, case["early"])
        yield Probe("refused_replies", case, case["reason"], question)
    for case in _listed(files, "active_refused", "replies"):
        told = files["active_refused"]
        question = _server(rounds[told["round"]], case, told["client"], told["client"], False)
        yield Probe("active_refused", case, case["reason"], question)
    helped = {one["name"]: one for one in _listed(files, "assisted_round", "rounds")}
    for case in _listed(files, "refused_assisted", "replies"):
        question = _server_with_helpers(helped[case["round"]], case)
        yield Probe("refused_assisted", case, case["reason"], question)


def _server_with_helpers(round: Case, case: Case) -> Case:
    """As many replies as the case says, by step; those with ``ahead`` come after the server has asked helpers."""
    taken, left = list[Case](), case["after"]
    for step in round["steps"]:
        here = [each for each in step["exchanges"][:left] if each["reply"] is not None]
        replies = [{name: each[name] for name in ("client", "reply", "ahead") if name in each} for each in here]
        taken.append({"step": step["step"], "replies": replies})
        if left < len(step["exchanges"]):
            break
        left -= len(step["exchanges"])
    agreed = {name: round[name] for name in ("config", "charter", "task", "now")}
    ahead = step["exchanges"][left].get("ahead", False)
    last = {"ahead": ahead, "sender": case["sender"], "reply": case["reply"]}
    return {"kind": "server", **agreed, "steps": taken, **last}


def _server(round: Case, case: Case, sender: int, own: int | None, early: bool) -> Case:
    """Replies by step, those of this step last; then the one to refuse."""
    taken = []
    for step in round["steps"]:
        here = step["step"] == case["step"]
        replies = [
            {"client": each["client"], "reply": each.get("delivered", each["reply"])}
            for each in step["exchanges"]
            if each["reply"] is not None and (not here or (early and each["client"] != own))
        ]
        taken.append({"step": step["step"], "replies": replies})
        if here:
            break
    agreed: Case = {name: round[name] for name in ("config", "charter", "task") if name in round}
    return {"kind": "server", **agreed, "steps": taken, "sender": sender, "reply": case["reply"]}
