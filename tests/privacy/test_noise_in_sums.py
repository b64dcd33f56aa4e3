"""S29: the noise of at least H honest clients is in every sum that can be opened, whoever chooses who leaves.

Whole rounds with real vectors. Colluders tell the server all they know, seal garbage, accuse and leave as
drawn; honest clients drop out as drawn. Whatever can be opened from every byte on the wire is opened, and the
noise in it is counted in clients, and measured.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks import server_cut
from attacks.client_cut import Garbler
from attacks.client_noise import around_an_arc, honest_sums
from attacks.colluders import ActiveColluder
from attacks.stage import Stage, active, ids
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, RoundFailed, TooFewClients
from ccesa.graphs import Complete, Graph, Harary
from ccesa.graphs.thresholds import Fixed, Majority, Threshold
from ccesa.plan import charters, plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import NOTHING
from strategies import randomness, seeds

DIMENSION = 2048
#: How far a measured variance of so many numbers may be below the true one: seven standard deviations.
SHORT = 1 - 7 * math.sqrt(2 / DIMENSION)
DEMAND = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=1.0)


MAJORITY = Majority()


def untold(line: str) -> None:
    """Attacks that run as tests tell nobody."""


@cache
def noise_of(clients: int, honest: int) -> Mechanism:
    return choose_mechanism(DEMAND, clients=clients, honest=honest, dimension=DIMENSION)


@dataclass(frozen=True)
class Contributions:
    """What every client puts in: its vector, and the noise in it, of which nobody else knows."""

    vectors: dict[int, np.ndarray]
    noise: dict[int, np.ndarray]

    @classmethod
    def of(cls, mechanism: Mechanism, clients: int, context: bytes, seed: int) -> "Contributions":
        quantizer = NoisyQuantizer.for_model([np.zeros(DIMENSION)], mechanism)
        models, found, noise = np.random.default_rng(seed).normal(size=(clients, DIMENSION)), {}, {}
        for i, model in enumerate(models):
            fine, _ = quantizer._on_grid(model.copy(), context)
            found[i] = quantizer.encode([model], context, randomness(seed + i)).vector
            numbers, _ = mechanism.fields.split(found[i])
            noise[i] = numbers[:DIMENSION] - fine / 2.0**mechanism.grid_bits
        return cls(found, noise)


def counted(
    stage: Stage, mechanism: Mechanism, noise: dict[int, np.ndarray], colluders: Collection[int]
) -> list[tuple[int, float]]:
    """Of every sum that can be opened: honest clients in it, and of how many the measured noise would be."""
    found = []
    for group, opened in honest_sums(stage, colluders).items():
        assert np.array_equal(opened, stage.expected(group))  # it is open indeed
        honest = group.difference(colluders)
        measured = float(np.mean(sum(noise[i] for i in honest) ** 2))
        found.append((len(honest), measured / float(mechanism.s2)))
    return found


def enough(found: list[tuple[int, float]], mechanism: Mechanism) -> bool:
    """Whether each has the noise of H honest clients."""
    least = mechanism.honest
    return all(clients >= least and measured >= SHORT * least for clients, measured in found)


# A server that follows the protocol, and colluders who do as they like: the guard curious


@dataclass(frozen=True)
class Setting:
    """A federation without a charter, and who colludes in it."""

    clients: int
    graph: Graph
    colluders: frozenset[int]
    survivors: int
    threshold: Threshold = MAJORITY

    @classmethod
    def planned(cls, clients: int, collusion: float) -> "Setting":
        """Of the planner's choice; it is sure of H, not only very likely so."""
        made = plan(clients, 0.1, collusion, length=DIMENSION, privacy=DEMAND, reliability_bits=7.0)
        assert made.accept == (collusion > 0)
        found = cls(clients, made.graph, frozenset(range(made.colluders)), made.min_survivors, made.threshold)
        assert found.mechanism.honest == made.mechanism.honest
        return found

    def config(self, accept: bool) -> RoundConfig:
        return RoundConfig(
            clients=self.clients,
            length=self.mechanism.length,
            bits=64,
            graph=self.graph,
            threshold=self.threshold,
            min_survivors=self.survivors,
            accept=accept,
        )

    @property
    def honest(self) -> list[int]:
        return [i for i in range(self.clients) if i not in self.colluders]

    @property
    def mechanism(self) -> Mechanism:
        return noise_of(self.clients, self.survivors - len(self.colluders))


