"""Participants in Chromium, in Node and in Python at one hub, which is a process of its own."""

import json
import time

import pytest

from ccesa.agreement.charter import Learning
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.statistics import Category, Number, Schema
from runners import PACKAGE, built, served
from series_rounds import GUARDS
from sites import Hub, NodeSite, PageSite, PythonSite, helpers, load, opened, sites

EVERYONE = tuple(range(6))
OVER = {"event": "ended", "with": "over"}


@pytest.mark.typescript
@pytest.mark.parametrize("guard", GUARDS)
def test_sites_in_node_and_in_python_are_in_every_sum(guard, tmp_path):
    with Hub(folder=tmp_path, guard=guard).running() as hub, sites(hub, [0, 2, 3], results=True) as made:
        ends = [site.ended() for site in made.values()]
    assert ends == [OVER] * 3, {c: s.events[-8:] for c, s in made.items()}
    assert hub.survivors() == [EVERYONE] * 2
    for client, site in made.items():
        assert [one["round"] for one in site.said("summed")] == [0, 1]
        assert [one["question"] for one in site.events if one["event"] == "result"] == [0, 1]
        assert not [one for one in site.events if one["event"] == "fault"]
        sent = [one for one in site.events if one["event"] == "sent"]
        assert [(one["round"], one["bytes"], len(one["beginning"])) for one in sent] == [(0, 200, 128), (1, 200, 128)]
        assert client in hub.survivors()[0]


@pytest.mark.typescript
@pytest.mark.parametrize("guard", GUARDS)
def test_large_vectors_go_in_parts(guard, tmp_path):
    hub = Hub(folder=tmp_path, guard=guard, words=100_000, rounds=1, options="part_bytes = 65536")
    with hub.running(), sites(hub, [1, 4]) as made:
        assert [site.ended() for site in made.values()] == [OVER] * 2
    assert hub.survivors() == [EVERYONE]
    sending = [one for one in made[1].said("sending") if one["all"] > 400_000]
    assert [one["done"] for one in sending[:2]] == [65536, 131072]
    assert made[1].said("masking")[-1]["done"] == 400_000


@pytest.mark.typescript
def test_members_send_once_where_helpers_open_the_sum(tmp_path):
    hub = Hub(folder=tmp_path, guard="assisted", options="part_bytes = 65536", words=100_000)
    with hub.running(), sites(hub, [0, 2, 3], results=True) as made:
        ends = [site.ended() for site in made.values()]
    assert ends == [OVER] * 3, {c: s.events[-8:] for c, s in made.items()}
    assert hub.survivors() == [EVERYONE] * 2
    for site in made.values():
        assert [one["question"] for one in site.events if one["event"] == "result"] == [0, 1]
        assert not [one for one in site.events if one["event"] == "fault"]
        sent = [one for one in site.events if one["event"] == "sent"]
        assert [(one["round"], one["bytes"]) for one in sent] == [(0, 400_008), (1, 400_008)]  # with check words
        assert site.said("summed") == []


@pytest.mark.typescript
@pytest.mark.parametrize("guard", [*GUARDS, "assisted"])
def test_whoever_is_killed_and_started_again_is_in_the_next_round_and_in_none_twice(guard, tmp_path):
    hub = Hub(folder=tmp_path, guard=guard, rounds=4, policy={"after": 1, "vector_after": 1})
    with hub.running(), sites(hub, [0, 1]) as made:
        made[0].wait_for("joined")
        made[0].kill()
        again = NodeSite(hub, 0)
        assert again.ended() == OVER, again.events[-8:]
        assert made[1].ended() == OVER
    assert not [one for one in again.events if one["event"] == "fault"]
    survivors = hub.survivors()
    assert len(survivors) == 4
    assert survivors[-1] == EVERYONE
    joined = [one["round"] for one in made[0].said("joined") + again.said("joined")]
    assert len(set(joined)) == len(joined)


