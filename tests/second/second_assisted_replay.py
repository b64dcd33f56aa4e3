"""The vectors of the guard ``assisted``, replayed by the second implementation's members and helpers."""

import second_assisted as assisted
import second_lists as lists_of
import second_messages as parts
import second_series as series_of
from second import LABELS, Stream, bytes_of, hashed, raw, words_of
from second_hybrid import HYBRID
from second_refusals import Refused


def outcome(action, *arguments):
    """What it gives, or the name of the refusal."""
    try:
        return action(*arguments)
    except Refused as refusal:
        return refusal.error


def compared(name, found, expected):
    if found != expected:
        yield name


def texts(told):
    """Charters, configurations, messages and check words."""
    for case in told["charters"]:
        found = outcome(lambda text: lists_of.charter_digest_of(lists_of.charter(text)), case["text"])
        yield from compared(f"charter {case['name']}", found, raw(case["digest"]))
        found = outcome(lists_of.chartered_configuration, raw(case["config"]), case["text"])
        yield from compared(f"configuration {case['name']}", isinstance(found, dict), True)
        yield from compared(case["name"], hashed(LABELS["context"], raw(case["config"])), raw(case["context"]))
    plain = told["charters"][0]
    for case in told["same"]:
        found = outcome(lambda text: lists_of.charter_digest_of(lists_of.charter(text)), case["text"])
        yield from compared(case["reason"], found, raw(plain["digest"]))
    for case in told["bad_charters"]:
        yield from compared(case["reason"], outcome(lists_of.charter, case["text"]), case["error"])
    for case in told["bad_configurations"]:
        found = outcome(lists_of.chartered_configuration, raw(case["encoding"]), plain["text"])
        yield from compared(case["reason"], found, case["error"])
    for case in told["messages"] + told["bad_messages"]:
        found = outcome(parts.message, raw(case["encoding"]), case["most"])
        yield from compared(str(case)[:200], isinstance(found, str), "error" in case)
    for case in told["check_words"]:
        size = case["length"] * case["bits"] // 8
        vector = words_of(Stream(raw(case["seed"]))(size), case["bits"])
        found = bytes_of(assisted.check_words_of(raw(case["context"]), case, vector), case["bits"])
        yield from compared("check words", found, raw(case["check_words"]))


# Rounds


def rounds(case):
    """Replies by the seeds, requests by the replies, and the outcome."""
    parties = {one["client"]: assisted.joined(party_of(case, one)) for one in case["clients"] + case["helpers"]}
    members = {one["client"] for one in case["clients"]}
    fields = parties[case["helpers"][0]["client"]].fields
    hub = assisted.Hub(fields, raw(case["context"]), raw(case["task"]))
    for step in case["steps"]:
        for each in step["exchanges"]:
            who, name = each["client"], f"{case['name']}: {step['step']} {each['client']}"
            yield from compared(f"{name}, request", hub.request(step["step"], who), raw(each["request"]))
            if each["reply"] is None:
                continue
            found, due = outcome(parties[who].receive, raw(each["request"])), raw(each["reply"])
            anew = fields["agreement"] == HYBRID and who in members  # it encapsulates once more
            yield from compared(name, len(found) if anew else found, len(due) if anew else due)
            hub.receive(who, raw(each.get("delivered", each["reply"])))
    yield from compared(f"{case['name']}: outcome", hub.outcome(), outcome_of(case))


def party_of(case, entry):
    """A member or helper in the form of refused_assisted.json."""
    shared = {name: case[name] for name in ("config", "charter", "now")}
    return shared | ({"task": case["task"]} if "vector" in entry else {"helps": True}) | entry


def outcome_of(case):
    """What came out, as a ``Hub`` has it."""
    found = case["outcome"]
    if "failure" in found:
        return found["failure"], found.get("helpers", [])
    return raw(found["sum"]), found["survivors"], [tuple(pair) for pair in found["accusations"]]


# What is refused


def exchanges(told):
    parties = {party["name"]: party for party in told["parties"]}
    for case in told["exchanges"]:
        yield from tried(parties[case["party"]], case)
    for case in told.get("joining", ()):
        found = outcome(assisted.joined, case)
        yield from compared(case["reason"], found if isinstance(found, str) else None, case.get("error"))


def tried(party, case):
    """One party, asked in order; the reply of a member that encapsulates cannot be compared."""
    found, name = assisted.joined(party), f"{case['party']}: {case['reason']}"
    for each in party["exchanges"][: case["after"]]:
        yield from compared(name, outcome(found.receive, raw(each["request"])), raw(each["reply"]))
    anew = found.fields["agreement"] == HYBRID and not party.get("helps")
    for step in case["steps"]:
        assisted.told(found, step)
        request, wanted = bytes_in(party, step, "request"), step.get("error") or bytes_in(party, step, "reply")
        said = outcome(found.receive, request)
        if anew and "error" not in step:
            said, wanted = len(said), len(wanted)
        yield from compared(name, said, wanted)
        if wanted == "FaultyServer" and not party.get("helps"):
            yield from compared(f"{name}, after it", outcome(found.receive, request), "OrderError")


def bytes_in(party, step, side):
    """A number stands for the bytes of the party's exchange."""
    value = step[side]
    return raw(party["exchanges"][value][side]) if isinstance(value, int) else raw(value)


# A series


def series(told):
    every = {case["name"]: case for case in told["series"]}
    for case in every.values():
        who = [one["client"] for one in case["clients"] + case["helpers"]]
        parties = {one: series_of.joined(case, one, assisted.joined) for one in who}
        for each in (one for exchange in case["exchanges"] for one in exchange["envelopes"]):
            if each["reply"] is not None:
                found = outcome(parties[each["client"]].receive, raw(each["request"]))
                yield from compared(f"{case['name']}: {each['client']}", found, raw(each["reply"]))
    for case in told["refused"]:
        yield from refused_envelopes(every[case["series"]], case)


def refused_envelopes(told, case):
    mine = [one for each in told["exchanges"] for one in each["envelopes"] if one["client"] == case["client"]]
    found = series_of.joined(told, case["client"], assisted.joined)
    for each in mine[: case["after"]]:
        found.receive(raw(each["request"]))
    for step in case["steps"]:
        wanted = step.get("error") or bytes_in({"exchanges": mine}, step, "reply")
        said = outcome(found.receive, bytes_in({"exchanges": mine}, step, "request"))
        yield from compared(f"{case['client']}: {case['reason']}", said, wanted)
