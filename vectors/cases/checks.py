"""Which check of docs/protocol.md a refusal shows, where the second implementation does not make that check.

That implementation is a client. So here are the checks of servers, of a schema, and of a sum.
"""

import re
from typing import Any

from cases.common import Case

#: Any reply of step ``…`` to a server, by the reason that the file gives.
_REPLIES = {
    "of another round": "P1.4",
    "for another client|from another client": "P1.5",
    "from nobody": "P1.1",
    "a trailing byte|a vector with a longer header.*|a vector as text|a byte after the vector": "P1.3",
    "nothing|a request|a reply of .*|the reply of .*": "P1.2",
    "another one than before": "P1.7",
    "of a client that was not asked": "P1.6",
    "a complaint": "P1.2",
    "keys a byte too .*|one key": "S0.1",
    "a (sealing|mask) key .*": "S0.2",
    "one key in both places|after others: a key of another client.*": "S0.3",
    "a commitment of 31 bytes": "S1.1",
    "texts .*": "S1.2",
    "accused (in another order|of one twice|beyond the last client|a byte too short)": "S1a.1",
    "accused of .*": "S1a.2",
    "deposits .*": "S1a.3",
    "a word too .*|a byte too few|no vector|a vector with one wrong bit": "S2.1",
    "a (tag|digest) .*|the tag of .*": "S2.1",
    "a task of 31 bytes|among of 33 bytes|a signature without a vector|a receipt of 63 bytes": "S2.1",
    "a stale task|no task": "S2.2",
    "masked among .*": "S2.3",
    "a complaint of nobody": "S2.4",
    "a complaint .*": "S2.5",
    "shares a byte too short|a share too few": "S3.1",
    "an element outside the field": "S3.2",
    "a key of low order, signed": "S0.2",
    "wrong receipt: .*": "SA2.2",
}
#: A reply under the guard active whose signature is wrong, by its step.
_SIGNED = {"advertise": "SA0.1", "mask": "SA2.1", "confirm": "SA2c.1"}
#: A reply in a round with helpers, by what it is about; what is refused of any reply comes first.
_ANY = {
    "nothing|a request|the reply of another step|a vector, too late|before there are vectors": "P1.2",
    "a trailing byte": "P1.3",
    "of another round": "P1.4",
    "in the name of another": "P1.5",
    "from nobody": "P1.1",
    "from a (member|helper)": "P1.6",
    "another one than before": "P1.7",
}
_HELPED = {
    "key": {
        "keys .*|a (time|signature) of .*": "SB0.1",
        "wrong signature: .*": "SB0.2",
        "a key .*, signed": "SB0.3",
        "a time that .*, signed": "SB0.4",
        "those of the helper before, signed": "SB0.5",
    },
    "mask": {
        "wrong signature: .*": "SB1.2",
        "a one-time key .*, signed": "SB1.3",
        "a (key|tag|signature|vector) .*|a box too few|a ciphertext|no check words|a word too many|the tag .*": "SB1.1",
    },
    "boxes": {
        "a (digest|signature) of .*": "SB2.1",
        "wrong signature: .*": "SB2.2",
        "another answer than before": "SB2.3",
        "other boxes, signed|those of another helper, signed": "SB2.4",
        "half an id, signed|.*refused (in another order|twice|beyond the last), signed": "SB2.5",
        "a member that was not asked about, signed": "SB2.6",
    },
    "sum": {
        "a (tag|signature|vector) .*|no check words, signed|a word too many, signed": "SB3.1",
        "wrong signature: .*": "SB3.2",
    },
}
#: What is wrong with the schemas of statistics.json, one after the other.
_SCHEMAS = (
    *("G1.1",) * 4,
    "G1.2",
    *("G1.3",) * 3,
    *("G1.4",) * 4,
    "G1.5",
    *("G1.6",) * 2,
    "G1.7",
    "G1.6",
    "G1.8",
    "G1.7",
    "G1.1",
    "G1.9",
    "G1.10",
    *("G1.11",) * 2,
    *("G1.12",) * 2,
    *("G1.7",) * 2,
    *("G1.10",) * 3,
    "G1.1",
    *("G1.13",) * 2,
    *("G1.14",) * 5,
    *("G1.15",) * 3,
    *("G1.16",) * 2,
    "G1.7",
    *("G1.17",) * 2,
    *("G1.13",) * 4,
    "G1.14",
    *("G1.18",) * 6,
    "G1.2",
    "G1.19",
)
_NOISY = {
    "without noise": "G1.5",
    "noise that nobody agreed on": "G1.5",
    "noise for clients": "G1.5",
    "another norm": "G3.1",
    "another dimension": "G3.2",
    "fields of other bits": "G3.3",
    "less than a step of the fine grid": "G3.4",
}
_SUMS = {
    "a word too .*": "G4.1",
    "nobody|more than 2\\^20 members": "G4.2",
    "so many members that sums could overflow": "G4.3",
    "a larger digit|a digit below 0": "G4.4",
    "more records than a member has": "G4.5",
    "more values than records": "G4.6",
    "more clipped than there are": "G4.7",
    "a larger total than the bounds allow": "G4.8",
    "too (small|large) squares": "G4.9",
    "(labels|bins) that do not add up": "G4.10",
}
_SEALED = {"SealBroken": "T1.1", "OutsideField": "D1.2"}
_FAILED = {
    "TooFewClients": "L1.1",
    "Disconnected": "L1.2",
    "Unreliable": "L1.3",
    "CorruptShares": "L1.4",
    "CorruptSeeds": "L1.5",
    "HelpersMissing": "L1.6",
    "CorruptSum": "L1.7",
}


