"""Rounds under the hybrid agreement: honest ones, those with cheats (C13), and what was recorded (S28)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.eavesdropper import Eavesdropper
from attacks.hostile import HostileRound
from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys
from ccesa.crypto.keys import AGREEMENTS, POST_QUANTUM, Content, Hybrid
from ccesa.errors import ConfigError, CorruptSeeds, CorruptShares, FaultyServer, RoundFailed
from ccesa.graphs import Complete, Harary
from ccesa.plan.price import Shape, price
from ccesa.protocol import dealing, masking, signed_texts
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.steps import steps_of
from ccesa.simulate import Exactly, make_charter, simulate
from rounds import CONFIGURE, Play, changed, charter_of, federation_of, identity, read, refuses
from series_rounds import SeriesPlay

N, CHEAT = 9, 4
RING = Harary(degree=6)
pytestmark = pytest.mark.needs("ml-kem")
guards = pytest.mark.parametrize("guard", CONFIGURE)


def configure(guard: str, agreement: str = POST_QUANTUM, **options) -> RoundConfig:
    options = {"graph": RING, **options}
    if guard == "curious":
        options["accept"] = True
    config = CONFIGURE[guard](N, agreement=agreement, **options)
    return config if config.accept else charter_of(config).config(length=config.length, accept=True)


def checked(play: HostileRound, gone=None) -> str:
    """An aggregate is the plain sum over the survivors; anything else is a named failure."""
    try:
        aggregate = play.finish(gone or {})
    except RoundFailed as failure:
        return type(failure).__name__
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    return "aggregate"


# Honest rounds


@guards
@pytest.mark.parametrize("graph", [Complete(), RING])
def test_a_round_gives_the_plain_sum(guard, graph):
    play = Play(configure(guard, graph=graph))
    aggregate = play.finish()
    assert aggregate.survivors == tuple(range(N))
    assert np.array_equal(aggregate.vector, play.expected(range(N)))
    assert not aggregate.evidence


def test_masks_on_some_edges_only():
    play = Play(configure("curious", graph=Harary(degree=6, mask_degree=4)))
    assert checked(play, {"mask": {2, 5}}) == "aggregate"


@guards
def test_the_pair_masks_of_many_dropouts_are_opened(guard):
    play = Play(configure(guard, graph=Complete()))
    assert checked(play, {"share": {1}, "mask": {3, 7}}) == "aggregate"


@guards
@settings(max_examples=25)
@given(data=st.data())
def test_random_dropouts_in_every_step_against_the_plain_sum(guard, data):
    config = configure(guard)
    names = [step.name for step in steps_of(config)]
    leaving = data.draw(st.lists(st.sampled_from([None, None, None, *names]), min_size=N, max_size=N))
    gone = {
        name: {i for i, step in enumerate(leaving) if step in names[: place + 1]} for place, name in enumerate(names)
    }
    outcome = checked(Play(config), gone)
    assert outcome in ("aggregate", "Unreliable", "Disconnected", "TooFewClients")


@guards
def test_every_step_in_a_new_object_and_the_private_key_goes_with_accept(guard):
    config = configure(guard)
    play, seeds, seen = Play(config), {}, {}
    while play.requests:
        step = play.server.step.name
        for i, request in play.requests.items():
            if (step, i) in {("mask", 2), ("unmask", 2), ("confirm", 2)}:
                continue
            reply = play.clients[i].receive(request)
            if step == "advertise":
                seeds[i] = play.clients[i]._state.kem_seed
            asleep = play.clients[i].suspend()
            seen.setdefault(step, []).append(seeds[i] in asleep)
            play.clients[i] = play.make_client(i)
            play.clients[i].resume(asleep)
            play.server.receive(i, reply)
        play.requests = play.server.close()
    assert all(len(seed) == 64 for seed in seeds.values())
    assert {step: set(found) for step, found in seen.items()} == {
        step.name: {step.name in ("advertise", "share")} for step in steps_of(config)
    }
    survivors = [i for i in range(N) if i != 2]
    assert np.array_equal(play.server.result().vector, play.expected(survivors))


def test_keys_are_fresh_in_every_round():
    bundles = [read(reply).keys for _ in range(2) for reply in Play(configure("curious")).replies().values()]
    every = [key for bundle in bundles for key in AGREEMENTS[POST_QUANTUM].public_keys(bundle)]
    assert len(set(every)) == len(every) == 6 * N


@guards
def test_a_series_gives_the_plain_sums(guard):
    """One client misses each of some exchanges, and others have summed their masks ahead."""
    play = SeriesPlay(guard, clients=9, rounds=3, agreement=POST_QUANTUM)

    def misses(exchange: int, client: int) -> bool:
        if client % 2:
            play.clients[client].prepare()
        return exchange in (2, 4) and client == exchange

    ended = play.run(misses)  # compares with the plain sums
    assert [one.number for one in ended] == [0, 1, 2]
    assert all(one.aggregate for one in ended)
    assert any(len(one.aggregate.survivors) < 9 for one in ended)


# What is refused


def test_without_accept_there_is_no_hybrid():
    with pytest.raises(ConfigError, match="x25519-mlkem768 needs accept = True"):
        RoundConfig(clients=N, length=5, agreement=POST_QUANTUM)
    charter = make_charter([identity(i) for i in range(N)], agreement=POST_QUANTUM)
    assert charter.config(length=5).accept
    with pytest.raises(ConfigError, match="needs accept"):
        charter.config(length=5, accept=False)


def test_the_agreement_is_a_part_of_the_context():
    same = {"clients": N, "length": 5, "series_id": bytes(32), "accept": True}
    assert RoundConfig(**same).context != RoundConfig(**same, agreement=POST_QUANTUM).context


def bundled(play: Play, client: int, reply: bytes, keys: bytes) -> bytes:
    """With these keys, signed where a signature belongs to them."""
    if isinstance(play.clients[client], ActiveClient):
        text = signed_texts.bundle_text(play.config.context, client, keys)
        return changed(reply, keys=keys, signature=identity(client).sign(text))
    return changed(reply, keys=keys)


#: From the bundles of a liar and another client, what the liar advertises, and why it is refused.
BAD_BUNDLES = {
    "without the key of ML-KEM": (lambda own, other: own[:64], "expected 1248 bytes, got 64"),
    "a byte less": (lambda own, other: own[:-1], "expected 1248 bytes, got 1247"),
    "a byte more": (lambda own, other: own + b"\0", "expected 1248 bytes, got 1249"),
    "numbers from the modulus on": (lambda own, other: own[:64] + b"\xff" * 1184, "not a valid ML-KEM-768 public key"),
    "low order": (lambda own, other: bytes(32) + own[32:], "low order"),
    "another's key of ML-KEM": (lambda own, other: own[:64] + other[64:], "advertised before"),
    "another's mask key": (lambda own, other: own[:32] + other[32:64] + own[64:], "advertised before"),
}


@guards
@pytest.mark.parametrize("name", BAD_BUNDLES)
def test_c4_c5_bad_keys_are_refused_and_the_others_go_on(guard, name):
    make, match = BAD_BUNDLES[name]
    play = Play(configure(guard))
    said = play.replies()
    for i in set(said) - {CHEAT}:
        play.server.receive(i, said[i])
    own, other = read(said[CHEAT]).keys, read(said[0]).keys
    refuses(play, CHEAT, bundled(play, CHEAT, said[CHEAT], make(own, other)), match)
    play.close()
    assert checked(play) == "aggregate"
    assert CHEAT not in play.server.result().survivors


#: What a lying server makes of the bundles that it shows a client, and what the client says.
BAD_SHOWN = {
    "malformed": (lambda own, one, two: one[:64] + b"\xff" * 1184 + two, "not a valid ML-KEM-768 public key"),
    "twice": (lambda own, one, two: one + two[:64] + one[64:], "a public key occurs twice"),
    "its own": (lambda own, one, two: one + two[:64] + own[64:], "a public key occurs twice"),
    "cut": (lambda own, one, two: one + two[:-1], "expected"),
}


@guards
@pytest.mark.parametrize("name", BAD_SHOWN)
def test_a_client_refuses_bad_keys_as_the_fault_of_the_server(guard, name):
    make, match = BAD_SHOWN[name]
    play = Play(configure(guard)).until("share")
    request, size = play.requests[0], 1248
    shown, own = read(request).keys, read(play.said["advertise"][0]).keys
    lie = make(own, shown[:size], shown[size : 2 * size]) + shown[2 * size :]
    with pytest.raises(FaultyServer, match=match):
        play.clients[0].receive(changed(request, keys=lie))
    assert play.clients[0].done


@guards
@pytest.mark.parametrize("size", [0, 48, 5 * 48, 7 * 48, 6 * 48 + 1])
def test_deposits_of_another_size_are_refused(guard, size):
    play = Play(configure(guard)).until("accept")
    said = play.replies()
    refuses(play, 0, changed(said[0], deposits=bytes(size)), f"deposits: expected 288 bytes, got {size}")
    assert not play.server._state.seeds._deposits.any()
    play.server.receive(0, said[0])
    assert play.server._state.seeds._deposits.any()


@guards
def test_classical_deposits_are_empty(guard):
    play = Play(configure(guard, agreement="x25519")).until("accept")
    said = play.replies()
    assert {read(reply).deposits for reply in said.values()} == {b""}
    refuses(play, 0, changed(said[0], deposits=bytes(48)), "deposits: expected 0 bytes, got 48")


@guards
@settings(max_examples=12)
@given(place=st.integers(0, 1231), bit=st.integers(0, 7), commitment=st.booleans())
def test_what_was_changed_on_its_way_to_one_client_costs_an_edge_and_no_sum(guard, place, bit, commitment):
    """Ciphertext, sealed text, commitment to the seed, commitment to b: nobody masks with any of it."""
    play = Play(configure(guard)).until("accept")
    request = read(play.requests[0])
    first = sorted(other for other in play.server.graph.ids[play.server.graph.neighbours(0)].tolist())[0]

    def flip(data: bytes, place: int) -> bytes:
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    if commitment:
        lie = {"commitments": flip(request.commitments, place % 32)}
    else:
        lie = {"sealed": flip(request.sealed, place)}
    play.step(to_client=lambda i, data: changed(data, **lie) if i == 0 else data)
    assert play.server._accusations == {(0, first)}
    assert checked(play) in ("aggregate", "Unreliable", "Disconnected", "TooFewClients")


def test_a_text_for_another_is_not_taken():
    """The server gives client 0 what client 2 sealed for client 1."""
    play = Play(configure("curious", graph=Complete())).until("accept")
    texts = m.items("sealed", read(play.said["share"][2]).sealed, N - 1, 1232)
    sealed = bytearray(read(play.requests[0]).sealed)
    sealed[1232 : 2 * 1232] = texts[1]  # the second neighbour of client 0 is client 2
    reply = play.clients[0].receive(changed(play.requests[0], sealed=bytes(sealed)))
    assert m.unpack_ids("accused", read(reply).accused, N).tolist() == [2]
    assert read(reply).deposits[48:96] == bytes(48)


# C13: cheats. Each is the honest agreement but for what its class says.


def another(*parts: object) -> bytes:
    return keys.labels.digest(b"another", repr(parts).encode())


class WrongCiphertext(Hybrid):
    def seal(self, sealing, encapsulated, content, context, ends):
        text = super().seal(sealing, encapsulated, content, context, ends)
        return bytes([text[0] ^ 1]) + text[1:]


class CiphertextForItself(Hybrid):
    def seal(self, sealing, encapsulated, content, context, ends):
        (encapsulated,) = self.encapsulate_each([ends.sender_keys])
        return super().seal(sealing, encapsulated, content, context, ends)


class WrongSeed(Hybrid):
    """Promises one seed and seals another."""

    def seal(self, sealing, encapsulated, content, context, ends):
        self.promised = content.seed
        return super().seal(sealing, encapsulated, Content(content.shares, another(ends)), context, ends)

    def seed_commitment(self, seed, context, client, other):
        return super().seed_commitment(self.promised, context, client, other)


class WrongCommitment(Hybrid):
    """Promises what it does not have; the text itself is in order."""

    def seed_commitment(self, seed, context, client, other):
        return another(client, other)


class CommitmentChanged(Hybrid):
    def seal(self, sealing, encapsulated, content, context, ends):
        return super().seal(sealing, encapsulated, content, context, ends)[:-32] + bytes(32)


class NotFromTheSecret(Hybrid):
    """Gives seeds that nobody can derive, promises them, and masks with them."""

    def pair_seed(self, secret, context, client, other):
        return another(secret, client, other)


class EmptyDeposit(Hybrid):
    def deposit(self, secret, seed, context, client, other):
        return bytes(self.deposit_bytes)


class DepositOfAnotherSeed(Hybrid):
    """It opens."""

    def deposit(self, secret, seed, context, client, other):
        return super().deposit(secret, another(seed), context, client, other)


class DepositForAnother(Hybrid):
    def deposit(self, secret, seed, context, client, other):
        return super().deposit(secret, seed, context, client, (other + 1) % N)


class DepositUnderAnotherSecret(Hybrid):
    def deposit(self, secret, seed, context, client, other):
        return super().deposit(another(secret), seed, context, client, other)


#: Noticed by the neighbours at once.
ACCUSED = [WrongCiphertext, CiphertextForItself, WrongSeed, WrongCommitment, CommitmentChanged]
#: Noticed only if it matters: when the cheat drops out after its shares were accepted.
FAILS = [NotFromTheSecret, EmptyDeposit, DepositOfAnotherSeed, DepositForAnother, DepositUnderAnotherSecret]


class Only(Hybrid):
    """Cheats towards these, and is honest to all others."""

    def __init__(self, cheat: Hybrid, victims: set[int]) -> None:
        self._cheat, self._victims = cheat, victims

    def _towards(self, other: int) -> Hybrid:
        return self._cheat if other in self._victims else AGREEMENTS[POST_QUANTUM]

    def seal(self, sealing, encapsulated, content, context, ends):
        return self._towards(ends.recipient).seal(sealing, encapsulated, content, context, ends)

    def pair_seed(self, secret, context, client, other):
        return self._towards(other).pair_seed(secret, context, client, other)

    def deposit(self, secret, seed, context, client, other):
        return self._towards(other).deposit(secret, seed, context, client, other)


def cheating(play: Play, cheat: type[Hybrid], victims: set[int]) -> Play:
    """Replace one client by one that does all it does by another agreement of the same name."""
    known = {POST_QUANTUM: Only(cheat(), victims)}
    sealed = relaxed(dealing.seal, AGREEMENTS=known)
    steps = weaken(
        share=in_step(answer=without(deal=relaxed(dealing.deal, AGREEMENTS=known, seal=sealed))),
        accept=in_step(answer=without(acknowledge=relaxed(masking.acknowledge, AGREEMENTS=known))),
    )
    honest = play.clients[CHEAT]

    class Cheat(Weakened, type(honest)):
        weaker = steps

    if isinstance(honest, ActiveClient):
        members = federation_of(play.config)
        one = Cheat(play.config, identity(CHEAT), members.charter, play.vectors[CHEAT], tasks=None)
    else:
        one = Cheat(play.config, CHEAT, play.vectors[CHEAT])
    play.clients[CHEAT] = one
    return play


others = st.integers(0, N - 1).filter(lambda i: i != CHEAT)


def near_cheat(play: Play) -> set[int]:
    """Its neighbours in the graph as it was drawn, whatever accusations took out of it."""
    graph = play.server.graph
    graph = graph if graph.drawn is None else graph.drawn[0]
    return set(graph.ids[graph.neighbours(graph.nodes[CHEAT])].tolist())


@guards
@pytest.mark.parametrize("cheat", ACCUSED)
@settings(max_examples=8, deadline=None)
@given(
    victims=st.sets(others, min_size=1),
    leaves=st.sampled_from([None, "accept", "mask", "unmask"]),
    graph=st.sampled_from([Complete(), RING]),
)
def test_c13_what_its_neighbours_cannot_use_is_accused(guard, cheat, victims, leaves, graph):
    play = cheating(Play(configure(guard, graph=graph)), cheat, victims)
    names = [step.name for step in steps_of(play.config)]
    gone = {} if leaves is None else {name: {CHEAT} for name in names[names.index(leaves) :]}
    outcome = checked(play, gone)
    told = (play.server.aggregate or play.server.failure).evidence
    assert told.accusations == {(one, CHEAT) for one in victims & near_cheat(play)}
    assert not told.wrong_shares
    assert outcome in ("aggregate", "Unreliable", "Disconnected", "TooFewClients")


@guards
@pytest.mark.parametrize("cheat", ACCUSED)
def test_c13_one_victim_costs_no_round(guard, cheat):
    play = cheating(Play(configure(guard, graph=Complete())), cheat, {1})
    assert checked(play) == "aggregate"
    assert set(play.server.result().survivors) >= set(range(N)) - {1, CHEAT}


@guards
@pytest.mark.parametrize("cheat", FAILS)
@settings(max_examples=8, deadline=None)
@given(victims=st.sets(others, min_size=1), also=st.sets(others, max_size=1))
def test_c13_who_drops_out_is_held_to_what_was_promised(guard, cheat, victims, also):
    play = cheating(Play(configure(guard, graph=Complete())), cheat, victims)
    gone = {key: {CHEAT, *also} for key in ("mask", "confirm", "unmask")}
    if victims <= also:  # then no mask that is left rests on what it changed
        assert checked(play, gone) == "aggregate"
        return
    with pytest.raises(CorruptShares, match=f"the masks of client {CHEAT} cannot be rebuilt") as failure:
        play.finish(gone)
    assert isinstance(failure.value, CorruptSeeds)
    assert failure.value.client == CHEAT
    assert not failure.value.evidence


@guards
@pytest.mark.parametrize("cheat", FAILS)
def test_c13_who_stays_has_changed_nothing(guard, cheat):
    play = cheating(Play(configure(guard, graph=Complete())), cheat, set(range(N)))
    assert checked(play, {"mask": {2}, "confirm": {2}, "unmask": {2}}) == "aggregate"
    assert CHEAT in play.server.result().survivors


@guards
def test_wrong_shares_of_others_are_evidence_beside_wrong_seeds(guard):
    play = cheating(Play(configure(guard, graph=Complete())), EmptyDeposit, set(range(N)))
    play.until("unmask", {key: {CHEAT} for key in ("mask", "confirm")})

    def spoil(i: int, reply: bytes) -> bytes:
        words = np.frombuffer(read(reply).shares, "<u2").reshape(-1, 16).astype(np.int64).copy()
        words[3] = (words[3] + 1) % 65521
        return changed(reply, shares=words.astype("<u2").tobytes()) if i == 7 else reply

    with pytest.raises(CorruptSeeds) as failure:
        play.step(gone={CHEAT}, to_server=spoil)
    assert {(one.sender, one.dealer) for one in failure.value.evidence.wrong_shares} == {(7, 3)}


def test_a_false_accusation_costs_the_edge_and_the_deposit_is_not_read():
    play = Play(configure("curious", graph=Complete())).until("accept")
    lie = {"accused": m.pack_ids(np.array([1])), "deposits": bytes(8 * 48)}
    play.step(to_server=lambda i, reply: changed(reply, **lie) if i == 0 else reply)
    assert checked(play) == "aggregate"
    assert play.server.result().survivors == tuple(range(N))


# S28: traffic recorded, X25519 opened later


class Recorded(Play):
    """A round of which every byte is recorded, and the keys of every client, for later."""

    def __init__(self, config: RoundConfig) -> None:
        super().__init__(config)
        self.heard, self.states = Eavesdropper(config), {}

    def ask(self, client: int, request: bytes) -> bytes | None:
        reply = super().ask(client, request)
        self.states.setdefault(client, self.clients[client]._state)
        for message in (request, reply):
            self.heard.overhear(client, message)
        return reply


def recorded(guard: str, agreement: str) -> Recorded:
    play = Recorded(configure(guard, agreement=agreement))
    play.finish({key: {2} for key in ("mask", "confirm", "unmask")})
    return play


def opened_by(play: Recorded, *, x25519: bool, ml_kem: bool) -> set[frozenset[int]]:
    """The sums that somebody can open who has all private keys of these kinds."""
    for state in play.states.values():
        if x25519:
            play.heard.learn_key(state.sealing_private)
            play.heard.learn_key(state.mask_private)
        if ml_kem:
            play.heard.learn_kem_seed(state.kem_seed)
    sums = play.heard.partial_sums()
    assert all(np.array_equal(vector, play.expected(group)) for group, vector in sums.items())
    return set(sums)


SURVIVORS = frozenset(range(N)) - {2}
SINGLE = {frozenset({i}) for i in SURVIVORS}


@guards
def test_s28_all_keys_of_x25519_open_no_vector(guard):
    assert opened_by(recorded(guard, POST_QUANTUM), x25519=True, ml_kem=False) == {SURVIVORS}


@guards
def test_s28_all_keys_of_ml_kem_open_no_vector(guard):
    assert opened_by(recorded(guard, POST_QUANTUM), x25519=False, ml_kem=True) == {SURVIVORS}


@guards
def test_s28_without_the_hybrid_or_with_keys_of_both_every_vector_is_open(guard):
    assert opened_by(recorded(guard, "x25519"), x25519=True, ml_kem=False) == SINGLE
    assert opened_by(recorded(guard, POST_QUANTUM), x25519=True, ml_kem=True) == SINGLE


# What it costs


@guards
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_the_price_is_within_three_percent_of_the_measured_bytes(guard, agreement):
    config = configure(guard, agreement=agreement, length=200, graph=Complete())
    report = simulate(config, dropout=Exactly({}), federation=federation_of(config), seed=0)
    shape = Shape(
        clients=N,
        degree=N - 1,
        mask_degree=N - 1,
        threshold=5,
        length=200,
        bits=config.bits,
        dropout=0.0,
        guard=guard,
        agreement=agreement,
        accept=True,
    )
    cost = price(shape)
    assert report.client_bytes["sent"] == pytest.approx(cost.sent_bytes, rel=0.03)
    assert report.client_bytes["received"] == pytest.approx(cost.received_bytes, rel=0.03)