@pytest.mark.typescript
def test_a_site_that_stops_says_so_and_the_others_go_on(tmp_path):
    hub = Hub(folder=tmp_path, guard="active", rounds=2, policy={"after": 1, "vector_after": 1})
    with hub.running(), sites(hub, [0, 1]) as made:
        made[0].wait_for("joined")
        made[0].stop()
        assert made[0].ended() == {"event": "ended", "with": "stopped"}
        assert made[1].ended() == OVER
    assert [0 in survivors for survivors in hub.survivors()][-1] is False


@pytest.mark.typescript
def test_a_round_goes_on_without_a_site_whose_function_fails_and_a_strict_one_ends(tmp_path):
    hub = Hub(folder=tmp_path, guard="active", rounds=2)
    why = "ContributionFailed: the site's own function failed: Error: no data today"
    own = {0: {"fails": [0]}, 1: {"fails": [1], "strict": True}}
    with hub.running(), sites(hub, [0, 1], own) as made:
        assert made[0].ended() == OVER
        assert "{with}: {text}".format_map(made[1].ended()) == why
    (fault,) = [one for one in made[0].events if one["event"] == "fault"]
    assert (fault["round"], fault["reason"]) == (0, why)
    assert hub.survivors() == [(1, 2, 3, 4, 5), (0, 2, 3, 4, 5)]


# What a charter says of contributions

MODEL = """
import numpy as np
from ccesa.service.coordinator import Averaging

class Mine(Averaging):
    def __init__(self):
        super().__init__({"weights": np.zeros((3, 4), np.float32), "bias": np.zeros(4)})
"""
SCHEMA = Schema(
    name="beds",
    least_group=1,
    numbers=(Number(name="age", lower=0, upper=120, measures=("count", "sum")),),
    categories=(Category(name="ward", values=("surgery", "births")),),
    group_by=("ward",),
)


def only_in_node(hub: Hub, **options) -> list[NodeSite]:
    """Run all sites in Node, with what each is told by its number."""
    with hub.running():
        made = [
            NodeSite(hub, client, **{name: of(client) for name, of in options.items()}) for client in range(hub.clients)
        ]
        assert [site.ended() for site in made] == [OVER] * hub.clients, made[0].events[-5:]
    return made


@pytest.mark.typescript
def test_models_are_averaged_by_what_the_charter_says(tmp_path):
    agreed = {"bits": 64, "learning": Learning(clip=1.0, max_weight=10.0)}
    hub = Hub(folder=tmp_path, guard="active", clients=4, rounds=1, agreed=agreed, coordinator=MODEL)
    made = only_in_node(hub, results=lambda client: True)
    (result,) = [one for one in made[0].events if one["event"] == "result"]
    assert result["value"]["weight"] == pytest.approx(10)
    expected = sum(weight * weight / 10 for weight in (1, 2, 3, 4)) / 10
    for array in result["value"]["arrays"].values():
        assert array["data"] == pytest.approx([expected] * len(array["data"]), abs=1e-4)


@pytest.mark.typescript
def test_models_with_noise_are_charged_and_one_leaves_where_a_function_fails_and_none_beyond_the_budget(tmp_path):
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=1.0)
    noise = choose_mechanism(demand, clients=6, honest=5, dimension=16)
    agreed = {"bits": 64, "privacy": noise, "min_survivors": 5}
    hub = Hub(folder=tmp_path, guard="active", rounds=1, agreed=agreed, coordinator=MODEL)

    def budget(client: int) -> dict[str, float]:
        return {"epsilon": 0.1 if client == 2 else 8.0, "delta": 1e-6}

    made = only_in_node(hub, budget=budget, fails=lambda client: [0] if client == 3 else [])
    assert [one["round"] for one in made[3].said("nothing")] == [0]
    assert "no data today" in made[3].said("nothing")[0]["text"]
    assert any("BudgetSpent" in one["reason"] for one in made[2].events if one["event"] == "fault")
    assert [bool(site.said("summed")) for site in made] == [True, True, False, True, True, True]


