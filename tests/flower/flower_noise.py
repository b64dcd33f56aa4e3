"""Rounds with noise in a federation in memory: what is asked for, trained, and has to come out."""

import msgspec
import numpy as np

from ccesa.agreement.charter import Charter, Learning
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.privacy.ledger import Ledger
from ccesa.simulate.enrolment import NOTHING
from flower_grid import number
from flower_rounds import NODES, enrol

DEMAND = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=4, norm=1.0)
SIZE = 4096
#: Survivors that a plan for six nodes insists on, one of whom may be lost.
SURVIVORS = 5


def large_model(dtype=np.float64) -> dict[str, np.ndarray]:
    """Enough parameters to measure a standard deviation: within 6 % in all but one of a million runs."""
    return {"w": np.linspace(-1, 1, SIZE, dtype=dtype).reshape(64, 64)}


def changed(node: int, model) -> tuple[dict[str, np.ndarray], dict]:
    """A change of norm 0.5 and an own number of examples, which must not matter."""
    rng = np.random.default_rng(node)
    step = {name: rng.normal(size=value.shape) for name, value in model.items()}
    length = np.sqrt(sum(np.sum(one**2) for one in step.values()))
    arrays = {name: np.asarray(value + 0.5 * step[name] / length, value.dtype) for name, value in model.items()}
    return arrays, {"num-examples": 10 * (node % 100), "loss": float(node)}


def plain_mean(model, nodes, train=changed) -> dict[str, np.ndarray]:
    """Every node counts one."""
    return {name: np.mean([train(node, model)[0][name] for node in nodes], axis=0) for name in model}


def residue(found, expected) -> float:
    """The standard deviation of what is left of the mean."""
    return float(np.std(np.concatenate([(found[name] - expected[name]).ravel() for name in expected])))


def mechanism(dimension: int = SIZE, **others) -> Mechanism:
    demand = {**msgspec.structs.asdict(DEMAND), **others}
    return choose_mechanism(DifferentialPrivacy(**demand), clients=NODES, honest=SURVIVORS, dimension=dimension)


def ledgers(tmp_path, epsilon: float = 20.0, nodes: int = NODES) -> dict[int, dict]:
    """A ledger of every node, and the key for it."""
    made = {}
    for node in number(nodes):
        path = tmp_path / f"{node}.ledger"
        Ledger.new(path, epsilon=epsilon, delta=1e-5)
        made[node] = {"ccesa-ledger": str(path)}
    return made


def enrol_with_noise(tmp_path, noise: Mechanism, **agreed) -> tuple[Charter, dict[int, dict]]:
    """A charter with noise, a node of each member, and their ledgers."""
    charter, configs = enrol(
        tmp_path,
        NODES,
        privacy=noise,
        min_survivors=SURVIVORS,
        certificate=NOTHING,
        learning=Learning(metrics=("accuracy",), metric_clip=1.0),
        **agreed,
    )
    own = ledgers(tmp_path)
    return charter, {node: {**config, **own[node]} for node, config in configs.items()}
