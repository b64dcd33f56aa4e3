"""Rows S30 to S33 of docs/security.md: what a server that lies tries in Flower only.

Each attack is played against the real mod, where it fails, and against the same nodes without the defence,
where it works: a test that shows the first alone would also pass if there were nothing to gain.
"""

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from ccesa.agreement.charter import Learning
from ccesa.errors import AttemptsSpent
from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both import envelope
from ccesa.flower.both.terms import ReplyTerms
from ccesa.flower.node import mod as node_reply
from ccesa.flower.node.mod import _Node
from ccesa.flower.node.state import SuspendedClient, SuspendedClients
from ccesa.flower.server import series as running
from ccesa.flower.server.rounds import CharteredRounds
from ccesa.flower.server.series import Attempts
from ccesa.policy import Policy
from ccesa.protocol.spending import Spending
from flower_grid import DROP, MemoryGrid, lose, make_app, model_in, new_model, number, probing, trained, weight_of
from flower_rounds import NODES, assert_mean, enrol, messages, one_round

VICTIM = 1003
OTHERS = [node for node in number(NODES) if node != VICTIM]


def of_victim(model) -> dict[str, np.ndarray]:
    return trained(VICTIM, model)[0]


def is_victims(found, tolerance: float = 1e-4) -> bool:
    """Whether these arrays are what the victim alone has learned."""
    expected = of_victim(new_model())
    return all(np.abs(found[name] - expected[name]).max() < tolerance for name in expected)


# S30: what a server would choose


class Liar(CharteredRounds):
    """A server that has the charter, and makes rounds with other terms."""

    def __init__(self, charter, lie):
        super().__init__(charter)
        self._lie = lie

    def terms(self, *arguments):
        return msgspec.structs.replace(super().terms(*arguments), **self._lie)


def lied_to(grid, charter, lie) -> Message | None:
    secure = SecureGrid(grid, charter=charter)
    secure._rounds = Liar(charter, lie)
    return next(iter(secure.send_and_receive(messages(grid, new_model()))), None)


def believing(monkeypatch, lie) -> None:
    """Nodes without the defence: they take terms from the server."""

    def believe(self, envelope):
        charter = self._settings.charter
        terms = ReplyTerms.under(charter, str(self._message.metadata.message_type))
        return charter.decode(envelope.config), msgspec.structs.replace(terms, **lie)

    monkeypatch.setattr(_Node, "_agreed", believe)


def peculiar(node, model):
    """A metric that is the victim's alone, and a change of it that is far beyond the charter's clip."""
    arrays, metrics = trained(node, model)
    if node == VICTIM:
        arrays = {**arrays, "b": arrays["b"] + 100.0}
    return arrays, {**metrics, "is-victim": float(node == VICTIM)}


def weighted_alone(reply) -> bool:
    """The mean is the victim's model; of its outsized array only what the clip leaves."""
    return bool(np.abs(model_in(reply)["w"] - of_victim(new_model())["w"]).max() < 1e-4)


def unclipped(reply) -> bool:
    """The whole of the outsized change, by the victim's part of the weight."""
    moved = (model_in(reply)["b"] - new_model()["b"]).max()
    return bool(moved > 50 * weight_of(VICTIM) / sum(weight_of(node) for node in number(NODES)))


def largest_loss(reply) -> bool:
    """Some node's loss is beyond the bound: asked again and again, that is the largest loss."""
    return "loss" not in reply.content["metrics"]


def shown_more(reply) -> bool:
    return "is-victim" in reply.content["metrics"]


LIES = {
    "the metric to weight by": ({"weighted_by": "is-victim", "max_weight": 1.0}, weighted_alone),
    "counters": ({"counters": ["b"]}, unclipped),
    "clip": ({"clip": 1000.0}, unclipped),
    "metric_clip": ({"metric_clip": 143.5}, largest_loss),
    "metrics": ({"metrics": ["=is-victim", "=loss"], "metric_slots": 2}, shown_more),
}


@pytest.mark.parametrize("name", LIES)
def test_s30_a_server_that_chooses_terms_is_refused(name, tmp_path, said):
    charter, configs = enrol(tmp_path, NODES)
    app = make_app(peculiar)
    grid = MemoryGrid(app, NODES, node_configs=configs)
    assert lied_to(grid, charter, LIES[name][0]) is None
    assert app.calls == []
    refused = "for another task than the one this client works on"
    assert sum(refused in line or "elements do not fit a round of" in line for line in said) == NODES


