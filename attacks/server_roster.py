"""A server that lies about who takes part, with which keys, next to whom.

S7 to S11, S20: ``active`` has to hold.
"""

import os
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import numpy as np

from attacks import craft
from attacks.base import Attack, Outcome, Tell
from attacks.colluders import ActiveColluder
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import Stage, active, changed, inputs, names, opened
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import merkle
from ccesa.errors import ConfigError
from ccesa.graphs import ErdosRenyi, Harary
from ccesa.protocol import active_client, signed_texts
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.client_states import VectorSource
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import enrol, make_charter

VICTIM = 3


class NoProof(Weakened, ActiveClient):
    """Does not ask whether the root belongs to the roster it was shown."""

    weaker = weaken(share=in_step(answer=without(check_inclusion=skip)))


# S7

COLLUDERS = frozenset(range(12, 17))


class GrindingServer(Server):
    """Tries roots until the victim stands among colluders; an honest root follows from the keys."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tries = 0
        chosen = SimpleNamespace(leaf=signed_texts.leaf, root=self._grind)
        first = in_step(close=without(signed_texts=chosen))(self._steps[0])
        self._steps = (first, *self._steps[1:])

    def _grind(self, context: bytes, v1: bytes, top: bytes) -> bytes:
        everyone = np.flatnonzero(m.unpack_set("V1", v1, self.config.clients))
        while True:
            self.tries += 1
            root = os.urandom(merkle.HASH_BYTES)
            seed = signed_texts.seed(context, root)
            near = self.config.graph.neighbours(seed, everyone, int(np.searchsorted(everyone, VICTIM)))
            if COLLUDERS.issuperset(everyone[near].tolist()):
                return root


def wrong_neighbours(defended: bool, tell: Tell) -> Outcome:
    """Five colluders among seventeen; by chance all four neighbours are colluders in one round of 364."""
    kind = ActiveClient if defended else NoProof
    stage = active(17, tell, kind=kind, server=GrindingServer, colluders=COLLUDERS, graph=Harary(degree=4))
    stage.step()
    tries = getattr(stage.server, "tries", 0)
    tell(f"server made up {tries} roots, until {names(COLLUDERS)} had all the places next to client {VICTIM}")
    stage.until("confirm")
    return stage.steal({VICTIM})


# S8


def changed_roster(defended: bool, tell: Tell) -> Outcome:
    """The seed is fixed, then the victim's honest neighbours are struck off the list it is shown."""
    colluders = frozenset(range(14, 24))
    kind = ActiveClient if defended else NoProof
    stage = active(24, tell, kind=kind, colluders=colluders, graph=ErdosRenyi(p=0.5))
    stage.step()
    seen = stage.overheard
    stage.look_ahead()
    victim, struck = _who_can_be_struck_off(seen, colluders)
    v1 = np.ones(24, bool)
    v1[struck] = False
    tell(f"server draws the graph over all 24, then shows client {victim} a roster without {names(struck)}")
    short = craft.introduce(seen, victim, v1, root=seen[victim].root)
    stage.step(to_client=lambda client, request: short if client == victim else request)
    if victim not in stage.aborted:
        tell(f"client {victim} has only {names(seen[victim].neighbours)} for neighbours, all of them colluders")
        stage.ask(victim, craft.mask_among(seen, victim, v1))
    return stage.steal({victim})


def _who_can_be_struck_off(seen: Eavesdropper, colluders: Collection[int]) -> tuple[int, list[int]]:
    """A victim with at least two colluders beside it, and few enough others for the client's own floor."""
    for victim in range(14):
        honest = [j for j in seen[victim].neighbours if j not in colluders]
        if len(seen[victim].neighbours) - len(honest) >= 2 and len(honest) < 11:
            return victim, honest
    raise StillHidden("no client of this round has two colluders for neighbours")


# S9


class UnsignedKeys(Weakened, ActiveClient):
    """Takes keys without asking who signed them."""

    weaker = weaken(share=in_step(answer=without(check_signed_keys=skip)))


def forged(true: Charter, puppets: list[Identity]) -> Charter:
    """A charter with the server's own keys that claims to be the true one."""
    made = make_charter(puppets)
    vars(made)["digest"] = true.digest  # a cached property, filled with a lie
    return made


