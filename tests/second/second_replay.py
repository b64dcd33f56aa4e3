"""All vectors of what is read and refused, replayed by the second implementation's client.

``differences`` gives what does not come out as the files say; ``mutants.py`` asks for the first of them.
"""

import functools
import json
import math
from pathlib import Path

import second_assisted_replay as assisted
import second_client as client
import second_config as config
import second_hybrid as hybrid_of
import second_lists as lists_of
import second_messages as parts
import second_noise as noise
import second_quantizer as quantizer
import second_series as series_of
from second import framed, hashed, raw
from second_refusals import Refused

#: Fields of a vector that say what comes out.
OUTCOMES = ("gives", "error", "check")
VECTORS = Path(__file__).resolve().parents[2] / "vectors"


@functools.cache
def loaded(file):
    return json.loads((VECTORS / f"{file}.json").read_text())


def outcome(action, *arguments):
    """What it gives, or the name of the refusal."""
    try:
        return action(*arguments)
    except Refused as refusal:
        return refusal.error


def compared(name, found, expected):
    if found != expected:
        yield name


def refused(name, case, action, *arguments):
    """A case with an error must be refused by that name, any other must not be refused."""
    found = outcome(action, *arguments)
    if isinstance(found, str) or "error" in case:
        yield from compared(f"{name}: {case}"[:200], found, case.get("error"))


def differences(sections):
    """Of the named sections, one after the other."""
    for section in sections:
        yield from SECTIONS[section]()


def messages():
    for file in ("messages", "active_messages"):
        for case in loaded(file)["messages"] + loaded(file)["bad_messages"]:
            yield from refused("message", case, parts.message, raw(case["encoding"]), case["most"])
    for case in loaded("messages")["packed_ids"] + loaded("messages")["bad_packed_ids"]:
        yield from refused("ids", case, parts.ids_of, raw(case["data"]), case["clients"])
    for case in loaded("roster")["sets"] + loaded("roster")["bad_sets"]:
        yield from refused("set", case, parts.set_of, raw(case["data"]), case["clients"])


def configurations():
    for case in loaded("messages")["configurations"] + loaded("messages")["bad_configurations"]:
        data = raw(case["encoding"]) + bytes(case.get("append_zeros", 0))
        yield from refused("configuration", case, config.configuration, data)
        if "fields" in case:
            fields = {name: raw(v) if name in BYTES else v for name, v in case["fields"].items()}
            wanted = "ConfigError" if "error" in case else None
            yield from compared(f"fields of {case}"[:200], outcome(config.check_configuration, fields), wanted)
    plain = loaded("charters")["charters"][0]["text"]
    for case in loaded("charters")["bad_configurations"]:
        found = lists_of.chartered_configuration, raw(case["encoding"]), plain
        yield from refused("chartered configuration", case, *found)


BYTES = {"series_id", "charter"}


def lists():
    for case in loaded("identities")["admission_lists"] + loaded("lists")["admission_lists"]:
        members = [(one["name"], raw(one["public"]), one["comment"]) for one in case.get("members", ())]
        yield from compared(case["name"], outcome(lists_of.admitted, case["text"]), case.get("error", members))
    for case in loaded("identities")["bad_admission_lists"]:
        yield from refused("list", case, lists_of.admitted, case["text"])
    for case in loaded("identities")["identities"] + loaded("identities")["bad_identity_files"]:
        yield from refused("identity", case, lists_of.identity_file, case["file"])
    for case in loaded("lists")["identity_files"]:
        wanted = case["error"] if "error" in case else (raw(case["seed"]), case["holder"])
        yield from compared(case["name"], outcome(lists_of.identity_file, case["text"]), wanted)


def signatures():
    for case in loaded("signatures")["keys"]:
        yield from refused("key", case, lists_of.check_identity_key, raw(case["public"]))
    for file, key in (*(("signatures", "signatures"), ("identities", "signatures")), ("identities", "bad_signatures")):
        for case in loaded(file)[key]:
            given = (raw(case[name]) for name in ("public", "signature", "text"))
            yield from refused("signature", case, lists_of.check_signature, *given)


def charters():
    for case in loaded("lists")["charters"] + loaded("charters")["charters"]:
        found = outcome(lambda text: lists_of.charter_digest_of(lists_of.charter(text)).hex(), case["text"])
        yield from compared(f"charter {case['name']}", found, case.get("error") or case["digest"])
    for case in loaded("charters")["bad_charters"] + loaded("charters")["same"]:
        yield from refused("charter", case, lists_of.charter, case["text"])


