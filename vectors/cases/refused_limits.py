"""Clients with limits of their own, and neighbourhoods at and below them."""

from typing import Any

from cases.common import Case, sample
from cases.parties import Party, Step, join, packed
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import messages as m


def alone(name: str, client: int = 0, more: Case | None = None, **fields: Any) -> Party:
    """Make a client that has advertised; its neighbours exist only by their keys."""
    config = RoundConfig(series_id=sample(f"refused {name}"), length=2, bits=8, **fields)
    entry = {"config": config.encode(), "client": client, "seed": sample(name), "vector": b"\x01\x02", **(more or {})}
    request = m.AdvertiseRequest(context=config.context, client=client, number=bytes(4)).encode()
    return Party(name, entry, [(request, join(entry).receive(request))])


def share_request(party: Party, degree: int, masked: int | None = None, client: int = 0) -> bytes:
    """Introduce so many neighbours after the client, the first ones with masks."""
    ids = range(client + 1, client + 1 + degree)
    flags = degree if masked is None else masked
    return m.ShareRequest(
        context=party.context,
        client=client,
        neighbours=packed(*ids),
        keys=b"".join(sample(f"key {id} {k}", 31) + b"\x00" for id in ids for k in (0, 1)),
        masked=bytes(place < flags for place in range(degree)),
    ).encode()


def limited_parties() -> list[Party]:
    """Make clients that have limits of their own, and neighbourhoods at them."""
    harary: dict[str, Any] = {"clients": 10, "graph": Harary(degree=6, mask_degree=4)}
    random: dict[str, Any] = {"clients": 9, "graph": ErdosRenyi(p=0.5)}
    found = []

    def try_all(party: Party, cases: dict[str, Step]) -> None:
        party.tries(1, dict(cases))
        found.append(party)

    for limit, value, degree in (("degree", 6, 6), ("threshold", 4, 5), ("mask_degree", 4, 4)):
        one = alone(f"harary, {limit} at least {value}", more={"floor": {limit: value}}, **harary)
        below = degree - 1
        try_all(
            one,
            {
                f"{degree} neighbours": share_request(one, degree, 4),
                f"{below} neighbours": share_request(one, below, min(4, below)),
            },
        )
    one = alone("erdos-renyi, threshold_ratio at least 0.7", more={"floor": {"threshold_ratio": 0.7}}, **random)
    try_all(one, {f"{d} neighbours": share_request(one, d) for d in (1, 4, 5, 6, 8)})
    floor = {"degree": 4, "mask_degree": 4, "threshold": 3}
    one = alone("erdos-renyi, degree, mask_degree and threshold", more={"floor": floor}, **random)
    try_all(
        one,
        {
            "two neighbours, as the seed may give": share_request(one, 2),
            "two neighbours, one without masks": share_request(one, 2, 1),
            "no neighbours": share_request(one, 0),
        },
    )
    one = alone("erdos-renyi, fixed threshold", threshold=Fixed(t=3), **random)
    try_all(
        one,
        {
            "one neighbour: three holders are not there": share_request(one, 1),
            "two neighbours": share_request(one, 2),
            "four neighbours": share_request(one, 4),
            "five neighbours: two disjoint sets of three holders": share_request(one, 5),
        },
    )
    thin = Complete(mask_p=0.5)
    one = alone("complete, mask_p", clients=9, graph=thin, more={"floor": {"mask_degree": 3}})
    try_all(one, {"few masks by chance": share_request(one, 8, 1), "no masks yet": share_request(one, 8, 0)})
    one = alone("complete", clients=5)
    try_all(one, {"all masked": share_request(one, 4), "one without masks": share_request(one, 4, 3)})
    large = alone("a large neighbourhood", client=65520, clients=70000, graph=ErdosRenyi(p=0.5))
    return [*found, large]