def replaced_keys(defended: bool, tell: Tell) -> Outcome:
    """The server plays everyone but the victim, with keys of its own under their names."""
    if defended:
        _swap_keys(tell)
    identities, puppets = enrol(9), enrol(9)
    true = make_charter(identities)
    puppets[VICTIM] = identities[VICTIM]
    false = forged(true, puppets)
    config = true.config(length=8)
    vectors = inputs(config)
    made: dict[int, ActiveClient] = {
        i: ActiveColluder(config, one, false, vectors[i], tasks=None) for i, one in enumerate(puppets)
    }
    kind = ActiveClient if defended else UnsignedKeys
    made[VICTIM] = kind(config, identities[VICTIM], true, vectors[VICTIM], tasks=None)
    tell(f"server replaces the keys of all eight neighbours of client {VICTIM} by keys of its own")
    stage = Stage(Server(config, false), made, vectors, tell).until("confirm")
    return stage.steal({VICTIM})


def _swap_keys(tell: Tell) -> None:
    """The rest of the row, on a round of its own: the keys of one client swapped, and two bundles."""
    stage = active(9, tell)
    stage.step()
    tell("server swaps the two keys of client 2 on their way to client 0, and clients 2 and 4 for client 1")
    stage.ask(0, _with_keys(stage, 0, {2: stage.overheard[2].keys[32:] + stage.overheard[2].keys[:32]}))
    stage.ask(1, _with_keys(stage, 1, {2: stage.overheard[4].keys, 4: stage.overheard[2].keys}))
    stage.tell_aborts()


def _with_keys(stage: Stage, client: int, instead: dict[int, bytes]) -> bytes:
    stage.overheard.overhear(client, stage.requests[client])
    shown = {**stage.overheard[client].shown_keys, **instead}
    return changed(stage.requests[client], keys=b"".join(shown[j] for j in sorted(shown)))


# S10


