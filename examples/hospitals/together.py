"""All five hospitals in one process: a round under a charter, and what it says beside the plain numbers.

    python examples/hospitals/together.py

Each site counts its own file and masks what it counted. The server adds up, opens the sum, and sees no more.
Between machines the same is `ccesa serve` and `ccesa join`; see README.md.
"""

from pathlib import Path

import ccesa
from ccesa.plan import charters, plan
from ccesa.protocol.round import in_memory, run_round
from ccesa.statistics import Schema, read_csv

HERE = Path(__file__).parent
SITES = ("north", "south", "east", "west", "harbour")


def main() -> None:
    """Agree on a charter, run a round, and compare."""
    schema = Schema.load(HERE / "schema.toml")
    identities = [ccesa.Identity.new() for _ in SITES]
    members = ccesa.Admission(ccesa.Member(name, one.public) for name, one in zip(SITES, identities, strict=True))
    planned = plan(len(SITES), dropout=0.01, guard="active", length=schema.length, bits=schema.bits)
    charter = charters.charter(planned, members, expires=2**40, statistics=schema)
    config = charter.config(length=schema.length)
    clients = {
        place: ccesa.ActiveClient(config, identity, charter, lambda name=name: counted(schema, name), tasks=None)
        for place, (name, identity) in enumerate(zip(SITES, identities, strict=True))
    }
    found = run_round(ccesa.Server(config, charter), in_memory(clients))
    report = schema.decode(found.vector, len(found.survivors))
    print(report)
    plain = sum(counted(schema, name) for name in SITES)
    print("as without masks:", report == schema.decode(plain, len(SITES)))


def counted(schema: Schema, name: str):
    """A site's vector, when it is asked for: its file is read, counted, and small wards left out."""
    return schema.encode(read_csv(HERE / "data" / f"{name}.csv", schema))


if __name__ == "__main__":
    main()
