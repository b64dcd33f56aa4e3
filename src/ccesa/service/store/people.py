"""Members and their faults, tokens and sessions, and the hubs that are alive."""

from collections.abc import Mapping

from ccesa.errors import ConfigError
from ccesa.service.store import audit
from ccesa.service.store.database import StorePart, reason_of
from ccesa.service.store.rows import MemberRow, TokenRow

_OPERATOR = -1  # the client number of an operator's token
#: The lease is one row.
_LEASE = (
    "INSERT INTO lease VALUES (1, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET hub = excluded.hub, until = excluded.until"
    " WHERE lease.hub = excluded.hub OR lease.until <= ? OR lease.until > ? RETURNING hub"
)
_SKEW = 60.0  # Clocks of hubs differ by less. A later time is from before a clock was set back.
_GRACE = 3600.0  # seconds that a nonce is kept after its session ends, as clocks of hubs differ


class People(StorePart):
    # Members

    def members(self) -> dict[int, MemberRow]:
        """Return members by client id, without those that were never heard from."""
        rows = self._read(
            "SELECT client, blames, set_aside, seen, known_series, known_exchange FROM members ORDER BY client"
        )
        return {
            client: MemberRow(client=client, blames=blames, set_aside=reason, seen=seen, known=(series, exchange))
            for client, blames, reason, seen, series, exchange in rows
        }

    def note_contacts(self, times: Mapping[int, float]) -> None:
        """Note when members were heard from. An older time changes nothing, unless a clock was set back."""
        with self._database.writing() as run:
            run.many(
                "INSERT INTO members (client, seen) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
                " SET seen = excluded.seen WHERE members.seen < excluded.seen OR members.seen > ?",
                [(client, when, when + _SKEW) for client, when in sorted(times.items())],
            )

    def note_known(self, places: Mapping[int, tuple[int, int]]) -> None:
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
        """Count faults of members, and set those aside that reach the limit; return those newly set aside."""
        with self._database.alone() as run:
            return audit.blame(run, counts, reason, now, limit)

    def set_aside(self, client: int, reason: str) -> None:
        """Exclude a member until it is let in; the first reason stays."""
        sql = (
            "INSERT INTO members (client, set_aside) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
            " SET set_aside = excluded.set_aside WHERE members.set_aside = ''"
        )
        self._write(sql, client, reason_of(reason))

    def let_in(self, client: int) -> None:
        """Let a member take part again, and forget its faults."""
        self._write("UPDATE members SET blames = 0, set_aside = '' WHERE client = ?", client)

    # Tokens and sessions, by the hash of the bearer's token

    def add_token(self, digest: bytes, client: int | None, label: str) -> None:
        """Let the bearer of a token act for a client; None is the operator."""
        self._write("INSERT INTO tokens VALUES (?, ?, ?)", digest, _stored(client), label)

    def revoke_tokens(self, client: int | None) -> int:
        """Delete all tokens of a client, or of operators (None); return their number."""
        return len(self._write("DELETE FROM tokens WHERE client = ? RETURNING client", _stored(client)))

    def member_of(self, digest: bytes) -> int | None:
        """Return the client of a token; None for an unknown one and for an operator's."""
        found = self._bearer(digest)
        return None if found == _OPERATOR else found

    def is_operator(self, digest: bytes) -> bool:
        return self._bearer(digest) == _OPERATOR

    def _bearer(self, digest: bytes) -> int | None:
        rows = self._read("SELECT client FROM tokens WHERE hash = ?", digest)
        return rows[0][0] if rows else None

    def tokens(self) -> list[TokenRow]:
        rows = self._read("SELECT client, label FROM tokens ORDER BY client, label")
        return [TokenRow(client=None if client == _OPERATOR else client, label=label) for client, label in rows]

    def add_session(self, digest: bytes, nonce: bytes, client: int, expires: float) -> bool:
        """Begin a session; return False if the nonce was used before."""
        sql = "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING client"
        return bool(self._write(sql, digest, nonce, client, expires))

    def session(self, digest: bytes, now: float) -> int | None:
        """Return the client of a session that has not expired, and delete expired ones in time."""
        with self._database.reading() as run:
            found = run("SELECT client FROM sessions WHERE hash = ? AND expires > ?", digest, now)
            old = run("SELECT 1 FROM sessions WHERE expires <= ? LIMIT 1", now - _GRACE)
        if old:
            self._write("DELETE FROM sessions WHERE expires <= ?", now - _GRACE)
        return found[0][0] if found else None

    # Hubs

    def note_alive(self, hub: str, now: float) -> None:
        sql = "INSERT INTO hubs VALUES (?, ?) ON CONFLICT (hub) DO UPDATE SET seen = excluded.seen"
        self._write(sql, hub, now)

    def hubs(self, since: float) -> list[str]:
        """Return the names, up to a slash, of hubs heard from since then; the leader first."""
        with self._database.reading() as run:
            names = {hub.partition("/")[0] for (hub,) in run("SELECT hub FROM hubs WHERE seen >= ?", since)}
            leaders = {hub for (hub,) in run("SELECT hub FROM lease")}
        return sorted(names, key=lambda name: (name not in leaders, name))

    def lead(self, hub: str, now: float, seconds: float) -> bool:
        """Take or renew the lease, unless another hub has it; return whether this hub leads.

        Zero seconds give the lease back. A lease that ends too late is from before a clock was set back, and is
        void. Two hubs that both lead for a moment do no harm: the first entry in the log wins.
        """
        return bool(self._write(_LEASE, hub, now + seconds, now, now + seconds + _SKEW))


def _stored(client: int | None) -> int:
    if client is not None and client < 0:
        raise ConfigError(f"a client must be 0 or greater, not {client}")
    return _OPERATOR if client is None else client
