"""The section on Turbo-aggregate, run beside the other schemes."""

import math

from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, TAG_BYTES
from ccesa.plan import plan
from experiments.costs import counting
from experiments.page.costs import Row
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import formatted, power, scientific, table, word

TURBO = "Turbo-aggregate"
ALL = (TURBO, *counting.SCHEMES)


def _found(found: Results) -> Row:
    mine: Row = found["costs"]["turbo_aggregate"]
    return mine


def _longest(found: Results) -> Row:
    """The paper's example."""
    longest: Row = _found(found)["lengths"][-1]
    return longest


def _both(row: Row, scheme: str) -> float:
    return float(row[scheme]["sent"] + row[scheme]["received"])


def _example(found: Results) -> str:
    longest, exchanges = _longest(found), _found(found)["exchanges"]
    ours = f"{exchanges['ours']}, in a series {exchanges['ours_in_a_series']}"
    rows = [
        [
            scheme,
            f"{longest[scheme]['sent']:,.0f}",
            f"{longest[scheme]['received']:,.0f}",
            formatted(longest[scheme]["sent"] / longest[TURBO]["sent"], ".2%"),
            formatted(_both(longest, scheme) / _both(longest, TURBO), ".2%"),
            longest[scheme].get("exchanges", ours),
        ]
        for scheme in ALL
    ]
    return table(["", "sent", "received", "sent, share", "both, share", "exchanges"], rows)


def _against_length(found: Results) -> str:
    rows = _found(found)["lengths"]
    head = ["bytes sent and received", *(f"m = {row['length']:,}" for row in rows)]
    return table(head, [[scheme, *(f"{_both(row, scheme):,.0f}" for row in rows)] for scheme in ALL])


def _around(found: Results) -> str:
    head = ["n", "L", "sent", "by the formula", "sent, of the formula", "exchanges", "lost"]
    rows = [
        [
            row["n"],
            row["groups"],
            f"{row['sent']:,.0f}",
            f"{row['formula']:,.0f}",
            formatted(row["sent_to_formula"], ".0%"),
            row["exchanges"],
            scientific(row["lost"]),
        ]
        for row in _found(found)["around"]
    ]
    return table(head, rows, left=0)


def _numbers(found: Results) -> list[object]:
    mine = _longest(found)[TURBO]
    return [power(10, math.log10(mine["length"])), counting.BITS, mine["n"], mine["groups"]]


def _exact(found: Results) -> list[object]:
    rounds = [row[TURBO] for row in _found(found)["lengths"]] + _found(found)["around"]
    return ["exact" if all(row["exact"] for row in rounds) else "wrong"]


def _encryption(found: Results) -> list[object]:
    """Kilobytes of a client: its public key, those of both groups beside it, and a tag on each message."""
    mine = _longest(found)[TURBO]
    links = 2 * mine["n"] // mine["groups"]
    messages = 2 * links  # in each direction one with shares and one with the partial sum
    return [(PUBLIC_KEY_BYTES * (1 + links) + TAG_BYTES * messages) / 1e3]


def _around_length(found: Results) -> list[object]:
    (length,) = {row["length"] for row in _found(found)["around"]}
    return [length]


def _sent(found: Results) -> list[object]:
    return [_longest(found)[TURBO][key] / 1e6 for key in ("sent", "formula")]


def _shares(found: Results) -> list[object]:
    compared = _found(found)["compared"]
    return [compared["formula"]["share"], compared["CCESA"]["share"]]


def _cheaper(found: Results) -> list[object]:
    """The longest vector at which Turbo-aggregate moves less than the planned graph, and the next one."""
    rows = _found(found)["lengths"]
    less = [row["length"] for row in rows if _both(row, TURBO) < _both(row, "planned")]
    return [max(less), min(row["length"] for row in rows if row["length"] > max(less))]


def _exchanges(found: Results) -> list[object]:
    return [word(count) for count in _found(found)["exchanges"].values()]


def _lost(found: Results) -> list[object]:
    mine = _longest(found)[TURBO]
    bits = plan(mine["n"], found["costs"]["q_total"]).reliability_bits
    return [1 / mine["lost"], power(2, -bits)]


def _passing(found: Results) -> list[object]:
    """Gigabytes that pass a server: from client to client in the example, and all that clients of SA move."""
    longest = _longest(found)
    return [longest[TURBO]["relayed"] / 1e9, longest[TURBO]["n"] * _both(longest, "SA") / 1e9]


SECTION = Section(
    title="Turbo-aggregate",
    tables=[_example, _against_length, _around],
    said=[
        Said("example, m = {}, R = {}, n = {}, L = {},", _numbers),
        Said("was run and gave the {} sum", _exact),
        Said("would add {:.1f} kB, for keys", _encryption),
        Said("with other n and L at m = {:,};", _around_length),
        Said("{:.1f} MB were counted, {:.0f} MB are printed", _sent),
        Said("is {:.1%} of it, printed as 3 %; by counted bytes it is {:.1%}", _shares),
        Said("SA is at {:.1%}, too", lambda found: [_found(found)["compared"]["SA"]["share"]]),
        Said("Up to m = {:,} its clients move less than ours on the planned circle; from m = {:,} on", _cheaper),
        Said("where ours are {}, or {} in a series", _exchanges),
        Said(
            "once in {:,.0f} rounds, if a tenth drops out; the planned circle is lost with a probability of {} at most",
            _lost,
        ),
        Said("{:.1f} GB pass through it; with SA it is {:.1f} GB", _passing),
    ],
    fixed=[
        "4 m n R / L bits",
        "where half of a group is gone",
        "if a tenth of the clients drops out",
        "printed as 3 %",
        "more than half:",
        "if a tenth drops out;",
    ],
)