def sharing():
    for case in loaded("sharing")["words"] + loaded("sharing")["bad_words"]:
        yield from refused("words", case, parts.elements, raw(case["data"]))
    for case in loaded("sharing")["split"]:
        yield from refused("split", case, parts.check_split, case["threshold"], case["holders"])
    for case in loaded("sharing")["bad_split"]:
        yield from refused("split", case, parts.check_split, case["threshold"], case["holders"])
    for case in loaded("derivations")["bad_public_keys"]:
        yield from refused("public key", case, parts.check_public_key, raw(case["public"]))


def trees():
    for case in loaded("roster")["trees"]:
        leaves = [raw(leaf) for leaf in case["leaves"]]
        for each in case["proofs"]:
            shown = [leaves[place] for place in each["places"]]
            found = outcome(parts.proven_top, len(leaves), each["places"], shown, raw(each["proof"]))
            yield from compared(case["name"], found, raw(case["top"]))
    for case in loaded("roster")["bad_proofs"]:
        leaves = [raw(leaf) for leaf in case["leaves"]]
        found = outcome(parts.proven_top, case["size"], case["places"], leaves, raw(case["proof"]))
        yield from compared(case["reason"], found == raw(case["top"]), False)


def party_of(case, entry):
    """A client of round.json or active_round.json in the form of refused.json."""
    return {name: case[name] for name in ("config", "charter", "task") if name in case} | entry


def rounds():
    for file in ("round", "active_round", "accept_round", "active_accept_round"):
        for case in loaded(file)["rounds"]:
            parties = {one["client"]: client.joined(party_of(case, one)) for one in case["clients"]}
            for step in case["steps"]:
                for each in step["exchanges"]:
                    if each["reply"] is not None:
                        found = outcome(parties[each["client"]].receive, raw(each["request"]))
                        yield from compared(f"{case['name']} {step['step']}", found, raw(each["reply"]))


def active_refused():
    case, told = loaded("active_round")["rounds"][0], loaded("active_refused")
    names = [step["step"] for step in case["steps"]]
    for each in told["requests"] + told["complaints"]:
        before = names.index(each["step"]) if each.get("step") in names else len(names)
        before = names.index("mask") if "step" not in each else before
        party = client.joined(party_of(case, case["clients"][told["client"]]))
        for step in case["steps"][:before]:
            mine = next(one for one in step["exchanges"] if one["client"] == told["client"])
            party.receive(raw(mine["request"]))
        wanted = each["error"] if "error" in each else raw(each["reply"])
        yield from compared(each["reason"], outcome(party.receive, raw(each["request"])), wanted)


def bytes_in(party, value, side):
    """Bytes of a step in refused.json: a number stands for those of the party's exchange."""
    return raw(party["exchanges"][value][side]) if isinstance(value, int) else raw(value)


def exchanges():
    for file in ("refused", "refused_active", "refused_accept"):
        yield from exchanges_in(loaded(file))


def exchanges_in(told):
    parties = {party["name"]: party for party in told["parties"]}
    for case in told["exchanges"]:
        party = parties[case["party"]]
        found = client.joined(party)
        for each in party["exchanges"][: case["after"]]:
            yield from compared(case["reason"], outcome(found.receive, raw(each["request"])), raw(each["reply"]))
        for step in case["steps"]:
            if "memory" in step:
                found.memory = client.remembered(step["memory"])
            request = bytes_in(party, step["request"], "request")
            wanted = step["error"] if "error" in step else bytes_in(party, step["reply"], "reply")
            name = f"{case['party']}: {case['reason']}"
            yield from compared(name, outcome(found.receive, request), wanted)
            if wanted == "FaultyServer":
                yield from compared(f"{name}, after it", outcome(found.receive, request), "OrderError")


def series():
    every = {case["name"]: case for case in loaded("series")["series"]}
    for case in every.values():
        parties = [series_of.joined(case, one["client"], client.joined) for one in case["clients"]]
        for exchange in case["exchanges"]:
            for each in exchange["envelopes"]:
                if each["reply"] is not None:
                    found = outcome(parties[each["client"]].receive, raw(each["request"]))
                    yield from compared(case["name"], found, raw(each["reply"]))
    for case in loaded("series")["refused"]:
        yield from refused_envelopes(every[case["series"]], case)


def refused_envelopes(told, case):
    mine = [one for each in told["exchanges"] for one in each["envelopes"] if one["client"] == case["client"]]
    party = {"exchanges": mine}
    yield from asked_after(series_of.joined(told, case["client"], client.joined), party, case)


def asked_after(found, party, case):
    """Whoever has answered so far, and what it is asked then."""
    for each in party["exchanges"][: case["after"]]:
        found.receive(raw(each["request"]))
    for step in case["steps"]:
        wanted = step["error"] if "error" in step else bytes_in(party, step["reply"], "reply")
        request = bytes_in(party, step["request"], "request")
        yield from compared(case["reason"], outcome(found.receive, request), wanted)


