"""Vectors of clients are charged to a ledger: before they leave, once, whatever became of the round."""

import threading
from os import urandom

import numpy as np
import pytest

from ccesa.errors import BudgetSpent, ConfigError, DamagedLedger, FaultyServer, OrderError, RoundFailed, TaskSpent
from ccesa.memory import VECTOR, ProcessMemory
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.privacy.ledger import Account, Ledger
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.spending import Spending
from rounds import Play, changed, charter, charter_of, configure, configure_active, federation_of, identity
from series_rounds import SeriesPlay

TASK, OTHER = b"\1" * 32, b"\2" * 32
CLIENTS = 5
guards = pytest.mark.parametrize("guard", ["curious", "active"])


def mechanism(rounds: int = 3, epsilon: float = 3.0, honest: int = 2) -> Mechanism:
    demand = DifferentialPrivacy(epsilon=epsilon, delta=1e-6, rounds=rounds, norm=1.0)
    return choose_mechanism(demand, clients=CLIENTS, honest=honest, dimension=20)


NOISE = mechanism()
AGREED = {"bits": 64, "privacy": NOISE}


def noisy_charter(**agreed):
    return charter(CLIENTS, **{**AGREED, **agreed})


class Site:
    """Where client 0 lives: what it remembers across rounds. The others have ledgers without end."""

    def __init__(self, guard: str, ledger: Ledger | None = None, attempts: int = 1000):
        self.guard, self.tasks, self.attempts = guard, ProcessMemory(), attempts
        self.ledger = ledger or Ledger.in_memory(epsilon=NOISE.epsilon, delta=NOISE.delta)

    def config(self):
        if self.guard == "active":
            return noisy_charter(attempts=self.attempts).config(length=NOISE.length)
        return configure(CLIENTS, bits=64, length=NOISE.length)

    def account(self, config) -> Account:
        return account_of(self.ledger, config)

    def client(self, config, vector=None, **options) -> Client:
        vector = (lambda: np.ones(NOISE.length, np.uint64)) if vector is None else vector
        options = {"task": TASK, "tasks": self.tasks, "account": self.account(config), **options}
        if self.guard == "active":
            return ActiveClient(config, identity(0), charter_of(config), vector, **options)
        return Client(config, 0, vector, attempts=self.attempts, **options)

    def round(self, task: bytes = TASK, **options) -> Play:
        config = self.config()
        play = OthersPlay(config, task=task)
        play.vectors[0] = np.ones(NOISE.length, np.uint64)
        play.clients[0] = self.client(config, task=task, **options)
        return play

    @property
    def charged(self) -> int:
        return len(self.ledger.charges())


class OthersPlay(Play):
    def make_client(self, i: int, **options) -> Client:
        return super().make_client(i, account=endless(self.config), **options)


def account_of(ledger: Ledger, config) -> Account:
    return ledger.account(NOISE, charter_of(config).digest if federation_of(config) else None)


def endless(config) -> Account:
    return account_of(Ledger.in_memory(epsilon=50.0, delta=0.5), config)


@guards
def test_the_budget_ends_after_exactly_as_many_vectors_as_it_has_room_for(guard):
    """The next round gets neither a key nor a vector, and goes on without this client."""
    site, sent, made, drawn = Site(guard), [], [], []
    for number in range(NOISE.rounds):
        play = site.round(bytes([100 + number]) * 32)
        assert np.array_equal(play.finish().vector, play.expected(range(CLIENTS)))
        sent.append((play.task.hex(), play.config.round_id.hex()))
    assert [(entry.task, entry.round) for entry in site.ledger.charges()] == sent
    play = site.round(OTHER, vector=lambda: made.append(1), random=drawn.append).until("advertise")
    for _ in range(2):
        with pytest.raises(BudgetSpent, match="no vector leaves"):
            play.clients[0].receive(play.requests[0])
    assert not made
    assert not drawn
    play.step(gone={0})
    assert play.finish().survivors == (1, 2, 3, 4)
    assert site.charged == NOISE.rounds
    assert not list(site.tasks.entries(VECTOR, OTHER))