def name_by_hand(file: str, case: Case) -> None:
    """Give refusals of this file the names that are known here."""
    for outcome in _outcomes(case):
        outcome["check"] = _FAILED[outcome["failure"]]
    if file in ("refused_replies", "active_refused"):
        for each in case["replies"]:
            each["check"] = _of_reply(*each["reason"].split(": ", 1))
    if file == "refused_assisted":
        for each in case["replies"]:
            about, reason = each["reason"].split(": ", 1)
            each["check"] = _matching({**_ANY, **_HELPED[about]}, reason)
    if file == "statistics":
        _name_statistics(case)
    if file == "sharing":
        _name(case["correct"], lambda each: "D3.1")
    if file == "sealing":
        _name(case["bad"] + case["bad_associated"], lambda each: _SEALED[each["error"]])


def _outcomes(case: Case) -> list[Case]:
    rounds = case.get("rounds", ()) if isinstance(case.get("rounds"), list) else ()
    series = [one for each in case.get("series", ()) for one in each.get("rounds", ())]
    found = [each.get("outcome", {}) for each in (*rounds, *series) if isinstance(each, dict)]
    return [each for each in found if "failure" in each]


def _name(cases: list[Case], check: Any) -> None:
    for each in cases:
        if "error" in each:
            each["check"] = check(each)


def _name_statistics(case: Case) -> None:
    names = iter(_SCHEMAS)
    _name(case["schemas"], lambda each: next(names))
    if next(names, None) is not None:
        raise LookupError("more names than schemas that are refused")
    _name(case["noisy"], lambda each: _NOISY[each["name"]])
    _name(case["sums"], lambda each: _matching(_SUMS, each["name"]))


def _of_reply(step: str, reason: str) -> str:
    if reason.startswith(("wrong signature", "somebody else")):
        return _SIGNED[step]
    return _matching(_REPLIES, reason)


def _matching(names: dict[str, str], reason: str) -> str:
    found = [check for pattern, check in names.items() if re.fullmatch(pattern, reason)]
    if not found:
        raise LookupError(f"no check is known for: {reason}")
    return found[0]
