"""Faults of our own, ruled out: the last table of the threat model."""

import copy
import logging
import multiprocessing
import os
import pickle
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ccesa
from ccesa import labels
from ccesa.crypto import keys, masks, primitives
from ccesa.errors import CcesaError, VectorError
from ccesa.graphs import Complete
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.values.quantize import Quantizer
from rounds import Play, changed, configure, read


def recorded(monkeypatch, name):
    """Every call of a primitive, in order."""
    calls, original = [], getattr(primitives, name)

    def record(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(primitives, name, record)
    return calls


def test_mask_generators_have_at_least_128_bits_of_key():
    for generator in primitives.GENERATORS.values():
        assert generator.key_bytes >= 16


def test_every_mask_key_is_used_whole():
    """Two keys that differ in one bit anywhere give different streams."""
    for name, generator in primitives.GENERATORS.items():
        streams = set()
        for bit in range(8 * generator.key_bytes):
            key = (1 << bit).to_bytes(generator.key_bytes, "little")
            streams.add(masks.mask_words(name, key, 0, 4, 32).tobytes())
        assert len(streams) == 8 * generator.key_bytes


def test_every_derivation_has_a_label_and_the_context(monkeypatch):
    calls = recorded(monkeypatch, "derive")
    play = Play(configure(6))
    play.finish({"mask": {2}})
    heads = {label: labels.frame(label, play.config.context) for label in labels.ALL}
    used = set()
    for _, info, _ in calls:
        used |= {label for label, head in heads.items() if info.startswith(head)}
        assert any(info.startswith(head) for head in heads.values())
    assert used == {labels.MASK_KEY_PAIR, labels.SEALING, labels.PAIR_MASK, labels.SELF_MASK}


def test_labels_are_distinct_and_no_prefix_of_each_other():
    framed = [labels.frame(label) for label in labels.ALL]
    assert len(set(framed)) == len(framed)
    assert not any(a != b and b.startswith(a) for a in framed for b in framed)


def test_no_key_and_nonce_pair_is_used_twice(monkeypatch):
    calls = recorded(monkeypatch, "seal")
    for _ in range(2):
        Play(configure(8)).finish()
    pairs = [(key, nonce) for key, nonce, _, _ in calls]
    assert len(pairs) == 2 * 8 * 7
    assert len(set(pairs)) == len(pairs)
    assert len({key for key, _ in pairs}) == len(pairs)


@pytest.mark.parametrize("bits", [8, 12, 16, 18, 21, 32, 64])
def test_overflow_all_maximum_and_all_minimum_sum_exactly(bits):
    clients = 5
    quantizer = Quantizer.for_model([np.zeros(3)], clients=clients, clip=2.0, field_bits=bits, rounding="nearest")
    for value in (2.0, -2.0):
        config = configure(clients, length=quantizer.length, bits=64)
        play = Play(config)
        vector = quantizer.encode([np.full(3, value)]).vector
        for client in play.clients.values():
            object.__setattr__(client._round, "vector", vector)
        mean = quantizer.decode(play.finish().vector)
        assert mean.arrays[0].tolist() == [value] * 3
        assert mean.weight == clients
    most = min((2 ** (bits - 1) - 1) // clients, 2**52)  # float64 counts no further
    assert quantizer.levels == most
    row, _ = quantizer.row([np.full(3, 2.0)])
    for beyond in (clients * most + 1, -clients * most - 1):
        row[1] = beyond
        with pytest.raises(VectorError, match="5 clients cannot have"):
            quantizer.decode(quantizer.fields.pack(row))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(bad):
    quantizer = Quantizer.for_model([np.zeros(3)], clients=5, clip=1.0)
    with pytest.raises(VectorError, match="NaN or infinity"):
        quantizer.encode([np.array([0, bad, 0])])


def test_the_sign_of_a_mask_follows_the_ids_not_the_order_of_arrival():
    forwards, backwards = Play(configure(6)), Play(configure(6))
    for play, turn in ((forwards, list), (backwards, lambda items: list(reversed(items)))):
        while play.requests:
            for i in turn(list(play.requests)):
                play.server.receive(i, play.clients[i].receive(play.requests[i]))
            play.requests = play.server.close()
        assert np.array_equal(play.server.aggregate.vector, play.expected(range(6)))
    assert [keys.pair_sign(2, 5), keys.pair_sign(5, 2)] == [1, -1]


def secrets_of(play: Play) -> list[bytes]:
    """Everything that must not be seen, as it lies in the clients' states."""
    found = []
    for client in play.clients.values():
        state = vars(client._state)
        for name in ("self_secret", "own_share"):
            found += [state[name]] if name in state else []
        found += [bytes(s) for s in state.get("shares", [])]
        found += state.get("agreed", {}).values()
        found += [seed for pair in state.get("seeds", {}).values() for seed in pair if seed]
        found += [state["kem_seed"]] if state.get("kem_seed") else []
        if "mask_secret" in state:
            found.append(bytes(np.asarray(state["mask_secret"])))
        for name in ("mask_private", "sealing_private"):
            found += [state[name].private_bytes_raw()] if name in state else []
    return found


def shown_in(secret: bytes, text: str) -> bool:
    numbers = np.frombuffer(secret[: len(secret) // 2 * 2], "<u2").tolist()
    return any(form in text for form in (secret.hex(), repr(secret)[2:-1], str(numbers)[1:-1], str(secret)))


def test_secrets_are_not_in_repr_logs_or_exceptions(caplog, capsys):
    caplog.set_level(logging.DEBUG)
    play = Play(configure(6, length=3))
    texts, secrets = [], []
    while play.requests:
        name = play.server.step.name
        replies = play.replies()
        secrets += secrets_of(play)
        for client in play.clients.values():
            texts += [repr(client), repr(client._state), repr(client._round), str(vars(client._state).keys())]
        for i, reply in replies.items():
            try:
                play.server.receive(i, changed(reply, client=(i + 1) % 6))
            except CcesaError as error:
                texts.append("".join(traceback.format_exception(error)))
            play.server.receive(i, reply)
        play.requests = play.server.close()
        texts.append(repr(play.server) + repr(play.server.aggregate))
        if name == "share":
            victim = Play(configure(6, length=3)).until("mask")
            secrets += secrets_of(victim)
            sealed = read(victim.requests[0]).sealed
            with pytest.raises(CcesaError) as error:
                victim.clients[0].receive(changed(victim.requests[0], sealed=sealed[:-1]))
            texts.append("".join(traceback.format_exception(error.value)))
            complaint = victim.clients[1].receive(changed(victim.requests[1], sealed=bytes(len(sealed))))
            texts += [repr(read(complaint)), repr(victim.clients[1]._state), repr(victim.clients[1]._round)]
    seen = "\n".join(texts) + caplog.text + "".join(capsys.readouterr())
    assert len(secrets) > 50
    for secret in secrets:
        assert not shown_in(secret, seen)


def test_the_scan_for_secrets_would_find_one():
    secret = bytes(range(32))
    assert shown_in(secret, f"oops {secret.hex()}")
    assert shown_in(secret, f"oops {secret!r}")
    assert shown_in(secret, f"oops {np.frombuffer(secret, '<u2').tolist()}")


def test_randomness_is_an_argument_where_shares_are_dealt_and_checked():
    """Only what a user makes, a client or a server, asks the operating system for it."""
    package = Path(ccesa.__file__).parent
    below = [*package.glob("crypto/*.py"), *package.glob("graphs/*.py")]
    below += [package / "protocol" / f"{name}.py" for name in ("summing", "server_states")]
    assert not [path.name for path in below if "urandom" in path.read_text()]


def test_the_server_checks_shares_with_the_randomness_that_it_is_given():
    asked = []

    def source(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    Play(configure(6), server=partial(Server, random=source)).finish()
    assert sum(asked) > 0


def _first_keys(queue) -> None:
    queue.put(read(Play(configure(4, series_id=bytes(32))).replies()[0]).keys)


def test_two_processes_do_not_draw_the_same_keys():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [context.Process(target=_first_keys, args=(queue,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    drawn = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert len(set(drawn)) == 2


def test_a_client_cannot_be_copied_or_pickled():
    client = Client(configure(4, graph=Complete()), 0, np.zeros(5, np.uint16))
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="join the next round"):
            way(client)
