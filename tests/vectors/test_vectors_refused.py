"""What must be refused, by the package and by a second implementation: refused.json and its companions."""

import numpy as np
import pytest

import second_replay
from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Admission, Identity, Member
from ccesa.crypto import primitives
from ccesa.errors import CcesaError, OrderError
from ccesa.memory import MASK, RELEASE, TASK, VECTOR, Entry, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import Server
from ccesa.values.quantize import Quantizer
from second import Stream, raw, replies_of
from second_replay import bytes_in
from vector_files import cases, load, refused

FILES = ("refused", "refused_active", "refused_accept")
PARTIES = {party["name"]: party for file in FILES for party in load(file, "parties")}
#: A client's own limits as the specification names them, in the order in which the package has them.
LIMITS = ("clients", "degree", "mask_degree", "threshold", "threshold_ratio", "survivors")


@pytest.mark.parametrize(
    "section",
    [pytest.param(one, marks=[pytest.mark.needs("ml-kem")] * ("hybrid" in one)) for one in second_replay.SECTIONS],
)
def test_the_second_implementation_agrees(section):
    assert list(second_replay.differences([section])) == []


# refused.json


ABOUT = {"sent": MASK, "vector": VECTOR, "release": RELEASE, "counted": TASK}


def tell(memory: ProcessMemory, noted: list[dict]) -> None:
    """Have these entries in a memory, and no others."""
    memory._kept.clear()
    for one in noted:
        key = b"".join(raw(one[name]) for name in ("context", "task", "series_id") if name in one)
        memory.add(Entry(ABOUT[one["about"]], key, one.get("number", 1)))


def joined(party, tasks):
    """A client of the package, with the memory of tasks that it has if the party counts."""
    config, task = raw(party["config"]), raw(party.get("task", "00" * 32))
    if "charter" in party:
        charter = Charter.parse(party["charter"])
        config = charter.decode(config)
    else:
        config = RoundConfig.decode(config)
    if "memory" in party:
        tell(tasks, party["memory"])
    others = {
        "random": Stream(raw(party["seed"])),
        "task": task,
        "tasks": tasks if "memory" in party else None,
        "used_rounds": {raw(each) for each in party.get("used_rounds", ())},
    }
    vector = words.from_bytes(raw(party["vector"]), config.bits)
    if "charter" in party:
        identity = Identity(raw(party["identity"]))
        return ActiveClient(config, identity, charter, vector, now=party.get("now", 0), **others)
    given = party.get("floor", {})
    floor = Floor(**dict(zip(Floor.__struct_fields__, map(given.get, LIMITS), strict=True)))
    return Client(config, party["client"], vector, floor=floor, **others)


def outcome(action, *arguments):
    try:
        return action(*arguments)
    except CcesaError as error:
        return type(error).__name__


@cases(FILES, "exchanges", "party", "after", "reason")
def test_a_client_answers_refuses_and_repeats(case):
    party, tasks = PARTIES[case["party"]], ProcessMemory()
    client = joined(party, tasks)
    for each in party["exchanges"][: case["after"]]:
        assert client.receive(raw(each["request"])).hex() == each["reply"]
    for step in case["steps"]:
        if "memory" in step:
            tell(tasks, step["memory"])
        request = bytes_in(party, step["request"], "request")
        wanted = step["error"] if "error" in step else bytes_in(party, step["reply"], "reply")
        assert outcome(client.receive, request) == wanted
        if wanted == "FaultyServer":
            assert not vars(client._state)
            for again in (request, *(raw(each["request"]) for each in party["exchanges"])):
                with pytest.raises(OrderError, match="aborted"):
                    client.receive(again)


@pytest.mark.parametrize("party", PARTIES.values(), ids=PARTIES)
def test_a_party_answers_what_is_asked_properly(party):
    client = joined(party, ProcessMemory())
    for each in party["exchanges"]:
        assert client.receive(raw(each["request"])).hex() == each["reply"]


@cases("refused", "joining", "reason")
def test_a_client_is_refused_before_it_makes_a_key_or_is_not(case):
    if "error" not in case:
        assert not joined(case, ProcessMemory()).done
        return
    with refused(case["error"]):
        joined(case, ProcessMemory())


@cases("refused", "many", "party")
def test_more_neighbours_than_can_hold_shares(case):
    party, count = PARTIES[case["party"]], case["neighbours"]
    client = joined(party, ProcessMemory())
    first = raw(party["exchanges"][0]["request"])
    client.receive(first)
    request = m.ShareRequest(
        context=m.decode(first, 100).context,
        client=party["client"],
        neighbours=np.arange(count, dtype="<u4").tobytes(),
        keys=b"".join((2**64 + k).to_bytes(32, "little") for k in range(2 * count)),
        masked=b"\x01" * count,
    )
    with refused(case["error"]) as caught:
        client.receive(request.encode())
    assert "65520" in str(caught.value)


# refused_replies.json


ROUNDS = {one["name"]: one for file in ("round", "accept_round", "active_accept_round") for one in load(file, "rounds")}


def server_of(round):
    task = raw(round["task"])
    if "charter" in round:
        charter = Charter.parse(round["charter"])
        return Server(charter.decode(raw(round["config"])), charter, task=task)
    return Server(RoundConfig.decode(raw(round["config"])), task=task)


