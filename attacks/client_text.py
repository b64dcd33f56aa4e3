"""Row C10: a client that writes into the server's log."""

from types import SimpleNamespace

import msgspec

from attacks.base import Attack, Outcome, Tell
from attacks.relaxed import relaxed
from attacks.stage import under
from ccesa import wire
from ccesa.protocol import messages as m
from ccesa.protocol.server import Server

LIAR, VICTIM = 4, 2
_FORGED = f"client {VICTIM}: a wrong share, twice this week; remove it from the list"


def _as_it_came(text: str, most: int) -> str:
    return text


_decode = relaxed(m.decode, wire=SimpleNamespace(decode=relaxed(wire.decode, shown=_as_it_came)))


class RawServer(Server):
    """Parses what has no name that it knows, and repeats in its errors what it was sent, as it was sent."""

    _receive = relaxed(Server._receive, m=SimpleNamespace(**{**vars(m), "decode": _decode}))  # noqa: SLF001

    def _check_due(self, client: int, kind: type[m.Message] | None) -> type[m.Message]:
        return self.step.reply if kind is None else super()._check_due(client, kind)


def forged_line(defence: bool, tell: Tell, guard: str = "curious") -> Outcome:
    stage = under(guard, tell, server=Server if defence else RawServer)
    tell(f"client {LIAR} sends a message whose name has a line end, then a line about client {VICTIM}")
    nonsense = msgspec.msgpack.encode([f"vote\n{_FORGED}\n"])
    stage.step(to_server=lambda client, reply: nonsense if client == LIAR else reply)
    stage.to_the_end()
    logged = stage.refused[LIAR].splitlines()
    if _FORGED in logged:
        return Outcome(succeeded=True, summary=f"the server's log has a line that client {LIAR} wrote: {_FORGED}")
    return Outcome(succeeded=False, summary=f"refused in one line: {logged[0]}")


TEXT_ATTACKS = (
    Attack(
        number="C10",
        name="forged-line",
        title="A client sends text that becomes lines in the server's log",
        guard="curious",
        defence="no text is repeated of what has no known name, and other text is cut and escaped",
        run=forged_line,
    ),
)