#: In each nothing can part the honest clients: fewer can be missing than hold the circle together.
SETTINGS = [
    Setting(12, Complete(), frozenset({0, 5, 9}), 8),
    Setting(12, Complete(), frozenset({3}), 7),
    Setting(40, Harary(degree=16), frozenset({1, 12, 30}), 30),
    Setting(40, Harary(degree=16, mask_degree=8), frozenset(), 34),
    Setting.planned(12, 0.2),
    Setting.planned(20, 0.1),
    Setting.planned(14, 0.0),
]


class Liar(Garbler):
    """Seals garbage for some, and calls the texts of others garbage."""

    accused: Collection[int] = ()

    def _answer(self, request):
        state, reply = super()._answer(request)
        if isinstance(reply, m.AcceptReply):
            named = [i for i in self.accused if i in state.near.neighbours]
            accused = ids(*sorted({*named, *_ids(reply.accused)}))
            reply = msgspec.structs.replace(reply, accused=accused)
        return state, reply


def _ids(packed: bytes) -> list[int]:
    return np.frombuffer(packed, "<u4").tolist()


def curious_stage(setting: Setting, accept: bool, seed: int) -> tuple[Stage, dict[int, np.ndarray]]:
    config = setting.config(accept)
    given = Contributions.of(setting.mechanism, setting.clients, config.context, seed)
    kinds = {i: Liar if i in setting.colluders else Client for i in range(setting.clients)}
    clients = {i: kind(config, i, given.vectors[i]) for i, kind in kinds.items()}
    return Stage(Server(config), clients, given.vectors, untold), given.noise


@st.composite
def behaviours(draw) -> tuple[Setting, dict, dict, dict]:
    """Whom each colluder garbles and accuses, and who leaves in which step."""
    setting = draw(st.sampled_from(SETTINGS))
    some = st.frozensets(st.integers(0, setting.clients - 1)) | st.just(frozenset(range(setting.clients)))
    garbled = {i: draw(some) for i in setting.colluders}
    accused = {i: draw(some) for i in setting.colluders}
    names = [step.name for step in steps_of(setting.config(accept=True))]
    gone = {name: set() for name in names}
    honest = draw(st.frozensets(st.sampled_from(setting.honest), max_size=setting.clients - setting.survivors))
    for i in sorted(honest | draw(st.frozensets(st.sampled_from([*setting.colluders, 0])))):
        gone[draw(st.sampled_from(names))].add(i)
    return setting, garbled, accused, gone


@settings(max_examples=40)
@given(behaviours(), seeds)
def test_colluders_cannot_take_noise_out_of_a_sum(behaviour, seed):
    setting, garbled, accused, gone = behaviour
    stage, noise = curious_stage(setting, True, seed)
    for i in setting.colluders:
        stage.clients[i].targets, stage.clients[i].accused = garbled[i], accused[i]
    stage.to_the_end(gone)
    found = counted(stage, setting.mechanism, noise, setting.colluders)
    assert enough(found, setting.mechanism)
    assert len(found) <= 1  # no part of it opens by itself
    if stage.server.aggregate is not None:
        assert stage.is_right
        assert len(stage.server.aggregate.survivors) >= setting.survivors
        assert found