@cases("refused_replies", "replies", "round", "reason")
def test_a_server_refuses_and_goes_on(case):
    round = ROUNDS[case["round"]]
    server, sender = server_of(round), case["sender"]
    server.open()
    for step in round["steps"]:
        last = step["step"] == case["step"]
        for exchange in replies_of(step):
            own = exchange["client"] == sender and case["waiting"]
            if not last or (case["early"] and not own):
                server.receive(exchange["client"], raw(exchange["reply"]))
        if last:
            break
        server.close()
    with refused(case["error"]) as caught:
        server.receive(sender, raw(case["reply"]))
    assert caught.value.client == sender
    assert (sender in server.waiting) is case["waiting"]
    if case["waiting"]:
        (right,) = [one for one in replies_of(step) if one["client"] == sender]
        server.receive(sender, raw(right["reply"]))
        assert sender not in server.waiting


# signatures.json


@cases("signatures", "keys", "name")
def test_identity_key(case):
    key = raw(case["public"])
    if "error" not in case:
        assert Member("a", key).public == key
        return
    with refused(case["error"]):
        Member("a", key)
    with refused("LowOrderKey"):
        primitives.check_verifying_key(key)


@cases("signatures", "signatures", "name")
def test_signature(case):
    key = raw(case["public"])
    given = key, raw(case["signature"]), raw(case["text"])
    if "error" not in case:
        primitives.verify(*given)
        return
    with refused(case["error"]):
        primitives.verify(*given)


def test_some_signatures_are_refused_although_they_fit():
    """The library by itself takes all that fit; so this is the package's own doing, and needs the vectors."""
    fitting = [case for case in load("signatures", "signatures") if case["fits"]["plain"] and "error" in case]
    assert len(fitting) > 8
    for case in fitting:
        primitives.verify_by_openssl(raw(case["public"]), raw(case["signature"]), raw(case["text"]))


# lists.json


@cases("lists", "admission_lists", "name")
def test_admission_list(case, tmp_path):
    (tmp_path / "list").write_bytes(case["text"].encode())
    for read, given in ((Admission.parse, case["text"]), (Admission.load, tmp_path / "list")):
        if "error" in case:
            with refused(case["error"]):
                read(given)
            continue
        found = [{**vars(member), "public": member.public.hex()} for member in read(given).members]
        assert found == case["members"]


@cases("lists", "identity_files", "name")
def test_identity_file(case, tmp_path):
    path = tmp_path / "key"
    path.write_bytes(case["text"].encode())
    path.chmod(0o600)
    if "error" in case:
        with refused(case["error"]):
            Identity.load(path)
        return
    assert (Identity.load(path).seed.hex(), Identity.load(path).name) == (case["seed"], case["holder"])


@cases("lists", "charters", "name")
def test_charter(case, tmp_path):
    (tmp_path / "charter").write_bytes(case["text"].encode())
    for read, given in ((Charter.parse, case["text"]), (Charter.load, tmp_path / "charter")):
        if "error" in case:
            with refused(case["error"]):
                read(given)
        else:
            assert read(given).digest.hex() == case["digest"]


# quantizer.json


def number(value):
    if isinstance(value, list):
        return [number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def quantizer(settings):
    others = {k: number(v) for k, v in settings.items() if k not in ("shapes", "gives", "error", "check")}
    return Quantizer.for_model([np.zeros(shape) for shape in settings["shapes"]], **others)


class Draws:
    """Random numbers that were drawn before."""

    def __init__(self, numbers):
        self.numbers = numbers

    def random(self, size):
        assert size == len(self.numbers)
        return np.array(self.numbers)


SETTINGS = load("quantizer", "settings")


@pytest.mark.parametrize("case", SETTINGS, ids=lambda case: str(len(str(case))))
def test_settings_of_a_quantizer(case):
    if "error" in case:
        with refused(case["error"]):
            quantizer(case)
        return
    made = quantizer(case)
    due = case["gives"]
    assert (made.field_bits, made.fields.per_word) == (due["field_bits"], due["per_word"])
    assert (made.levels, made.count - made.layout.size, made.length) == (
        *(due["levels"], due["digits"], due["length"]),
    )


@cases("quantizer", "encoded", "name")
def test_words_of_a_client(case):
    made = quantizer(SETTINGS[case["settings"]])
    arrays = [np.array(number(one), np.float64) for one in case["arrays"]]
    given = arrays, number(case["weight"]), Draws(case["draws"]) if "draws" in case else None
    if "error" in case:
        with refused(case["error"]):
            made.encode(*given)
        return
    assert made.encode(*given).vector.tobytes().hex() == case["words"]


@cases("quantizer", "decoded", "name")
def test_mean_of_a_sum(case):
    settings = SETTINGS[case["settings"]]
    total = words.from_bytes(raw(case["sum"]), 64)
    if "error" in case:
        with refused(case["error"]):
            quantizer(settings).decode(total)
        return
    found = quantizer(settings).decode(total)
    assert [one.tolist() for one in found.arrays] == case["mean"]
    assert found.weight == case["weight"]
