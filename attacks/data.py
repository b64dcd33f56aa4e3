"""Attacks on the data of one site, by a server or a reader of its sums: the rows D of docs/security.md."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from attacks.base import Attack, Outcome, Tell
from attacks.stage import Stage, Vectors, names
from ccesa.agreement.config import RoundConfig
from ccesa.privacy import DifferentialPrivacy, Ledger, NoisyQuantizer, choose_mechanism
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import VectorSource
from ccesa.protocol.masking import Careful
from ccesa.protocol.server import Server
from ccesa.statistics import Category, Number, Schema
from ccesa.statistics.packing import pack_exact
from ccesa.statistics.tally import Sums, Tally, count_table, small_parts
from ccesa.words import Vector

CLIENTS, VICTIM, DIMENSION = 8, 3, 256
HONEST = CLIENTS - 1
NOISE = choose_mechanism(
    DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=1.0),
    clients=CLIENTS,
    honest=HONEST,
    dimension=DIMENSION,
)
QUANTIZER = NoisyQuantizer.for_model([np.zeros(DIMENSION)], NOISE)
Source = Callable[[int], Callable[[], Vector]]


def failing_contribution(defended: bool, tell: Tell) -> Outcome:
    """The task is one for which training fails at sites with a certain patient."""
    config = RoundConfig(clients=CLIENTS, length=NOISE.length, bits=64, min_survivors=HONEST)
    ledgers = [_ledger() for _ in range(CLIENTS)]
    tell(f"the server asks for a model for which training fails where such a patient is: {names([VICTIM])}")
    stage = _stage(config, ledgers, lambda i: _train(config, fails=i == VICTIM), defended, tell)
    stage.until("mask")
    silent = set()
    for client, request in stage.requests.items():
        try:
            stage.hand_over(client, stage.clients[client].receive(request))
        except ZeroDivisionError:  # its process says so in a log, and sends nothing
            silent.add(client)
    stage.close()
    stage.to_the_end()
    charged = [ledger.spent().vectors for ledger in ledgers]
    tell(f"  vectors charged, client by client: {charged}")
    summary = f"{CLIENTS - len(silent)} of {CLIENTS} sent a vector"
    if silent:
        summary += f": all but {names(silent)}"
    return Outcome(succeeded=silent == {VICTIM}, summary=summary)


def _train(config: RoundConfig, *, fails: bool) -> Callable[[], Vector]:
    def train() -> Vector:
        if fails:
            raise ZeroDivisionError("no healthy patient to compare with")
        return QUANTIZER.encode([np.zeros(DIMENSION)], config.context).vector

    return train


def same_noise(defended: bool, tell: Tell) -> Outcome:
    """Everyone's function gives what it made for the first round; the victim is not asked in the second."""
    made = {i: QUANTIZER.encode([np.zeros(DIMENSION)], bytes(32)).vector for i in range(CLIENTS)}
    ledgers = [_ledger() for _ in range(CLIENTS)]
    tell("functions remember their vectors: the same words, with the same noise, for both rounds")
    sums = []
    for gone in ((), (VICTIM,)):
        config = RoundConfig(clients=CLIENTS, length=NOISE.length, bits=64, min_survivors=HONEST)
        stage = _stage(config, ledgers, lambda i: partial(made.__getitem__, i), defended, tell)
        stage.to_the_end({"advertise": gone})
        if stage.server.aggregate is None:
            return Outcome(succeeded=False, summary=f"there is no sum: {stage.failure}")
        sums.append(stage.server.aggregate.vector)
    drawn = NOISE.fields.split(sums[0] - sums[1])[0][:DIMENSION]
    counted = float(np.var(drawn)) / float(NOISE.s2)
    tell(f"the sums differ by {names([VICTIM])}; their difference has noise as of {counted:.1f} clients")
    summary = f"noise as of {counted:.1f} around one client; two rounds promise that of {2 * HONEST}"
    return Outcome(succeeded=counted < HONEST, summary=summary, stolen=sums[0] - sums[1], victim=made[VICTIM])


def _stage(config: RoundConfig, ledgers: list[Ledger], source: Source, defended: bool, tell: Tell) -> Stage:
    """A round of clients with ledgers. The defence is what the package does around the caller's function."""
    vectors: Vectors = {i: np.zeros(config.length, np.uint64) for i in range(CLIENTS)}
    clients = {i: Client(config, i, _guarded(source(i), defended), account=ledgers[i].account(NOISE)) for i in vectors}
    return Stage(Server(config), clients, vectors, tell)


def _guarded(function: Callable[[], Vector], defended: bool) -> VectorSource:
    return function if defended else Careful(function)


def _ledger() -> Ledger:
    return Ledger.in_memory(epsilon=8.0, delta=1e-6)


SCHEMA = Schema(
    name="HIV ward",
    least_group=5,
    group_by=("ward",),
    numbers=(Number(name="viral load", lower=0, upper=10**7, measures=("mean",)),),
    categories=(Category(name="ward", values=("one", "two")),),
)
LOAD = 48_113


def rare_value(defended: bool, tell: Tell) -> Outcome:
    """A ward has five patients, and one of them a viral load."""
    loads = [LOAD, None, None, None, None]
    rows = [{"ward": "one", "viral load": load} for load in loads]
    tell(f"a site counts a ward of five; viral loads: {loads}; least_group = {SCHEMA.least_group}")
    tally = count_table(SCHEMA, rows)
    total = pack_exact(tally if defended else Tally(SCHEMA, _by_records(rows), len(rows), 0))
    (group,) = SCHEMA.decode(total, 1).groups
    found = group.numbers["viral load"]
    tell(f"the report: {group.records} records, {found.count} value(s), mean {found.mean}")
    summary = f"the mean of {found.count} value(s) is {found.mean}"
    return Outcome(succeeded=found.count == 1 and found.mean == LOAD, summary=summary)


def _by_records(rows: Sequence[Mapping[str, object]]) -> Sums:
    """Count, and leave out by the number of records alone."""
    everything = Schema(**{name: getattr(SCHEMA, name) for name in SCHEMA.__struct_fields__} | {"least_group": 1})
    sums = count_table(everything, rows).sums
    if any(column is None for _, column, _ in small_parts(SCHEMA, sums)):
        raise LookupError("the ward itself would be left out")
    return sums


DATA_ATTACKS = (
    Attack(
        number="D2",
        name="failing-contribution",
        title="a task for which some sites' functions fail, to see which",
        guard="curious",
        defence="zeros with noise, charged like all others, where the function fails",
        run=failing_contribution,
    ),
    Attack(
        number="D3",
        name="same-noise",
        title="one noisy vector for two rounds, of which the second is without one client",
        guard="curious",
        defence="a vector that was made for another round does not leave",
        run=same_noise,
    ),
    Attack(
        number="D4",
        name="rare-value",
        title="exact statistics of a group of five in which one record has a value",
        guard="curious",
        defence="a site leaves out columns with fewer values than least_group",
        run=rare_value,
    ),
)
