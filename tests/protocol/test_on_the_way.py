"""What was received is what was sent: a bit that changes on its way may cost the round, never the sum.

Under ``curious`` no message is signed. Sealed texts are bound to the public keys of both ends and to whether
masks run between them, and a masked vector carries its tag.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import FaultyClient, FaultyServer, OrderError, RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.protocol import messages as m
from rounds import Play, accused_in, changed, configure, read, refuses, total_of

N = 7
#: A client, and one of the bits of its two public keys.
clients = st.integers(0, N - 1)
key_bits = st.integers(0, 2 * 32 * 8 - 1)
graph_kinds = st.sampled_from([Complete(), Harary(degree=4), Complete(mask_degree=2)])


def flip(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def with_flipped_key(reply: bytes, bit: int) -> bytes:
    """An advertisement with one bit of its two keys changed."""
    return changed(reply, keys=flip(read(reply).keys, bit))


class Carried(Play):
    """A round among honest parties, to whom not all messages come as they were sent."""

    def __init__(self, graph: Graph | None = None):
        super().__init__(configure(N, graph=graph or Complete()))
        self.refused: set[int] = set()
        self.accused: dict[int, set[int]] = {}

    def ask(self, client: int, request: bytes) -> bytes | None:
        """Whose message is refused by either side has dropped out."""
        try:
            return super().ask(client, request)
        except (FaultyServer, OrderError):
            self.refused.add(client)
            return None

    def hand_over(self, client: int, reply: bytes) -> None:
        try:
            super().hand_over(client, reply)
        except FaultyClient:
            self.refused.add(client)
            return
        if isinstance(read(reply), m.Complaint):
            self.accused[client] = accused_in(reply)

    def run(self, step: str, **on_the_way) -> None:
        """To the end. In this step messages change; what comes of it is the exact sum, or none."""
        try:
            while self.requests:
                self.step(**on_the_way if self.server.step.name == step else {})
        except RoundFailed as failure:
            assert self.server.aggregate is None
            evidence = failure.evidence
        else:
            aggregate = self.server.result()
            assert np.array_equal(aggregate.vector, self.expected(aggregate.survivors))
            evidence = aggregate.evidence
        assert evidence.accusations == {(i, j) for i, of in self.accused.items() for j in of}


@settings(max_examples=80)
@given(clients, key_bits, graph_kinds)
def test_a_public_key_changed_on_its_way_to_the_server(victim, bit, graph):
    """All neighbours get the wrong key: the victim complains of all of them, and they of the victim."""
    play = Carried(graph)
    play.run("advertise", to_server=lambda i, reply: with_flipped_key(reply, bit) if i == victim else reply)
    assert victim in play.refused | play.accused.keys()
    for accuser, of in play.accused.items():
        assert victim == accuser or of == {victim}
    assert victim not in getattr(play.server.aggregate, "survivors", ())


@settings(max_examples=80)
@given(clients, clients, key_bits, graph_kinds)
def test_a_public_key_changed_on_its_way_to_one_neighbour(recipient, place, bit, graph):
    """Sealing key or mask key: both ends know it before a vector is masked with it."""
    play = Carried(graph)
    play.step()
    near = m.unpack_ids("neighbours", read(play.requests[recipient]).neighbours, N).tolist()
    place %= len(near)

    def tamper(i, request):
        return changed(request, keys=flip(read(request).keys, 512 * place + bit)) if i == recipient else request

    play.run("share", to_client=tamper)
    if recipient in play.refused:  # the changed key is of low order, or not in reduced form
        assert not play.accused
    else:
        assert play.accused == {recipient: {near[place]}, near[place]: {recipient}}


@settings(max_examples=30)
@given(clients)
def test_the_two_keys_of_a_client_change_places_on_their_way(victim):
    def swap(i, reply):
        sealing, masking = AGREEMENTS["x25519"].public_keys(read(reply).keys)
        return changed(reply, keys=masking + sealing) if i == victim else reply

    play = Carried()
    play.run("advertise", to_server=swap)
    others = set(range(N)) - {victim}
    assert play.accused == {victim: others} | {other: {victim} for other in others}


@settings(max_examples=60)
@given(clients, st.sets(st.integers(0, N - 2), min_size=2, max_size=2).map(sorted))
def test_two_neighbours_keys_change_places_on_their_way(victim, places):
    def swap(i, request):
        bundles = m.items("keys", read(request).keys, N - 1, 64)
        bundles[places[0]], bundles[places[1]] = bundles[places[1]], bundles[places[0]]
        return changed(request, keys=b"".join(bundles)) if i == victim else request

    play = Carried()
    play.run("share", to_client=swap)
    swapped = {sorted(set(range(N)) - {victim})[place] for place in places}
    assert play.accused == {victim: swapped} | {other: {victim} for other in swapped}


@settings(max_examples=60)
@given(clients, st.integers(0, N - 2), st.sampled_from([Complete(mask_p=0.7), ErdosRenyi(p=0.9, mask_p=0.6)]))
def test_a_mask_flag_changed_on_its_way(victim, place, graph):
    """With ``mask_p`` nobody knows how many there should be."""
    play = Carried(graph)
    play.run("share", to_client=lambda i, request: flags_of(request, [place]) if i == victim else request)


@settings(max_examples=60)
@given(clients, st.sets(st.integers(0, N - 2), min_size=2, max_size=2))
def test_two_mask_flags_that_change_places_on_their_way(victim, places):
    play = Carried(Complete(mask_degree=2))
    play.run("share", to_client=lambda i, request: flags_of(request, places) if i == victim else request)


def flags_of(request: bytes, places) -> bytes:
    """The request with these mask flags turned over; of two only if they differ, so that as many stay."""
    flags = bytearray(read(request).masked)
    places = [place for place in places if place < len(flags)]
    if len(places) != 2 or flags[places[0]] != flags[places[1]]:
        for place in places:
            flags[place] ^= 1
    return changed(request, masked=bytes(flags))


def opened(step: str) -> Carried:
    play = Carried()
    while play.server.step.name != step:
        play.step()
    return play


@settings(max_examples=60)
@given(clients, st.integers(0, 5 * 16 - 1))
def test_a_masked_vector_with_another_bit_is_refused_and_the_right_one_still_counts(sender, bit):
    play = opened("mask")
    reply = play.clients[sender].receive(play.requests.pop(sender))
    wrong = changed(reply, vector=flip(bytes(read(reply).vector), bit))
    refuses(play, sender, wrong, "the masked vector is not the one that its tag was made of")
    play.server.receive(sender, reply)
    play.run("")
    assert play.server.aggregate.survivors == tuple(range(N))


@settings(max_examples=60)
@given(clients, st.data())
def test_any_bit_of_the_message_with_a_masked_vector(sender, data):
    """Also of its tag, context, client and headers: all are refused."""
    play = opened("mask")
    reply = play.clients[sender].receive(play.requests.pop(sender))
    bit = data.draw(st.integers(0, 8 * len(reply) - 1))
    with pytest.raises(FaultyClient):
        play.server.receive(sender, flip(reply, bit))
    assert not total_of(play.server).any()
    play.run("")
    assert play.server.aggregate.survivors == tuple(i for i in range(N) if i != sender)


@settings(max_examples=60)
@given(clients, st.data())
def test_a_sealed_text_with_another_bit_is_a_complaint(recipient, data):
    play = opened("mask")
    sealed = read(play.requests[recipient]).sealed
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sender = sorted(set(range(N)) - {recipient})[bit // (8 * 80)]

    def tamper(i, request):
        return changed(request, sealed=flip(sealed, bit)) if i == recipient else request

    play.run("mask", to_client=tamper)
    assert play.accused == {recipient: {sender}}
    assert play.server.aggregate.survivors == tuple(i for i in range(N) if i != recipient)