@guards
def test_a_vector_is_charged_before_it_leaves_and_when_the_server_asks_for_it(guard):
    site = Site(guard)
    play = site.round(vector=lambda: seen.append(site.charged) or np.ones(NOISE.length, np.uint64))
    seen = []
    play.until("mask")
    assert site.charged == 0
    play.step()
    assert seen == [0]
    assert site.charged == 1
    (entry,) = site.ledger.charges()
    assert entry.mechanism == NOISE.digest.hex()
    assert entry.charter == (play.config.charter.hex() if guard == "active" else None)
    assert play.finish().survivors == tuple(range(CLIENTS))
    assert site.charged == 1


@guards
def test_s36_a_lost_round_is_charged_and_its_repetition_has_fresh_noise(guard):
    """Colluders may know the sum of a round that was lost: with noise every attempt counts."""
    site, drawn, model = Site(guard), [], [np.linspace(-1, 1, NOISE.dimension)]
    quantizer = NoisyQuantizer.for_model(model, NOISE)

    def vector():
        drawn.append(quantizer.encode(model, play.config.context).vector)
        return drawn[-1]

    for attempt in range(1, NOISE.rounds + 1):
        play = site.round(vector=vector).until("mask")
        play.clients[0].receive(play.requests[0])
        with pytest.raises(RoundFailed):
            play.server.close()
        assert site.charged == attempt
    assert len({one.tobytes() for one in drawn}) == NOISE.rounds
    again = site.round(vector=vector).until("advertise")
    with pytest.raises(BudgetSpent):
        again.clients[0].receive(again.requests[0])
    assert len(drawn) == NOISE.rounds


@guards
def test_a_request_that_is_repeated_is_not_charged_twice(guard):
    site = Site(guard)
    play = site.round().until("mask")
    play.clients[0].receive(play.requests[0])
    for _ in range(2):
        with pytest.raises(OrderError, match="was already returned"):
            play.clients[0].receive(play.requests[0])
    with pytest.raises(FaultyServer):
        play.clients[0].receive(changed(play.requests[0], task=OTHER))
    assert site.charged == 1


@guards
@pytest.mark.parametrize("step", ["advertise", "share", "mask"])
def test_a_round_that_is_lost_before_the_vector_leaves_costs_nothing(guard, step):
    site = Site(guard)
    play = site.round().until(step)
    with pytest.raises(FaultyServer):
        play.clients[0].receive(changed(play.requests[0], client=1))
    assert site.charged == 0


@guards
def test_a_budget_that_ends_while_a_round_is_under_way_lets_no_vector_of_it_leave(guard):
    """Another round was faster: before the vector is made, and without counting the task."""
    site, made = Site(guard), []
    late = site.round(OTHER, vector=lambda: made.append(1)).until("mask")
    for _ in range(NOISE.rounds):
        site.round().finish()
    for _ in range(2):
        with pytest.raises(BudgetSpent):
            late.clients[0].receive(late.requests[0])
    assert not made
    assert not list(site.tasks.entries(VECTOR, OTHER))
    late.step(gone={0})
    assert late.finish().survivors == (1, 2, 3, 4)
    assert site.charged == NOISE.rounds


@guards
def test_a_task_that_is_spent_charges_nothing(guard):
    site = Site(guard, attempts=1)
    site.round().finish()
    play = site.round().until("mask")
    with pytest.raises(TaskSpent):
        play.clients[0].receive(play.requests[0])
    assert site.charged == 1


@guards
def test_nothing_is_charged_where_the_task_cannot_be_counted(guard):
    """What is never given back is charged last."""

    class FullDisk(ProcessMemory):
        def add(self, entry):
            raise OSError("no space left on device")

    site = Site(guard)
    play = site.round(tasks=FullDisk()).until("mask")
    with pytest.raises(OSError, match="no space"):
        play.clients[0].receive(play.requests[0])
    assert site.charged == 0