@settings(max_examples=20)
@given(st.sampled_from(SETTINGS[:2]), st.data())
def test_without_a_lie_a_sum_has_the_noise_of_all_survivors(setting, data):
    """Honest rounds: what is measured is what the mechanism says of so many, not only of H."""
    stage, noise = curious_stage(setting, True, data.draw(seeds))
    gone = data.draw(st.frozensets(st.sampled_from(setting.honest), max_size=setting.clients - setting.survivors))
    stage.to_the_end({"mask": gone})
    ((size, _),) = counted(stage, setting.mechanism, noise, setting.colluders)
    assert size == len(setting.honest) - len(gone)
    survivors = stage.server.result().survivors
    measured = np.sqrt(np.mean(sum(noise[i] for i in survivors) ** 2)) * setting.mechanism.step
    assert measured == pytest.approx(setting.mechanism.noise(len(survivors)), rel=5 / math.sqrt(2 * DIMENSION))


@settings(max_examples=20)
@given(st.sampled_from(SETTINGS), st.data())
def test_no_share_is_asked_for_where_fewer_than_s_survive(setting, data):
    stage, _ = curious_stage(setting, True, 0)
    few = setting.clients - setting.survivors + 1
    some = st.frozensets(st.sampled_from(range(setting.clients)), min_size=few)
    stage.to_the_end({data.draw(st.sampled_from(["advertise", "share", "accept", "mask"])): data.draw(some)})
    assert isinstance(stage.failure, RoundFailed)
    assert not honest_sums(stage, setting.colluders)


def test_s_is_what_stops_it():
    setting = SETTINGS[0]
    stage, _ = curious_stage(setting, True, 0)
    stage.to_the_end({"mask": setting.honest[:5]})
    assert isinstance(stage.failure, TooFewClients)


# Without the step accept the same test finds what is missing


LARGE = Setting(60, Harary(degree=24), frozenset(range(50, 60)), 36)


def parted(setting: Setting, accept: bool, seed: int) -> tuple[Stage, dict[int, np.ndarray]]:
    """Colluders seal garbage for all honest clients around an arc of the circle."""
    stage, noise = curious_stage(setting, accept, seed)
    stage.step()
    stage.look_ahead()
    targets = around_an_arc(stage.overheard, setting.colluders, setting.graph.degree)
    for i in setting.colluders:
        stage.clients[i].targets = targets
    return stage.to_the_end(), noise


def test_without_accept_a_sum_opens_that_has_too_little_noise():
    stage, noise = parted(LARGE, False, 0)
    assert stage.is_right  # the server has noticed nothing
    found = counted(stage, LARGE.mechanism, noise, LARGE.colluders)
    assert not enough(found, LARGE.mechanism)
    least, measured = min(found)
    assert least <= 13 < LARGE.mechanism.honest
    assert measured < LARGE.mechanism.honest / 1.5
    assert LARGE.mechanism.certify(least) > DEMAND.epsilon * 1.3  # what that sum really keeps


def test_with_accept_it_does_not():
    stage, noise = parted(LARGE, True, 0)
    assert stage.is_right
    found = counted(stage, LARGE.mechanism, noise, LARGE.colluders)
    assert enough(found, LARGE.mechanism)
    assert [size for size, _ in found] == [50]


def test_with_thin_masks_colluders_open_a_single_vector():
    """S34: masks with four neighbours only; whoever shares one with the victim cannot open what is sealed."""
    thin = Setting(60, Harary(degree=24, mask_degree=4), LARGE.colluders, 36)
    stage, noise = curious_stage(thin, False, 0)
    stage.step()
    stage.look_ahead()
    beside = {i: stage.overheard[i].mask_neighbours for i in thin.honest}
    reached = [i for i in thin.honest if beside[i] & thin.colluders and _all_reached(stage, thin, beside[i])]
    for i in thin.colluders:
        stage.clients[i].targets = beside[reached[0]] - thin.colluders
    stage.to_the_end()
    found = counted(stage, thin.mechanism, noise, thin.colluders)
    assert not enough(found, thin.mechanism)
    assert min(found)[0] == 1
    assert frozenset(reached[:1]) in honest_sums(stage, thin.colluders)