def service():
    """Texts of sessions and digests of tasks, by service.md."""
    for case in loaded("service")["sessions"]:
        given = raw(case["charter"]), case["origin"].encode(), raw(case["challenge"])
        text = framed(b"ccesa-service-1 session", *given)
        yield from compared(f"session: {case['name']}", text, raw(case["text"]))
        signed = raw(case["public"]), raw(case["signature"]), text
        yield from refused("session", case, lists_of.check_signature, *signed)
    for case in loaded("service")["tasks"]:
        digest = hashed(b"ccesa-service-1 task", raw(case["payload"]))
        yield from compared(f"task: {case['name']}", digest, raw(case["digest"]))


def hybrid():
    told = loaded("hybrid")
    for case in told["kem"]:
        seed = raw(case["seed"])
        found = hybrid_of.kem_public(seed), hybrid_of.decapsulated(seed, raw(case["ciphertext"]))
        yield from compared("kem", found, (raw(case["public"]), raw(case["secret"])))
    for case in told["bad_keys"]:
        yield from refused("key of ML-KEM", case, hybrid_of.check_kem_key, raw(case["public"]))
    for case in told["sealing"]:
        seed = derived_seed(case["mask_secret"], case["context"], case["sender"], case["recipient"])
        yield from compared("seed", seed, raw(case["seed"]))
        yield from compared("text", opened_by(case), (raw(case["shares"]), raw(case["seed"])))
    for case in told["bad_sealing"]:
        found = outcome(opened_by, {**told["sealing"][0], **case})
        yield from compared(case["reason"], found, case["error"])
    for case in told["deposits"]:
        given = raw(case["mask_secret"]), raw(case["seed"]), raw(case["context"])
        found = hybrid_of.deposit(*given, case["client"], case["other"])
        yield from compared("deposit", found, raw(case["deposit"]))
    for case in told["pair_secrets"]:
        yield from paired(case)


def opened_by(case):
    both = raw(case["sender_keys"]), raw(case["recipient_keys"])
    ends = case["sender"], case["recipient"], *both, case["masked"], raw(case["commitment"])
    private, seed = raw(case["recipient_private"]), raw(case["recipient_seed"])
    return hybrid_of.opened(private, seed, raw(case["context"]), ends, raw(case["sealed"]))


def derived_seed(secret, context, giver, receiver):
    return hybrid_of.pair_seed(raw(secret), raw(context), giver, receiver)


def paired(case):
    pair, context = (case["client"], case["other"]), case["context"]
    for place, secret in enumerate(case["mask_secrets"]):
        seed = derived_seed(secret, context, pair[place], pair[1 - place])
        yield from compared("seed of a pair", seed, raw(case["seeds"][place]))
    ends = list(zip(pair, map(raw, case["mask_keys"]), map(raw, case["seeds"]), strict=True))
    found = hybrid_of.pair_secret(raw(case["agreed"]), raw(context), ends)
    yield from compared("pair secret", found, raw(case["pair_secret"]))


def without_texts(reply):
    """Of a share-reply: how many bytes it has, and what comes before the first ciphertext."""
    place = reply.index(b"share-reply") + 11 + 34
    return len(reply), reply[:place]


def hybrid_rounds():
    """Whoever shares encapsulates anew; everything but those texts comes out the same."""
    for file in ("hybrid_round", "hybrid_active_round"):
        for case in loaded(file)["rounds"]:
            parties = {one["client"]: client.joined(party_of(case, one)) for one in case["clients"]}
            for step in case["steps"]:
                for each in step["exchanges"]:
                    if each["reply"] is not None:
                        found = outcome(parties[each["client"]].receive, raw(each["request"]))
                        due = raw(each["reply"])
                        if step["step"] == "share":
                            found, due = without_texts(found), without_texts(due)
                        yield from compared(f"{case['name']} {step['step']}", found, due)
    told = loaded("hybrid_round")
    (party,) = told["parties"]
    for case in told["exchanges"]:
        yield from asked_after(client.joined(party), party, case)


def joining():
    for case in loaded("refused")["joining"]:
        yield from refused("joining", case, client.joined, case)


def many():
    parties = {party["name"]: party for party in loaded("refused")["parties"]}
    for case in loaded("refused")["many"]:
        found, request = many_asked(parties[case["party"]], case["neighbours"])
        yield from compared("many", outcome(found.receive, request), case["error"])


def many_asked(party, count):
    """A client after step 0, and a request with so many neighbours."""
    found = client.joined(party)
    found.receive(raw(party["exchanges"][0]["request"]))
    keys = b"".join(k.to_bytes(32, "little") for k in range(2**64, 2**64 + 2 * count))
    ids = b"".join(k.to_bytes(4, "little") for k in range(count))
    return found, client.packed(["share-request", found.context, found.client, ids, keys, b"\x01" * count])