@pytest.mark.parametrize("name", LIES)
def test_s30_without_the_charter_on_the_nodes_it_gets_what_it_wants(name, tmp_path, monkeypatch):
    lie, gained = LIES[name]
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(peculiar), NODES, node_configs=configs)
    honest = one_round(grid, new_model(seed=6), charter=charter)
    assert not gained(honest)  # honest rounds do not have it
    believing(monkeypatch, lie)
    assert gained(lied_to(grid, charter, lie))


def to_probe(message: Message) -> None:
    """The server cheats: all nodes but one are to call the function that learns nothing."""
    if message.metadata.dst_node_id != VICTIM:
        message.metadata.message_type = "train.probe"


@pytest.mark.parametrize("types", [("train", "evaluate"), ("train", "train.probe")])
def test_s30_another_function_of_the_app_is_refused(types, tmp_path):
    """Whether the charter has that type or not: it is another task than the one that was announced."""
    charter, configs = enrol(tmp_path, NODES, learning=Learning(message_types=types))
    app = probing()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    grid.tamper = to_probe
    assert one_round(grid, charter=charter) is None
    assert not any(kind == "train.probe" for kind, _ in app.calls)


def test_s30_without_the_type_in_the_terms_the_sum_is_the_victims_change(tmp_path, monkeypatch):
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(probing(), NODES, node_configs=configs)
    grid.tamper = to_probe
    monkeypatch.setattr(
        _Node, "_agreed", lambda self, envelope: (charter.decode(envelope.config), ReplyTerms.under(charter, "train"))
    )
    reply = one_round(grid, charter=charter)
    total, model = reply.content["metrics"]["num-examples"], new_model()
    share = (total - len(OTHERS)) / total  # all others have said that they have one example
    assert is_victims({n: model[n] + (value - model[n]) / share for n, value in model_in(reply).items()})


# S31: a message in clear


@pytest.mark.parametrize("with_charter", [True, False])
@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_s31_a_message_in_clear_is_refused(kind, with_charter, tmp_path):
    _, configs = enrol(tmp_path, NODES)
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs if with_charter else {})
    found = grid.send_and_receive(messages(grid, new_model(), kind))
    assert [reply.error.code for reply in found] == [envelope.REFUSED] * NODES
    assert app.calls == []


def test_s31_a_mod_that_lets_them_through_gives_the_model_away(tmp_path):
    """As the mod was before: what is no request of secure aggregation was the app's."""

    def lenient(message: Message, context: Context, call_next) -> Message:
        plain = envelope.request_in(message) is None
        return call_next(message, context) if plain else secure_mod(message, context, call_next)

    _, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(outer=[lenient]), NODES, node_configs=configs)
    found = grid.send_and_receive(messages(grid, new_model()))
    assert is_victims(model_in(found[VICTIM - 1001]), 1e-9)


# S32: refusals that tell about data


def failing(node, model):
    """The victim's data make its training fail; a server can choose a model for which they do."""
    if node == VICTIM:
        raise ValueError("no example of class 7")
    return trained(node, model)


def stand_out(grid) -> set[int]:
    """The nodes that a server can tell from the others by what they sent."""
    forms: dict[tuple, set[int]] = {}
    for one in (one for one in grid.passed if not one.to_node):
        error = one.message.error.code if one.message.has_error() else None
        size = None if error else len(one.message.content["ccesa"]["reply"])
        forms.setdefault((one.step, error, size), set()).add(one.node)
    return {node for nodes in forms.values() if len(nodes) == 1 for node in nodes}


def test_s32_a_node_whose_training_fails_does_not_stand_out(tmp_path):
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(failing), NODES, node_configs=configs)
    assert_mean(one_round(grid, charter=charter), OTHERS)
    assert stand_out(grid) == set()


def test_s32_a_node_that_refuses_in_clear_does(tmp_path, monkeypatch):
    def contribution(self, packing):
        return node_reply.pack_reply(self._call_next(self._message, self._context), packing)

    monkeypatch.setattr(_Node, "_contribution", contribution)
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(failing), NODES, node_configs=configs)
    assert_mean(one_round(grid, charter=charter), OTHERS)
    assert stand_out(grid) == {VICTIM}