def _all_reached(stage: Stage, setting: Setting, targets: Collection[int]) -> bool:
    return all(setting.colluders & set(stage.overheard[i].neighbours) for i in targets - setting.colluders)


# A server that lies: the guard active


LIES = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=2, norm=1.0, against="lies")


def noisy_stage(
    clients: int, mechanism: Mechanism, given: Contributions, colluders: Collection[int], **agreed: Any
) -> Stage:
    """A round under a charter with this noise, in which everyone sends what is ``given``."""
    return active(
        clients,
        untold,
        colluders=colluders,
        vectors=given.vectors,
        length=mechanism.length,
        bits=64,
        privacy=mechanism,
        **agreed,
    )


def lying_stage(
    clients: int, graph: Graph, t: int, colluders: Collection[int], honest: int, seed: int, stated: int | None = None
) -> tuple[Stage, Mechanism, dict[int, np.ndarray]]:
    """A round of a charter whose noise is made for ``honest`` clients in every sum, which it states."""
    mechanism = choose_mechanism(LIES, clients=clients, honest=honest, dimension=DIMENSION)
    promise = {"colluders": len(colluders), "least_honest": honest if stated is None else stated}
    given = Contributions.of(mechanism, clients, bytes(32), seed)
    certificate = msgspec.structs.replace(NOTHING, **promise)
    rules = {"graph": graph, "threshold": Fixed(t=t), "certificate": certificate}
    stage = noisy_stage(clients, mechanism, given, colluders, **rules)
    return stage, mechanism, given.noise


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("clients", "graph", "t"), [(12, Harary(degree=6), 5), (11, Complete(), 7), (11, Complete(), 9)]
)
def test_no_choice_of_dropouts_opens_a_sum_with_less_noise(clients, graph, t, seed):
    """S18: the server looks at every V3 there is, and plays the one that opens the smallest sum."""
    colluders = {clients - 1}
    stage, mechanism, noise = lying_stage(clients, graph, t, colluders, t - 1, seed)
    stage.until("mask")
    cut = server_cut.best_cut(server_cut.seen_graph(stage.overheard, colluders=1 << (clients - 1)))
    server_cut.play(stage, cut)
    found = counted(stage, mechanism, noise, colluders)
    assert enough(found, mechanism)
    assert [size for size, _ in found] == [cut.size]


@pytest.mark.parametrize(("clients", "against"), [(9, "lies"), (12, "lies"), (12, "follows")])
def test_nor_in_a_round_of_the_planners(clients, against):
    """With as many survivors as the charter insists on; nobody who lies can do better."""
    asked = msgspec.structs.replace(LIES, against=against)
    planned = plan(clients, 0.05, guard="active", length=DIMENSION, privacy=asked)
    mechanism, colluders = planned.mechanism, range(clients - planned.colluders, clients)
    given = Contributions.of(mechanism, clients, bytes(32), clients)
    stage = noisy_stage(
        clients,
        mechanism,
        given,
        colluders,
        graph=planned.graph,
        threshold=planned.threshold,
        least_roster=planned.least_roster,
        min_survivors=planned.min_survivors,
        certificate=charters.state(planned),
    ).until("mask")
    seen = server_cut.seen_graph(stage.overheard, colluders=sum(1 << i for i in colluders))
    cut = server_cut.best_cut(seen, planned.min_survivors)
    server_cut.play(stage, cut)
    found = counted(stage, mechanism, given.noise, colluders)
    assert enough(found, mechanism)
    assert [size for size, _ in found] == [cut.size]


class ActiveLiar(Liar, ActiveColluder):
    """The same liar under a charter."""