@pytest.mark.typescript
def test_tables_are_counted_by_the_schema_of_the_charter(tmp_path):
    agreed = {"bits": 64, "statistics": SCHEMA}
    hub = Hub(folder=tmp_path, guard="active", clients=4, rounds=1, agreed=agreed)

    def records(client: int) -> list[dict]:
        return [{"age": 10 * client + n, "ward": ("surgery", "births")[n % 2]} for n in range(client + 1)]

    made = only_in_node(hub, records=records, results=lambda client: True)
    (result,) = [one for one in made[0].events if one["event"] == "result"]
    assert result["survivors"] == [0, 1, 2, 3]
    assert "births" in result["value"]["text"]
    assert sum(group["records"] for group in result["value"]["report"]["groups"]) == 10


# In a browser


@pytest.fixture(scope="module")
def address():
    """Where the page is."""
    built("build/test/service/site.js")
    with served(PACKAGE) as address:
        yield address


@pytest.fixture
def pages(browser, browser_thread, address):
    """A profile of its own for each test, and the address of the page."""
    context = browser_thread.run(browser.new_context)
    yield context, address
    browser_thread.run(context.close)


@pytest.mark.parametrize(
    "guard", ["active", *(pytest.param(guard, marks=pytest.mark.typescript) for guard in ("curious", "assisted"))]
)
def test_tabs_node_and_python_are_in_one_sum_and_a_tab_that_is_closed_drops_out(guard, tmp_path, pages):
    context, address = pages
    hub = Hub(
        folder=tmp_path, guard=guard, rounds=3, policy={"after": 1, "vector_after": 1}, options=f'pages = ["{address}"]'
    )
    with hub.running():
        tabs = [PageSite(context, address, hub, client) for client in (0, 1, 2)]
        node, python = NodeSite(hub, 3), [*(PythonSite(hub, client) for client in (4, 5)), *helpers(hub)]
        tabs[2].wait_for("sent" if guard == "assisted" else "summed")
        tabs[2].page.close()
        assert [tab.ended() for tab in tabs[:2]] == [OVER] * 2, tabs[0].events[-5:]
        assert node.ended() == OVER
        for one in python:
            one.join(30)
    survivors = hub.survivors()
    assert survivors[0] == EVERYONE
    assert set(survivors[-1]) >= {0, 1, 3, 4, 5}
    assert len(survivors) == 3


def test_a_second_tab_with_the_same_identity_is_refused_until_the_first_is_closed(tmp_path, pages):
    context, address = pages
    hub = Hub(folder=tmp_path, guard="active", options=f'pages = ["{address}"]')
    with hub.running():
        first = PageSite(context, address, hub, 0)
        first.wait_for("waiting")
        second = PageSite(context, address, hub, 0)
        assert second.ended()["with"] == "OrderError"
        assert "another tab uses this identity" in second.ended()["text"]
        first.page.close()
        third = PageSite(context, address, hub, 0)
        third.wait_for("waiting")


def test_a_page_that_is_left_stops_and_drops_its_secrets(tmp_path, pages):
    context, address = pages
    hub = Hub(folder=tmp_path, guard="active", options=f'pages = ["{address}"]')
    with hub.running():
        tab = PageSite(context, address, hub, 0)
        tab.wait_for("waiting")
        tab.page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
        assert tab.ended() == {"event": "ended", "with": "stopped"}


CLAIM = """async ([name, round, task]) => {
  const memory = indexedDbMemory(name);
  const entries = [{about: "round", key: new Uint8Array(36).fill(round), number: 0}];
  const key = new Uint8Array(64).fill(task);
  for (const about of ["vector", "release"]) entries.push({about, key, number: 7});
  const claims = entries.map(entry => Promise.all(Array.from({length: 10}, () => memory.add(entry))));
  const made = (await Promise.all(claims)).map(each => each.filter(Boolean).length);
  return [...made, (await memory.entries("vector", new Uint8Array(32).fill(task))).length];
}"""


def test_a_memory_in_the_browser_gives_each_thing_once_in_all_tabs_and_for_good(pages):
    context, address = pages
    first, second = opened(context, address), opened(context, address)
    assert first.evaluate(CLAIM, ["a", 1, 2]) == [1, 1, 1, 1]
    assert second.evaluate(CLAIM, ["a", 1, 2]) == [0, 0, 0, 1]
    assert second.evaluate(CLAIM, ["a", 2, 2]) == [1, 0, 0, 1]
    assert second.evaluate(CLAIM, ["b", 1, 2]) == [1, 1, 1, 1]
    first.reload()
    load(first)
    assert first.evaluate(CLAIM, ["a", 1, 2]) == [0, 0, 0, 1]