@guards
def test_nothing_leaves_where_the_ledger_cannot_be_charged(guard, tmp_path):
    """Damaged while the round is under way, or from the beginning: before a key exists."""
    drawn, path = [], tmp_path / "ledger"
    site = Site(guard, Ledger.new(path, epsilon=3.0, delta=1e-6))
    play, whole = site.round().until("mask"), path.read_bytes()
    path.write_bytes(whole.replace(b"3.0", b"9.0"))
    with pytest.raises(DamagedLedger, match="line 1"):
        play.clients[0].receive(play.requests[0])
    assert not list(site.tasks.entries(VECTOR))
    later = site.round(random=drawn.append).until("advertise")
    with pytest.raises(DamagedLedger):
        later.clients[0].receive(later.requests[0])
    assert not drawn
    path.write_bytes(whole)
    play.step()
    assert play.finish().survivors == tuple(range(CLIENTS))
    assert site.charged == 1


@guards
def test_a_client_that_wakes_up_after_its_last_vector_finishes_the_round(guard):
    """The budget is spent then, by this very vector; the others wait for its shares."""
    site = Site(guard, Ledger.in_memory(epsilon=NOISE.epsilon, delta=NOISE.delta))
    for _ in range(NOISE.rounds - 1):
        site.round().finish()
    play, asleep = site.round(), None
    while play.requests:
        play.clients[0] = site.client(play.config)
        if asleep is not None:
            play.clients[0].resume(asleep)
        replies = play.replies()
        asleep = play.clients[0].suspend()
        for i, reply in replies.items():
            play.server.receive(i, reply)
        play.requests = play.server.close()
    assert np.array_equal(play.server.result().vector, play.expected(range(CLIENTS)))
    assert site.charged == NOISE.rounds


@guards
def test_of_two_rounds_at_once_the_last_vector_leaves_once(guard, tmp_path):
    site, left, refused = Site(guard, Ledger.new(tmp_path / "ledger", epsilon=3.0, delta=1e-6)), [], []
    for _ in range(NOISE.rounds - 1):
        site.account(site.config()).charge(TASK, bytes(36))
    plays = [site.round(tasks=None).until("mask") for _ in range(3)]

    def answer(play: Play) -> None:
        try:
            left.append(play.clients[0].receive(play.requests[0]))
        except BudgetSpent as error:
            refused.append(error)

    threads = [threading.Thread(target=answer, args=[play]) for play in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(left), len(refused)) == (1, 2)
    assert site.charged == NOISE.rounds


def test_a_refusal_in_between_costs_an_attempt_and_never_the_other_way_round():
    """Another process may charge between check and charge: the count of the task is one too many then."""

    class Raced:
        def check(self) -> None:
            pass

        def charge(self, task: bytes, round_id: bytes) -> None:
            raise BudgetSpent("another process was faster")

    tasks = ProcessMemory()
    spending = Spending(config=configure(), memory=tasks, attempts=2, account=Raced())
    with pytest.raises(BudgetSpent):
        spending.send(spending.name(TASK), TASK)
    assert [entry.key[:32] for entry in tasks.entries(VECTOR)] == [TASK]


# Charters with noise


def test_under_a_charter_with_noise_a_client_needs_its_account():
    config = noisy_charter().config(length=NOISE.length)
    with pytest.raises(ConfigError, match=r"charter has noise, but this client has no ledger: give it an account"):
        Site("active").client(config, account=None)