def _rootless(text: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda context, root, *rest: text(context, bytes(merkle.HASH_BYTES), *rest)


#: The signed texts without the root of the roster.
_ROOTLESS = SimpleNamespace(
    **{
        **vars(signed_texts),
        "masking_text": _rootless(signed_texts.masking_text),
        "confirmed_text": _rootless(signed_texts.confirmed_text),
    }
)


class RootlessSignatures(Weakened, ActiveClient):
    """Signs V2 and V3 without saying of which roster."""

    weaker = weaken(
        mask=in_step(answer=without(mask=relaxed(active_client.mask, signed_texts=_ROOTLESS))),
        confirm=in_step(answer=without(signed_texts=_ROOTLESS)),
        unmask=in_step(answer=without(check_confirmed=relaxed(active_client.check_confirmed, signed_texts=_ROOTLESS))),
    )


def different_rosters(defended: bool, tell: Tell) -> Outcome:
    """Both rosters are in order by themselves; in one of them client 8 never came.

    Nobody loses a vector by this alone: each client's neighbourhood, threshold and holders are those of its
    own roster. What is lost is that all who release shares agree on who takes part.
    """
    stage = active(9, tell, kind=ActiveClient if defended else RootlessSignatures)
    stage.step()
    everyone, eight = np.ones(9, bool), np.arange(9) < 8
    tell("server shows clients 0 to 3 a roster of all nine, and clients 4 to 7 one without client 8")
    for client in range(8):
        stage.ask(client, craft.introduce(stage.overheard, client, everyone if client < 4 else eight))
    tell("server tells all eight the same V2 and V3: clients 0 to 7")
    for client in range(8):
        stage.ask(client, craft.mask_among(stage.overheard, client, eight))
    for client in range(8):
        stage.ask(client, craft.confirm(stage.overheard, client, eight))
    for client in range(8):
        stage.ask(client, craft.unmask(stage.overheard, client))
    end = stage.steal(range(8))
    summary = "eight clients with two different rosters released their shares, and nobody noticed"
    return Outcome(succeeded=True, summary=summary) if end.succeeded and not stage.aborted else end


# S11


def believing(served: Charter) -> type[ActiveClient]:
    """A client that takes the charter from the server."""

    class TakesTheServersCharter(ActiveClient):
        def __init__(
            self, config: RoundConfig, identity: Identity, own: Charter, vector: VectorSource, **others: Any
        ) -> None:
            super().__init__(config, identity, served, vector, **others)

    return TakesTheServersCharter


def never_admitted(defended: bool, tell: Tell) -> Outcome:
    """Ten clients are admitted. The server's list has the victim, and nine that it made up."""
    honest, made_up = enrol(10), enrol(10)
    made_up[VICTIM] = honest[VICTIM]
    own, served = make_charter(honest), make_charter(made_up)
    config = served.config(length=8)
    vectors = inputs(config)
    tell(f"server opens a round under a charter of its own: client {VICTIM} and nine that nobody admitted")
    kind = ActiveClient if defended else believing(served)
    try:
        victim = kind(config, honest[VICTIM], own, vectors[VICTIM], tasks=None)
    except ConfigError as error:
        return Outcome(succeeded=False, summary=f"client {VICTIM} refused before it made keys: {error}")
    made = {
        i: ActiveClient(config, one, served, vectors[i], tasks=None) for i, one in enumerate(made_up) if i != VICTIM
    }
    stage = Stage(Server(config, served), {**made, VICTIM: victim}, vectors, tell)
    rest = stage.finish().vector - stage.expected(made)
    return opened(rest, vectors[VICTIM], "the sum without the nine made up vectors is the victim's")


# S20


class AnyRoster(Weakened, ActiveClient):
    """Takes a roster of three as well."""

    weaker = weaken(share=in_step(answer=without(check_size=skip)))


class ColludesInAnyRoster(ActiveColluder):
    """A friend of the server's, who does not mind either."""

    weaker = AnyRoster.weaker


class ShowsAnyRoster(Weakened, Server):
    """Goes on with however few it says have come."""

    weaker = weaken(advertise=in_step(close=without(check_roster=skip)))


def small_roster(defended: bool, tell: Tell) -> Outcome:
    """Three of 24 admitted clients collude, too few for any threshold; of a roster of four they are most."""
    colluders = frozenset({20, 21, 22})
    kind = ActiveClient if defended else AnyRoster
    stage = active(
        24, tell, kind=kind, server=ShowsAnyRoster, colluders=colluders, colluder=ColludesInAnyRoster, least_roster=13
    )
    tell(f"server pretends that of 24 clients only client {VICTIM} and its friends {names(colluders)} came")
    stage.step(gone=set(range(24)) - colluders - {VICTIM})
    stage.until("confirm")
    return stage.steal({VICTIM})


# S24


def ghosts(defended: bool, tell: Tell) -> Outcome:
    """Five of 24 members came. The server fills the roster up to 20 and more with others, and plays these."""
    came, members = range(5), range(24)
    identities, puppets = enrol(24), enrol(24)
    true = make_charter(identities, least_roster=20)
    puppets[:5] = identities[:5]
    false = forged(true, puppets)
    config = true.config(length=8)
    vectors = inputs(config)
    kind = ActiveClient if defended else UnsignedKeys
    made: dict[int, ActiveClient] = {i: kind(config, identities[i], true, vectors[i], tasks=None) for i in came}
    made |= {i: ActiveColluder(config, puppets[i], false, vectors[i], tasks=None) for i in members if i not in came}
    tell("server names 19 members that never came in the roster, with keys of its own; 20 have to be there")
    stage = Stage(Server(config, false), made, vectors, tell).until("confirm")
    return stage.steal({VICTIM})


ROSTER_LIES = (
    Attack(
        number="S7",
        name="wrong-neighbours",
        title="a neighbourhood that the roster does not give: the victim among colluders",
        guard="active",
        defence="the root, and with it the graph, is proven to belong to the roster",
        run=wrong_neighbours,
    ),
    Attack(
        number="S8",
        name="changed-roster",
        title="the roster changed after the graph seed was fixed",
        guard="active",
        defence="the root commits to every member of V1",
        run=changed_roster,
    ),
    Attack(
        number="S9",
        name="replaced-keys",
        title="public keys replaced by the server's own, or swapped",
        guard="active",
        defence="keys are signed by the identities in the client's own charter",
        run=replaced_keys,
    ),
    Attack(
        number="S10",
        name="different-rosters",
        title="different rosters to different clients",
        guard="active",
        defence="the root of the roster is part of every signed text",
        run=different_rosters,
    ),
    Attack(
        number="S11",
        name="never-admitted",
        title="identities that nobody admitted",
        guard="active",
        defence="the charter with its members is the client's own",
        run=never_admitted,
    ),
    Attack(
        number="S20",
        name="small-roster",
        title="a small roster packed with colluders",
        guard="active",
        defence="the charter's least roster",
        run=small_roster,
    ),
    Attack(
        number="S24",
        name="ghosts",
        title="a roster filled up with members that never came",
        guard="active",
        defence="every neighbour has to have signed its keys for this round",
        run=ghosts,
    ),
)