def at_the_same_moment(tabs: list, work: str) -> list:
    """Let all tabs begin with this in half a second, and return what each found."""
    waiting = f"new Promise(resolve => setTimeout(resolve, {time.time() * 1000 + 500} - Date.now()))"
    for tab in tabs:
        tab.evaluate(f"() => {{ globalThis.found = {waiting}.then(() => {work}); }}")
    return [tab.evaluate("found") for tab in tabs]


def test_tabs_that_ask_at_the_same_moment_do_not_both_get_it(pages):
    context, address = pages
    tabs = [opened(context, address) for _ in range(2)]
    found = at_the_same_moment(tabs, f"({CLAIM})(['c', 1, 1])")
    assert [sum(pair) for pair in zip(*found, strict=True)] == [1, 1, 1, 2]


#: What a memory had before it had entries: rounds, and how many vectors had left by task.
OLD = """name => new Promise((resolve, reject) => {
  const asked = indexedDB.open(`ccesa ${name}`, 1);
  const stores = ["rounds", "vectors"];
  asked.onupgradeneeded = () => stores.forEach(store => asked.result.createObjectStore(store));
  asked.onerror = reject;
  asked.onsuccess = () => {
    const write = asked.result.transaction(stores, "readwrite");
    write.objectStore("rounds").add(1, "01".repeat(36));
    write.objectStore("vectors").add(2, "05".repeat(32));
    write.oncomplete = () => { asked.result.close(); resolve(); };
  };
})"""
TAKEN_OVER = """async name => {
  const memory = indexedDbMemory(name);
  const found = await memory.entries("vector", new Uint8Array(32).fill(5));
  const joined = await memory.add({about: "round", key: new Uint8Array(36).fill(1), number: 0});
  return [found.map(({key, number}) => [key.length, number]), joined];
}"""


def test_what_an_older_version_remembered_in_the_browser_is_taken_over(pages):
    context, address = pages
    tab = opened(context, address)
    tab.evaluate(OLD, "old")
    assert tab.evaluate(TAKEN_OVER, "old") == [[[32, 1], [32, 2]], False]


#: Delete a memory, and ask it for an entry with the same object and with another one.
GONE = """async name => {
  await indexedDbIdentity(name);
  const memory = indexedDbMemory(name);
  const entry = {about: "round", key: new Uint8Array(36), number: 0};
  const first = await Promise.all([memory, indexedDbMemory(name)].map(one => one.add(entry)));
  await new Promise((resolve, reject) => {
    const asked = indexedDB.deleteDatabase(`ccesa ${name}`);
    Object.assign(asked, {onsuccess: resolve, onerror: reject});
  });
  const after = [memory, indexedDbMemory(name)].map(one => one.add(entry).catch(error => error.message));
  return [first.filter(Boolean).length, ...await Promise.all(after)];
}"""


def test_a_memory_in_the_browser_that_is_gone_is_not_begun_anew(pages):
    context, address = pages
    first, *later = opened(context, address).evaluate(GONE, "g")
    assert first == 1
    assert [("is gone, and its identity was used" in each) for each in later] == [True, True]


#: Add entries as if it were so many days ago, and tell which of them another tab's memory has.
SWEPT = """async ([name, days]) => {
  const now = Date.now;
  const all = ["round", "sent", "vector", "release", "table"];
  const entries = all.map(about => ({about, key: new Uint8Array(36), number: 0}));
  Date.now = () => now() - days * 86400000;
  for (const entry of entries) await indexedDbMemory(name).add(entry);
  Date.now = now;
  const found = ({about, key}) => indexedDbMemory(name).entries(about, key);
  return (await Promise.all(entries.map(found))).map(each => each.length);
}"""