# S33: two rounds over the same task that differ by one client


def total_of(secure, some: list[Message], server_round: int) -> tuple[float, dict[str, np.ndarray]]:
    """Weight and weighted sum of a round; a setting differs, so that it looks like another one."""
    for message in some:
        message.content = RecordDict({**message.content, "config": ConfigRecord({"server-round": server_round})})
    (reply,) = secure.send_and_receive(some)
    weight = reply.content["metrics"]["num-examples"]
    return weight, {name: weight * np.float64(value) for name, value in model_in(reply).items()}


def with_and_without(secure, grid) -> dict[str, np.ndarray]:
    """What one round has more than another from which the victim is left out."""
    every = messages(grid, new_model())
    most, full = total_of(secure, every, 1)
    least, rest = total_of(secure, [one for one in every if one.metadata.dst_node_id != VICTIM], 2)
    return {name: (full[name] - rest[name]) / (most - least) for name in full}


def forgetful(monkeypatch) -> None:
    """Nodes without the defence."""
    monkeypatch.setattr(Spending, "_check_task", lambda self, memory, name, own=0: None)
    for check in ("check_latest", "release"):
        monkeypatch.setattr(Spending, check, lambda self, name: None)


@pytest.mark.parametrize("attempts", [1, 3])
def test_s33_no_second_sum_over_one_model(attempts, tmp_path):
    charter, configs = enrol(tmp_path, NODES, attempts=attempts)
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    with pytest.raises(AttemptsSpent, match="may not contribute to this task again"):
        with_and_without(SecureGrid(grid, charter=charter), grid)
    with pytest.raises(AttemptsSpent):  # in a series that begins anew
        one_round(grid, charter=charter)
    assert app.calls.count(("train", 1001)) == 1


def test_s33_a_node_that_does_not_remember_is_the_difference(tmp_path, monkeypatch):
    forgetful(monkeypatch)
    charter, configs = enrol(tmp_path, NODES, attempts=1)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert is_victims(with_and_without(SecureGrid(grid, charter=charter), grid))


@pytest.mark.parametrize("defended", [True, False])
def test_s33_nodes_with_helpers_work_on_one_form_of_a_model(defended, tmp_path, monkeypatch):
    """Helpers answer once about a task. A server that changes a setting has another one, over the same model."""
    if not defended:
        monkeypatch.setattr(Spending, "_note_named", lambda self, memory, name, task: None)
    charter, configs = enrol(tmp_path, NODES, helping=(1001, 1002))
    monkeypatch.setattr(Attempts, "_close", lambda self: None)  # the liar does not step aside
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    if defended:
        with pytest.raises(AttemptsSpent, match="may not contribute to this task again"):
            with_and_without(secure, grid)
    else:
        assert is_victims(with_and_without(secure, grid))


@pytest.mark.parametrize("defended", [True, False])
def test_s33_a_round_that_was_kept_back_is_over_when_another_follows(defended, monkeypatch):
    """All have sent vectors, and are asked for their shares when there is a sum without the victim."""
    if not defended:
        forgetful(monkeypatch)
        monkeypatch.setattr(SuspendedClients, "take", taken_alone)
    monkeypatch.setattr(running, "forget", lambda *arguments, wait: None)
    monkeypatch.setattr(Attempts, "_close", lambda self: None)  # the liar does not step aside
    grid = MemoryGrid(make_app(), NODES, faults=lose(DROP, "unmask", *number(NODES)))
    secure, every = SecureGrid(grid, policy=Policy.wait_for_all(1.0)), messages(grid, new_model())
    assert not secure.send_and_receive(every)
    held = [one.message for one in grid.passed if one.to_node and one.step == "unmask"]
    total_of(secure, [one for one in every if one.metadata.dst_node_id != VICTIM], 2)
    late = [grid._work(one, one.metadata.dst_node_id) for one in held]
    refused = {one.metadata.dst_node_id for one, reply in zip(held, late, strict=True) if reply.has_error()}
    assert refused == ({*OTHERS} if defended else set())


def taken_alone(self, config: bytes) -> SuspendedClient | None:
    """Older rounds stay."""
    ours = self._load()
    found = next((one for one in ours if one.config == config), None)
    self._store([one for one in ours if one is not found])
    return found
