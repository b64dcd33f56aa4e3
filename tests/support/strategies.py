"""What several property tests draw from."""

import os
from functools import cache
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from ccesa import words
from ccesa.agreement.charter import Charter, Learning, Seat, Stated
from ccesa.agreement.config import MAX_VECTOR_BYTES, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto.shamir import Randomness
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority, Threshold
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism


def examples(few: int, many: int) -> int:
    """How many examples a slow property gets: ``few`` by default, ``many`` in ``make test-random``."""
    return many if os.environ.get("HYPOTHESIS_PROFILE") == "random" else few


bits = st.sampled_from(words.BITS)
generators = st.sampled_from(["aes128-ctr", "chacha20"])
seeds = st.integers(0, 2**32 - 1)
client_ids = st.integers(0, 2**32 - 2)
probabilities = st.floats(0, 1, exclude_min=True)
#: Everything msgpack can say; its texts are valid UTF-8.
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


def randomness(seed: int) -> Randomness:
    """A source that repeats itself, for what a test must compute a second time."""
    return np.random.default_rng(seed).bytes


@st.composite
def graphs(draw: st.DrawFn, clients: int) -> Graph:
    kind = draw(st.sampled_from([ErdosRenyi, Harary, Complete]))
    if kind is ErdosRenyi:
        p = draw(probabilities)
        return ErdosRenyi(p=p, mask_p=draw(st.none() | st.floats(0, p, exclude_min=True)))
    half = draw(st.integers(1, (clients - 1) // 2))
    mask_half = draw(st.integers(1, half))
    if kind is Harary:
        return Harary(degree=2 * half, mask_degree=draw(st.sampled_from([None, 2 * mask_half])))
    return draw(
        st.sampled_from([Complete(), Complete(mask_degree=2 * mask_half)]) | st.builds(Complete, mask_p=probabilities)
    )


@st.composite
def linear_thresholds(draw: st.DrawFn, degree: int, most: int) -> Linear:
    """Those that a mean degree, cut to a whole number, allows."""
    slope = draw(st.integers(0, 1024).filter(lambda slope: slope * degree // 1024 <= most))
    return Linear(slope=slope, base=draw(st.integers(0, most - slope * degree // 1024)))


def thresholds(graph: Graph, clients: int, guard: str = "curious") -> st.SearchStrategy[Threshold]:
    """Under ``active`` a client's neighbours have to reach it, under ``curious`` it counts itself."""
    mean, itself = graph.mean_degree(clients), guard == "curious"
    least, most = max(2, int((mean + 1) // 2) + 1), graph.max_degree(clients) + itself
    fixed = st.builds(Fixed, t=st.integers(least, most)) if least <= most else st.nothing()
    line = int(mean) + itself
    possible = Majority().of(int(mean)) <= line
    return st.just(Majority()) | (linear_thresholds(int(mean), line) if possible else st.nothing()) | fixed


def without_thin_masks(graph: Graph) -> Graph:
    """The graph with masks on every edge, as the guard ``active`` wants it."""
    if isinstance(graph, ErdosRenyi):
        return ErdosRenyi(p=graph.p)
    return Harary(degree=graph.degree) if isinstance(graph, Harary) else Complete()


def active_graphs(clients: int) -> st.SearchStrategy[Graph]:
    """With masks on every edge, and a neighbour for each client on average, as every client wants it."""
    return graphs(clients).map(without_thin_masks).filter(lambda graph: graph.mean_degree(clients) >= 1)


@st.composite
def configs(draw: st.DrawFn, guards: tuple[str, ...] = ("curious", "active")) -> RoundConfig:
    clients, guard = draw(st.integers(3, 300)), draw(st.sampled_from(guards))
    graph = draw(graphs(clients))
    charter: dict[str, Any] = {}
    if guard == "active":
        graph = without_thin_masks(graph)
        charter = {"charter": draw(st.binary(min_size=32, max_size=32))}
    width = draw(bits)
    return RoundConfig(
        series_id=draw(st.binary(min_size=32, max_size=32)),
        number=draw(st.integers(0, 2**32 - 1)),
        clients=clients,
        length=draw(st.integers(1, MAX_VECTOR_BYTES * 8 // width)),
        bits=width,
        graph=graph,
        threshold=draw(thresholds(graph, clients, guard)),
        generator=draw(generators),
        min_survivors=draw(st.integers(2, clients)),
        accept=draw(st.booleans()),
        guard=guard,
        **charter,
    )


_words = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=12)
_names = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "), min_size=1)
_counts = st.integers(0, 1000)
_positive = st.floats(0, exclude_min=True, allow_infinity=False)


def _few(texts: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(texts, min_size=least, max_size=3, unique=True).map(tuple)


_each_step = st.tuples(*[st.floats(0, 1, exclude_max=True)] * 6)
_certificates = st.builds(
    Stated,
    **dict.fromkeys(Stated.__struct_fields__, st.floats(max_value=0, allow_nan=False))
    | dict.fromkeys(["colluders", "around", "least_honest"], _counts)
    | dict.fromkeys(["dropout", "collusion"], st.floats(0, 1))
    | dict.fromkeys(["privacy_bits", "reliability_bits"], st.floats(0, 160))
    | {"exact_dropout": st.booleans(), "dropout_per_step": st.just(msgspec.UNSET) | _each_step},
)
_learning = st.builds(
    Learning,
    **dict.fromkeys(["clip", "metric_clip", "max_weight"], _positive)
    | dict.fromkeys(["metrics", "counters"], _few(_names))
    | {"message_types": _few(_names, 1), "weighted_by": _names, "field_bits": st.integers(5, 64)},
)


_demands = st.builds(
    DifferentialPrivacy,
    epsilon=st.floats(1, 20),
    delta=st.floats(1e-10, 1e-3),
    rounds=st.integers(1, 100),
    norm=st.floats(1e-3, 1e3),
    against=st.sampled_from(["follows", "lies"]),
)


def mechanisms(clients: int) -> st.SearchStrategy[Mechanism]:
    """Of a sum of so many, all but one of whom are honest."""
    sizes = st.integers(1, 1000)
    return st.builds(
        lambda asked, size: choose_mechanism(asked, clients=clients, honest=clients - 1, dimension=size, fails=-64.0),
        _demands,
        sizes,
    )


@st.composite
def charters(draw: st.DrawFn) -> Charter:
    """Of a few members, in any words, with any agreement that can work; some have noise."""
    names = draw(st.lists(_words.filter(lambda name: name[0] != "#"), min_size=3, max_size=12, unique=True))
    clients, graph = len(names), draw(active_graphs(len(names)))
    learning = draw(st.none() | _learning)
    noise = draw(st.just(msgspec.UNSET) | mechanisms(clients))
    survivors, certificate = draw(st.integers(2, clients)), draw(_certificates)
    if noise:
        survivors = clients
        certificate = msgspec.structs.replace(certificate, least_honest=clients, colluders=1)
    return Charter(
        serial=draw(st.integers(1, 2**53 - 1)),
        expires=draw(st.integers(1, 2**53 - 1) | st.integers(1, 10**10)),
        members=tuple(Seat(name, _member(place).public) for place, name in enumerate(names)),
        graph=graph,
        threshold=draw(thresholds(graph, clients, "active")),
        generator=draw(generators),
        bits=64 if learning or noise else draw(bits),
        least_roster=draw(st.integers(3, clients)),
        min_survivors=survivors,
        attempts=draw(st.integers(1, 1000)),
        certificate=certificate,
        learning=learning,
        privacy=noise,
    )


@st.composite
def assisted_charters(draw: st.DrawFn) -> Charter:
    """Of a few members and helpers, some of which are both."""
    clients, outside = draw(st.integers(3, 12)), draw(st.integers(0, 8))
    names = draw(st.lists(_words.filter(lambda name: name[0] != "#"), min_size=20, max_size=20, unique=True))
    seats = [Seat(name, _member(place).public) for place, name in enumerate(names)]
    among = draw(st.lists(st.sampled_from(seats[: clients + outside]), min_size=2, max_size=16, unique=True))
    colluders, learning = draw(st.integers(0, clients - 2)), draw(st.none() | _learning)
    noise = draw(st.just(msgspec.UNSET) | mechanisms(clients)) if colluders < 2 else msgspec.UNSET
    return Charter(
        serial=draw(st.integers(1, 2**53 - 1)),
        expires=draw(st.integers(1, 2**53 - 1) | st.integers(1, 10**10)),
        members=tuple(seats[:clients]),
        helpers=tuple(among),
        key_days=draw(st.just(msgspec.UNSET) | st.integers(1, 365)),
        colluders=colluders,
        generator=draw(generators),
        bits=64 if learning or noise else draw(bits),
        min_survivors=clients if noise else draw(st.integers(colluders + 2, clients)),
        attempts=draw(st.integers(1, 1000)),
        learning=learning,
        privacy=noise,
    )


@cache
def _member(place: int) -> Identity:
    return Identity(place.to_bytes(32, "little"))


@st.composite
def altered(draw: st.DrawFn, tree: object) -> object:
    """The tree with one value anywhere replaced, added or left out."""
    if isinstance(tree, dict | list) and tree and draw(st.booleans()):
        places = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        place = draw(st.sampled_from(places))
        tree = tree.copy()
        if draw(st.integers(0, 4)) == 0:
            del tree[place]
        else:
            tree[place] = draw(altered(tree[place]))
        return tree
    if isinstance(tree, dict) and draw(st.booleans()):
        return {**tree, draw(st.text(max_size=8)): draw(plain_values)}
    if isinstance(tree, list) and draw(st.booleans()):
        return [*tree, draw(plain_values)]
    return draw(plain_values)


@st.composite
def mangled(draw: st.DrawFn, good: bytes) -> bytes:
    """The bytes with up to four of them, anywhere, replaced by up to four others."""
    first = draw(st.integers(0, len(good)))
    last = draw(st.integers(first, min(first + 4, len(good))))
    return good[:first] + draw(st.binary(max_size=4)) + good[last:]


def fuzzed(good: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that differ from good ones in one place, seen as a tree or as bytes."""
    return altered(msgspec.msgpack.decode(good)).map(msgspec.msgpack.encode) | mangled(good)