@settings(max_examples=15)
@given(st.data(), seeds)
def test_liars_under_a_charter_cost_noise_only_up_to_s(data, seed):
    """On the complete graph, against a server that follows the protocol; each liar can take one along."""
    clients, colluders, survivors = 14, {0, 6, 11}, 9
    mechanism = noise_of(clients, survivors - len(colluders))
    given = Contributions.of(mechanism, clients, bytes(32), seed)
    promise = {"colluders": len(colluders), "around": len(colluders)}
    stage = noisy_stage(
        clients,
        mechanism,
        given,
        colluders,
        colluder=ActiveLiar,
        accept=True,
        min_survivors=survivors,
        certificate=msgspec.structs.replace(NOTHING, **promise),
    )
    everyone = st.frozensets(st.integers(0, clients - 1))
    for i in colluders:
        stage.clients[i].targets, stage.clients[i].accused = data.draw(everyone), data.draw(everyone)
    names = ["share", "accept", "mask", "confirm", "unmask"]
    gone = {name: data.draw(st.frozensets(st.integers(0, clients - 1), max_size=2)) for name in names}
    stage.to_the_end(gone)
    found = counted(stage, mechanism, given.noise, colluders)
    assert enough(found, mechanism)
    assert len(found) <= 1
    if stage.server.aggregate is not None:
        assert stage.is_right
        assert found


# Two sums that differ by one client


def test_two_sums_that_differ_by_one_client_have_the_noise_of_both():
    """S33, S36: every vector that leaves has fresh noise, so that nothing cancels out."""
    setting, victim = SETTINGS[1], 7
    model = [np.full(DIMENSION, 1.0 / math.sqrt(DIMENSION))]
    quantizer = NoisyQuantizer.for_model(model, setting.mechanism)
    means, many = [], []
    for gone in ((), (victim,)):
        config = setting.config(accept=True)
        vectors = {i: quantizer.encode(model, config.context).vector for i in range(setting.clients)}
        clients = {i: Client(config, i, vectors[i]) for i in range(setting.clients)}
        found = Stage(Server(config), clients, vectors, untold).finish({"mask": gone})
        many.append(len(found.survivors))
        means.append(quantizer.decode(found.vector, many[-1], config.context).arrays[0] * many[-1])
    difference = means[0] - means[1]  # the victim's vector, and noise
    noise = np.sqrt(np.mean((difference - model[0]) ** 2))
    assert noise == pytest.approx(setting.mechanism.noise(sum(many)), rel=0.1)
    assert noise > setting.mechanism.noise(2 * setting.mechanism.honest) * 0.9


def test_noise_for_more_honest_clients_than_the_certificate_has_is_no_charter():
    lying_stage(11, Complete(), 8, {10}, 7, 0)
    with pytest.raises(ConfigError, match=r"counts on 7 honest clients in every sum, .* certificate promises 6"):
        lying_stage(11, Complete(), 8, {10}, 7, 0, stated=6)


@pytest.mark.parametrize("survivors", [7, 9, 11])
def test_members_sign_no_list_of_fewer_survivors_than_the_charter_says(survivors):
    """Noise against a server that follows the protocol, on the complete graph: H = S - C."""
    clients, colluders = 11, {10}
    mechanism = choose_mechanism(DEMAND, clients=clients, honest=survivors - 1, dimension=DIMENSION)
    given = Contributions.of(mechanism, clients, bytes(32), survivors)
    for shown in (survivors - 1, survivors):
        certificate = msgspec.structs.replace(NOTHING, colluders=1)
        rules = {"min_survivors": survivors, "certificate": certificate}
        stage = noisy_stage(clients, mechanism, given, colluders, **rules).until("mask")
        v3 = 2**10 | (2 ** (shown - 1) - 1)
        server_cut.play(stage, server_cut.Cut(v3=v3, releasing=v3, group=v3))
        found = counted(stage, mechanism, given.noise, colluders)
        assert enough(found, mechanism)
        assert [size for size, _ in found] == ([survivors - 1] if shown == survivors else [])
