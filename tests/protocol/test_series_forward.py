"""Rounds of a series have no secret in common: whoever opens a client in one learns nothing of the others."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.eavesdropper import Eavesdropper, StillHidden
from ccesa.crypto import keys, masks, shamir
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted, Advertised, Shared
from ccesa.protocol.masking import all_masks
from ccesa.protocol.schedule import with_number
from series_rounds import GUARDS, SeriesPlay, opened

VICTIM, ROUNDS, OPENED = 2, 3, 1


class Opener(Eavesdropper):
    """Hears every message of a round, and has every secret that a client had in some round."""

    def __init__(self, config):
        super().__init__(config)
        self.told = {}

    def secret(self, dealer, secret):
        return self.told.get((dealer, secret)) or super().secret(dealer, secret)

    def learn_all(self, states):
        """Both private keys, b, s, and the shares that it held of others."""
        advertised, accepted = states[Advertised], states[Accepted]
        for private in (advertised.sealing_private, advertised.mask_private, accepted.mask_private):
            self.learn_key(private)
        secret = shamir.to_bytes(advertised.mask_secret)
        self.learn_mask_secret(VICTIM, secret)
        self.learn_key(keys.mask_private_key(secret, self.context, VICTIM))  # perhaps it is good here as well
        self.told = {(VICTIM, "b"): accepted.self_secret, (VICTIM, "s"): secret}
        for dealer, row in zip(accepted.near.members.tolist(), accepted.shares, strict=True):
            self.gain(dealer, "b", VICTIM, row[: shamir.SHARE_BYTES])
            self.gain(dealer, "s", VICTIM, row[shamir.SHARE_BYTES :])


def played(guard):
    """Everything that was on the wire, and every state that the victim was in, by round."""
    play = SeriesPlay(guard, rounds=ROUNDS)
    ears = {c.context: Opener(c) for c in (with_number(play.config, number) for number in range(ROUNDS))}
    states = {number: {} for number in range(ROUNDS)}
    rounds = {}
    while not play.series.finished:
        for i, request in play.open().items():
            reply = play.clients[i].receive(request)
            for message in opened(request) + opened(reply):
                ears[m.context_of(message)].overhear(i, message)
            play.series.receive(i, reply)
        for number, client in play.clients[VICTIM]._clients.items():
            for kind in (Advertised, Shared, Accepted):
                if isinstance(client._state, kind):
                    states[number][kind], rounds[number] = client._state, client._round
        play.series.close()
    return play, list(ears.values()), states, rounds


@pytest.mark.parametrize("guard", GUARDS)
def test_who_has_all_secrets_of_a_round_opens_that_round_and_no_other(guard):
    play, ears, states, _ = played(guard)
    for ear in ears:
        with pytest.raises(StillHidden):  # what the server knows by itself
            ear.open({VICTIM})
        ear.learn_all(states[OPENED])
    assert np.array_equal(ears[OPENED].open({VICTIM}), play.vector(VICTIM, OPENED))
    for other in (OPENED - 1, OPENED + 1):
        with pytest.raises(StillHidden, match="stays on"):
            ears[other].open({VICTIM})
        assert {VICTIM} not in map(set, ears[other].partial_sums())


@pytest.mark.parametrize("guard", GUARDS)
def test_the_masks_of_a_round_come_off_no_other_vector_under_no_context(guard):
    """Without any reasoning about what is hidden: just take them off, with all contexts and neighbours."""
    play, ears, states, rounds = played(guard)

    def unmasked(of, context):
        """The victim's vector of round ``of``, without the masks that the secrets of OPENED give."""
        state, round = states[OPENED][Accepted], replace(rounds[OPENED], context=context)
        total = ears[of][VICTIM].vector.copy()
        off = [masks.Mask(key, -sign) for key, sign in all_masks(round, state, state.near.mask_neighbours)]
        masks.add_masks(total, off, play.config.generator)
        return total

    hits = {
        (of, under)
        for of in range(ROUNDS)
        for under in range(ROUNDS)
        if np.array_equal(unmasked(of, ears[under].context), play.vector(VICTIM, of))
    }
    assert hits == {(OPENED, OPENED)}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_client_that_is_opened_after_a_round_has_nothing_of_it_any_more(guard):
    """What it is suspended as, exchange by exchange, against the secrets of its first round."""
    play, secrets, found = SeriesPlay(guard, rounds=None), set(), []
    steps = len(play.series._schedule.requests)
    for _ in range(steps + 1):
        play.exchange()
        if 0 in play.clients[VICTIM].rounds:
            state = play.clients[VICTIM]._clients[0]._state
            secrets |= secrets_of(state)
        saved = play.clients[VICTIM].suspend()
        found.append({one for one in secrets if one in saved})
        play.clients[VICTIM] = play.client(VICTIM)
        play.clients[VICTIM].resume(saved)
    assert all(found[: steps - 1])  # in flight it has them, or nobody could go on
    released = {row[: shamir.SHARE_BYTES] for row in state.shares}
    assert found[steps - 1] <= released  # what it has just told the server, should it be asked again
    assert found[steps] == set()
    assert len(secrets) == 9  # two keys, b, and six shares


def secrets_of(state) -> set[bytes]:
    """Private keys, b, s and shares, as bytes."""
    found = {row[: shamir.SHARE_BYTES] for row in getattr(state, "shares", [])}
    for name in ("sealing_private", "mask_private"):
        if hasattr(state, name):
            found.add(getattr(state, name).private_bytes_raw())
    if hasattr(state, "self_secret"):
        found.add(state.self_secret)
    return found