def test_a_memory_in_the_browser_forgets_rounds_after_a_month_and_never_what_has_left(pages):
    context, address = pages
    tab = opened(context, address)
    assert tab.evaluate(SWEPT, ["young", 29]) == [1, 1, 1, 1, 1]
    assert tab.evaluate(SWEPT, ["old enough", 31]) == [0, 1, 1, 1, 1]


REFUSED = json.loads((PACKAGE.parents[1] / "vectors" / "refused_accept.json").read_text())
COPIED = next(one for one in REFUSED["parties"] if one["name"] == "accept, remembering")


def masked_by_copies(pages, memories: list) -> list:
    """Two tabs with the keys of one client are asked for its vector at once: one adds 7, one 1000."""
    context, address = pages
    party = {name: value for name, value in COPIED.items() if name not in ("exchanges", "memory")}
    requests = [exchange["request"] for exchange in COPIED["exchanges"][:4]]
    tabs = [opened(context, address) for _ in memories]
    for tab, value, memory in zip(tabs, (7, 1000), memories, strict=True):
        vector = value.to_bytes(4, "little") * 3
        told = [{**party, "vector": vector.hex()}, requests[:3], memory]
        tab.evaluate("async told => { globalThis.mine = await copyOf(...told); }", told)
    return at_the_same_moment(tabs, f"mine('{requests[3]}')")


def words(reply: str) -> list[int]:
    data = bytes.fromhex(reply)[-12:]
    return [int.from_bytes(data[k : k + 4], "little") for k in (0, 4, 8)]


def test_c16_of_two_tabs_with_the_keys_of_one_client_one_sends_its_vector(pages):
    first, second = sorted(masked_by_copies(pages, ["d", "d"]), key=len)
    assert first == "OrderError"
    assert len(second) == len(COPIED["exchanges"][3]["reply"])


def test_c16_twin_without_a_memory_in_common_the_difference_is_the_plain_one(pages):
    first, second = masked_by_copies(pages, ["e", "f"])
    assert {(b - a) % 2**32 for a, b in zip(words(first), words(second), strict=True)} == {993}


LEDGER = """async () => {
  const { indexedDbLedger } = await import("/build/src/memory/ledgers.js");
  const [first, second] = [indexedDbLedger("a"), indexedDbLedger("a")];
  const begun = await Promise.all([first, second, first].map((store, at) => store.append(`${at}`, "x", 0)));
  const others = [await second.append("early", "y", 3), await second.append("next", "y", 1)];
  const { lines, seal } = await first.read();
  return [begun.filter(Boolean).length, ...others, lines.length, lines[1], seal];
}"""


def test_a_ledger_in_the_browser_grows_by_one_line_at_a_time_and_for_good(pages):
    context, address = pages
    tab = opened(context, address)
    assert tab.evaluate(LEDGER) == [1, False, True, 2, "next", "y"]
    tab.reload()
    load(tab)
    assert tab.evaluate(LEDGER) == [0, False, False, 2, "next", "y"]


IDENTITY = "async (name) => [...(await indexedDbIdentity(name)).publicKey]"
#: What a name's database has: the algorithm of the private key, and whether it can be exported.
KEPT = """name => new Promise((resolve, reject) => {
  const asked = indexedDB.open(`ccesa identity ${name}`);
  asked.onerror = reject;
  asked.onsuccess = () => {
    const got = asked.result.transaction("pair").objectStore("pair").get("pair");
    got.onsuccess = () => resolve([got.result.privateKey.algorithm.name, got.result.privateKey.extractable]);
  };
})"""


def test_an_identity_in_the_browser_is_the_same_in_all_tabs_and_after_a_reload_and_cannot_be_exported(pages):
    context, address = pages
    first, second = opened(context, address), opened(context, address)
    key, *others = first.evaluate(f"() => Promise.all([1, 2, 3].map(() => ({IDENTITY})('a')))")
    assert others == [key, key]
    assert second.evaluate(IDENTITY, "a") == key
    assert second.evaluate(IDENTITY, "b") != key
    first.reload()
    load(first)
    assert first.evaluate(IDENTITY, "a") == key
    assert first.evaluate(KEPT, "a") == ["Ed25519", False]