def test_an_account_is_for_the_noise_of_the_charter_and_for_this_charter():
    config = noisy_charter().config(length=NOISE.length)
    plain = configure_active(CLIENTS, bits=64)
    ledger = Ledger.in_memory(epsilon=3.0, delta=1e-6)
    other = noisy_charter(attempts=7)
    site, drawn = Site("active"), []
    for wrong in (
        ledger.account(mechanism(rounds=4), config.charter),
        ledger.account(NOISE, other.digest),
        ledger.account(NOISE, None),
    ):
        with pytest.raises(ConfigError, match="the account is for other noise, or another charter"):
            site.client(config, account=wrong, random=drawn.append)
    with pytest.raises(ConfigError, match="the account is for other noise, or another charter"):
        site.client(plain, lambda: np.ones(5, np.uint64), account=ledger.account(NOISE, plain.charter))
    site.client(plain, np.ones(5, np.uint64), account=None)
    assert not drawn


# Without a charter the server proposes the round


@pytest.mark.parametrize(
    ("proposed", "match"),
    [
        ({"min_survivors": NOISE.honest}, r"counts on 3 honest clients in every sum, .* opens sums of 2"),
        ({"length": NOISE.length + 1}, r"made for \d+ words of 64 bits, but the round has \d+ words of 64"),
        ({"bits": 32}, r"words of 64 bits, but the round has \d+ words of 32"),
    ],
)
def test_a_round_with_less_noise_than_is_charged_is_refused_before_a_key_exists(proposed, match):
    """S29: a server proposes sums of fewer clients than the noise of everyone's account counts on."""
    config = configure(CLIENTS, **{"bits": 64, "length": NOISE.length, **proposed})
    more = NOISE if "min_survivors" not in proposed else mechanism(honest=NOISE.honest + 1)
    ledger, drawn = Ledger.in_memory(epsilon=3.0, delta=1e-6), []
    vector = np.ones(config.length, f"u{config.bits // 8}")
    Client(config, 0, vector)
    with pytest.raises(ConfigError, match=match):
        Client(config, 0, lambda: vector, account=ledger.account(more), random=drawn.append)
    assert not drawn
    assert not ledger.charges()


# Series


class NoisySeries(SeriesPlay):
    """A series in which client 0 has a ledger of three vectors, and the others have room."""

    def __init__(self, guard: str, rounds: int):
        self.ledger, self.keys = Ledger.in_memory(epsilon=NOISE.epsilon, delta=NOISE.delta), []
        agreed = AGREED if guard == "active" else {"bits": 64}
        super().__init__(guard, CLIENTS, rounds, length=NOISE.length, **agreed)

    def party(self, i: int, config, **options) -> Client:
        account = endless(config) if i else account_of(self.ledger, config)
        random = {} if i else {"random": lambda size: self.keys.append(config.number) or urandom(size)}
        return super().party(i, config, account=account, **random, **options)


@guards
def test_a_series_goes_on_without_a_client_whose_budget_is_spent_and_says_why(guard):
    play, faults = NoisySeries(guard, rounds=7), {}
    ended = []
    while not play.series.finished:
        ended += play.exchange()
        faults |= play.clients[0].faults
    who = {one.number: one.aggregate.survivors for one in ended}
    others = tuple(range(1, CLIENTS))
    assert who == {n: tuple(range(CLIENTS)) if n < NOISE.rounds else others for n in range(7)}
    assert len(play.ledger.charges()) == NOISE.rounds
    assert set(faults) == set(range(NOISE.rounds, 7))
    assert {type(fault) for fault in faults.values()} == {BudgetSpent}
    # Under ``curious`` keys of the next round are older than the last vector; no others are made.
    assert max(play.keys) == {"curious": NOISE.rounds, "active": NOISE.rounds - 1}[guard]
    assert play.clients[0].rounds == ()


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_shares_of_a_round_leave_once_whatever_is_copied(guard, tmp_path):
    """Two clients that go on from one copy would give both kinds of shares of a neighbour away."""
    site = Site(guard)
    play = site.round().until("unmask")
    asleep, request = play.clients[0].suspend(), play.requests[0]
    one, other = (site.client(play.config) for _ in range(2))
    for twin in (one, other):
        twin.resume(asleep)
    one.receive(request)
    with pytest.raises(OrderError, match="another process of this client has released its shares"):
        other.receive(request)