def quantizers():
    told = loaded("quantizer")
    made = []
    for case in told["settings"]:
        settings = {name: value for name, value in case.items() if name not in OUTCOMES}
        found = outcome(lambda settings=settings: quantizer.Quantizer(**settings))
        made.append(found)
        gives = found if isinstance(found, str) else found.gives()
        yield from compared(f"settings {case}", gives, case.get("error") or case["gives"])
    for case in told["encoded"]:
        given = case["arrays"], quantizer.number(case["weight"]), case.get("draws")
        wanted = case["error"] if "error" in case else raw(case["words"])
        yield from compared(case["name"], outcome(made[case["settings"]].encode, *given), wanted)
    for case in told["decoded"]:
        found = outcome(made[case["settings"]].decode, raw(case["sum"]))
        if isinstance(found, str) or "error" in case:
            yield from compared(case["name"], found, case.get("error"))
            continue
        means, weight = found
        told_means = [value for array in case["mean"] for value in quantizer.leaves(array)]
        close = [math.isclose(one, other, rel_tol=1e-12) for one, other in zip(means, told_means, strict=True)]
        yield from compared(case["name"], (all(close), weight), (True, case["weight"]))


def noises():
    """Refusals first: they are what a mutant lacks."""
    told = loaded("noise")
    made = []
    for case in told["mechanisms"]:
        fields = {name: value for name, value in case.items() if name not in OUTCOMES}
        found = outcome(lambda fields=fields: noise.Mechanism(fields))
        made.append(found)
        digest = found if isinstance(found, str) else found.digest().hex()
        yield from compared(f"mechanism {case}", digest, case.get("error") or case["gives"]["digest"])
    parts = ("tables", "draws", "encoded", "decoded")
    every = [(part, case) for part in parts for case in told[part]]
    for part, case in sorted(every, key=lambda one: "error" not in one[1]):
        found, wanted = _NOISE[part](made, case)
        yield from compared(f"{part} {case}", found, case.get("error", wanted))


def _noise_table(made, case):
    given = case["variance"], case["grid_bits"]
    if "error" in case:
        return outcome(noise.check_table, *given), None
    rows = [[one.to_bytes(16, "little").hex() for one in noise.row_of(*given, row["phase"])[1]] for row in case["rows"]]
    return rows, [row["thresholds"] for row in case["rows"]]


def _noise_draws(made, case):
    fine, drawn = (list(map(int, case.get(name, ()))) for name in ("fine", "drawn"))
    return outcome(noise.draws_of, case["variance"], case["grid_bits"], fine, raw(case["key"])), drawn


def _noise_encoded(made, case):
    given = case["arrays"], case["shapes"], raw(case["context"]), raw(case["key"])
    wanted = "error" not in case and (case["fine"], case["clipped"], raw(case["words"]))
    return outcome(made[case["mechanism"]].encode, *given), wanted


def _noise_decoded(made, case):
    given = raw(case["sum"]), case["survivors"], raw(case["context"])
    found = outcome(made[case["mechanism"]].decode, *given)
    if isinstance(found, str):
        return found, None
    due = zip(found, case.get("mean", []), strict=False)
    return all(math.isclose(one, other, rel_tol=1e-8, abs_tol=1e-8) for one, other in due), True


_NOISE = {"tables": _noise_table, "draws": _noise_draws, "encoded": _noise_encoded, "decoded": _noise_decoded}


def each_round(file):
    for case in loaded(file)["rounds"]:
        yield from assisted.rounds(case)


SECTIONS = {
    "messages": messages,
    "configurations": configurations,
    "lists": lists,
    "signatures": signatures,
    "charters": charters,
    "sharing": sharing,
    "trees": trees,
    "exchanges": exchanges,
    "joining": joining,
    "active_refused": active_refused,
    "quantizers": quantizers,
    "noises": noises,
    "series": series,
    "service": service,
    "hybrid": hybrid,
    "hybrid_rounds": hybrid_rounds,
    "rounds": rounds,
    "many": many,
    "assisted_texts": lambda: assisted.texts(loaded("assisted_messages")),
    "assisted_rounds": lambda: each_round("assisted_round"),
    "assisted_refused": lambda: assisted.exchanges(loaded("refused_assisted")),
    "helpers_refused": lambda: assisted.exchanges(loaded("refused_helpers")),
    "assisted_series": lambda: assisted.series(loaded("assisted_series")),
    "assisted_hybrid": lambda: [*each_round("assisted_hybrid"), *assisted.exchanges(loaded("assisted_hybrid"))],
}
