"""Who takes part: members and what is held against them, tokens, sessions; and which hubs are alive."""

from collections.abc import Mapping

from ccesa.errors import ConfigError
from ccesa.service.store import chain
from ccesa.service.store.database import Database, reason_of
from ccesa.service.store.rows import MemberRow, TokenRow

#: The client that an operator's token is stored under.
_OPERATOR = -1
#: The lease is one row.
_LEASE = (
    "INSERT INTO lease VALUES (1, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET hub = excluded.hub, until = excluded.until"
    " WHERE lease.hub = excluded.hub OR lease.until <= ? OR lease.until > ? RETURNING hub"
)
#: Clocks of hubs differ by less than this; what is later was written before a clock was set back.
_SKEW = 60.0
#: A nonce is remembered for so many seconds longer than its session, as clocks of hubs differ.
_GRACE = 3600.0


class People:
    """Members, the tokens that speak for them, and hubs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Members

    def members(self) -> dict[int, MemberRow]:
        """Return what is known of members by client id; those that were never heard from are not in it."""
        with self._database.reading() as run:
            rows = run(
                "SELECT client, blames, set_aside, seen, known_series, known_exchange FROM members"
                " ORDER BY client"
            )
        return {
            client: MemberRow(
                client=client, blames=blames, set_aside=reason, seen=seen, known=(series, exchange)
            )
            for client, blames, reason, seen, series, exchange in rows
        }

    def seen(self, times: Mapping[int, float]) -> None:
        """Note when members were heard from; an older time changes nothing, but for that of another clock."""
        with self._database.writing() as run:
            run.many(
                "INSERT INTO members (client, seen) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
                " SET seen = excluded.seen WHERE members.seen < excluded.seen OR members.seen > ?",
                [(client, when, when + _SKEW) for client, when in sorted(times.items())],
            )

    def knows(self, places: Mapping[int, tuple[int, int]]) -> None:
        """Note which exchange of which series members say they know; an earlier one changes nothing."""
        with self._database.writing() as run:
            run.many(
                "INSERT INTO members (client, known_series, known_exchange) VALUES (?, ?, ?)"
                " ON CONFLICT (client) DO UPDATE"
                " SET known_series = excluded.known_series, known_exchange = excluded.known_exchange"
                " WHERE (members.known_series, members.known_exchange)"
                " < (excluded.known_series, excluded.known_exchange)",
                [(client, *places[client]) for client in sorted(places)],
            )

    def blame(self, counts: Mapping[int, int], reason: str, now: float, limit: int = 3) -> set[int]:
        """Count faults of members; set those aside that reach the limit, and return who that is new for.

        Whoever is set aside is in the audit log.
        """
        with self._database.alone() as run:
            return chain.blame(run, counts, reason, now, limit)

    def set_aside(self, client: int, reason: str) -> None:
        """Ask a member for nothing any more, until it is let in; the first reason stays."""
        with self._database.writing() as run:
            run(
                "INSERT INTO members (client, set_aside) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
                " SET set_aside = excluded.set_aside WHERE members.set_aside = ''",
                client,
                reason_of(reason),
            )

    def let_in(self, client: int) -> None:
        """Ask a member again, with nothing held against it."""
        with self._database.writing() as run:
            run("UPDATE members SET blames = 0, set_aside = '' WHERE client = ?", client)

    # Tokens and sessions, by the SHA-256 of what the bearer has

    def add_token(self, digest: bytes, client: int | None, label: str) -> None:
        """Let the bearer of a token act for a client; None is the operator."""
        with self._database.writing() as run:
            run("INSERT INTO tokens VALUES (?, ?, ?)", digest, _stored(client), label)

    def revoke_tokens(self, client: int | None) -> int:
        """Delete all tokens of a client, or of operators; return how many there were."""
        with self._database.writing() as run:
            return len(run("DELETE FROM tokens WHERE client = ? RETURNING client", _stored(client)))

    def member_of(self, digest: bytes) -> int | None:
        """Return whose token this is; None for nobody's and for an operator's."""
        found = self._bearer(digest)
        return None if found == _OPERATOR else found

    def is_operator(self, digest: bytes) -> bool:
        """Whether this is the token of an operator."""
        return self._bearer(digest) == _OPERATOR

    def _bearer(self, digest: bytes) -> int | None:
        with self._database.reading() as run:
            for (client,) in run("SELECT client FROM tokens WHERE hash = ?", digest):
                return client
        return None

    def tokens(self) -> list[TokenRow]:
        """Return for whom there are tokens, and their labels."""
        with self._database.reading() as run:
            rows = run("SELECT client, label FROM tokens ORDER BY client, label")
        return [
            TokenRow(client=None if client == _OPERATOR else client, label=label) for client, label in rows
        ]

    def add_session(self, digest: bytes, nonce: bytes, client: int, expires: float) -> bool:
        """Begin a session; return False, and begin none, if the nonce was used before."""
        with self._database.writing() as run:
            return bool(
                run(
                    "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING client",
                    digest,
                    nonce,
                    client,
                    expires,
                )
            )

    def session(self, digest: bytes, now: float) -> int | None:
        """Return whose session this is, if it has not expired. Those that have are deleted in time."""
        with self._database.reading() as run:
            found = run("SELECT client FROM sessions WHERE hash = ? AND expires > ?", digest, now)
            old = run("SELECT 1 FROM sessions WHERE expires <= ? LIMIT 1", now - _GRACE)
        if old:
            with self._database.writing() as run:
                run("DELETE FROM sessions WHERE expires <= ?", now - _GRACE)
        return found[0][0] if found else None

    # Hubs

    def alive(self, hub: str, now: float) -> None:
        """Note that a hub is there."""
        with self._database.writing() as run:
            run(
                "INSERT INTO hubs VALUES (?, ?) ON CONFLICT (hub) DO UPDATE SET seen = excluded.seen",
                hub,
                now,
            )

    def hubs(self, since: float) -> list[str]:
        """Return the names of hubs heard from since then, without what follows a slash; the leader first."""
        with self._database.reading() as run:
            names = {hub.partition("/")[0] for (hub,) in run("SELECT hub FROM hubs WHERE seen >= ?", since)}
            leaders = {hub for (hub,) in run("SELECT hub FROM lease")}
        return sorted(names, key=lambda name: (name not in leaders, name))

    def lead(self, hub: str, now: float, seconds: float) -> bool:
        """Take the lease, or renew it, unless another hub has it; return whether this hub leads.

        One that ends later than any lease can was taken before a clock was set back, and is nobody's.
        Zero seconds give it back. Two that believe they lead do no harm: whatever they log, the first wins.
        """
        with self._database.writing() as run:
            return bool(run(_LEASE, hub, now + seconds, now, now + seconds + _SKEW))


def _stored(client: int | None) -> int:
    if client is not None and client < 0:
        raise ConfigError(f"clients are counted from 0 on, not from {client}")
    return _OPERATOR if client is None else client
