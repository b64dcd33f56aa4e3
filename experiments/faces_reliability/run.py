"""The paper's reliability figure on the AT&T faces: accuracy by round, and the rounds that are lost.

Forty clients, one person each, softmax regression. Two views of the same dropouts. *Ours*: real rounds with
every byte of the protocol; before anything is masked, the server leaves out clients whose neighbours are too
few for t. *The paper's rule*: everyone stays in, so each client of V2 needs t live holders of its shares, its
own share counted if it stays to the end; rounds are only counted, not run. A lost round keeps the old model.
Writes results.json and faces_reliability.png, in which accuracies are means over five rounds: with one person
for each client training is chaotic, and single rounds say little.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ccesa import words
from ccesa.errors import RoundFailed
from ccesa.fields import WORD_BITS
from ccesa.graphs import ErdosRenyi, Graph
from ccesa.plan.paper import step_dropout
from ccesa.quantize import Quantizer
from ccesa.simulate import usual_plan
from ccesa.simulate.dropout import Dropouts
from ccesa.thresholds import Fixed, Majority, Threshold
from ccesa.words import Vector
from experiments import chart, faces, rounds, softmax
from experiments.arguments import parse, run
from experiments.record import Key, save
from experiments.softmax import Federation, Model

HERE = Path(__file__).parent
DROPOUTS = (0.0, 0.1)
CONNECTIONS = (1.0, 0.7, 0.5, 0.3)
#: What the planned graph is made for, whatever happens.
PLANNED_FOR = 0.1
#: Rounds over which the picture's accuracies are averaged.
SMOOTHED = 5


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is run."""

    rounds: int
    #: Rounds with vectors of one element, only to see how many are lost.
    short_rounds: int
    #: Rounds of the paper's rule that are only drawn.
    drawn: int
    shrink: int


FULL = Effort(rounds=50, short_rounds=100, drawn=20_000, shrink=1)
QUICK = Effort(rounds=4, short_rounds=3, drawn=1_000, shrink=4)


def settings(quick: bool) -> dict[str, Any]:
    return asdict(QUICK if quick else FULL) | {
        "dropouts": DROPOUTS,
        "connections": CONNECTIONS,
        "planned_for": PLANNED_FOR,
        "epochs": softmax.EPOCHS,
        "learning_rate": softmax.RATE,
    }


@dataclass(frozen=True, kw_only=True)
class Series:
    name: str
    graph: Graph
    threshold: Threshold


def all_series(clients: int) -> list[Series]:
    """The paper's with its t, 21 of 40; its p with our rule for t; and what the planner chooses."""
    t = Fixed(t=clients // 2 + 1)
    paper = [Series(name=_named(p, t.t), graph=ErdosRenyi(p=p), threshold=t) for p in CONNECTIONS]
    majority = Series(name="p = 0.7, t_i a majority", graph=ErdosRenyi(p=0.7), threshold=Majority())
    made = usual_plan(clients, PLANNED_FOR)
    return [*paper, majority, Series(name="planned", graph=made.graph, threshold=made.threshold)]


def _named(p: float, t: int) -> str:
    return f"{'SA' if p == 1 else 'CCESA'}, p = {p:g}, t = {t}"


def by_our_server(data: Federation, series: Series, gone: list[Dropouts], seed: int) -> dict[str, Any]:
    """Training through real rounds."""
    model = softmax.new_model(data)
    quantizer = Quantizer.for_model(model, clients=data.clients, clip=softmax.LARGEST_UPDATE)
    history, outcomes, survivors = [], [], []
    for number, dropouts in enumerate(gone):
        seeds = [seed, 1, number]
        config = rounds.configured(
            seeds, data.clients, quantizer.length, series.graph, series.threshold, WORD_BITS
        )
        found = rounds.ran(config, _encoded(model, data, quantizer, seeds), dropouts, seeds)
        if not isinstance(found.result, RoundFailed):
            mean = quantizer.decode(found.result.vector)
            model = softmax.add(model, mean.arrays)
            survivors.append(len(found.result.survivors))
        history.append(softmax.accuracy(model, data))
        outcomes.append(found.outcome)
        if (number + 1) % 10 == 0:
            print(f"  {series.name}: round {number + 1}, accuracy {history[-1]:.3f}", flush=True)
    return _history(series.name, history, outcomes) | {"survivors": survivors}


def _encoded(model: Model, data: Federation, quantizer: Quantizer, seeds: list[int]) -> Any:
    """Trains and quantizes when a client is asked for its vector: in lost rounds that is never."""

    def vector(client: int) -> Vector:
        rounding = np.random.default_rng([*seeds, 2, client])
        return quantizer.encode(softmax.update(model, data, client), rng=rounding).vector

    return vector


def by_the_paper(data: Federation, p: float, gone: list[Dropouts], seed: int) -> dict[str, Any]:
    """Training by the paper's rule; a round that is not lost gives the plain mean over V3."""
    model, t = softmax.new_model(data), data.clients // 2 + 1
    rng = np.random.default_rng([seed, 3, round(1000 * p)])
    history, outcomes = [], []
    for dropouts in gone:
        stays = _stays(dropouts, data.clients)
        lost = bool(lost_by_rule(stays[:, None], p, t, rng)[0])
        if not lost:
            model = softmax.add(model, softmax.mean_update(model, data, np.flatnonzero(stays[2]).tolist()))
        history.append(softmax.accuracy(model, data))
        outcomes.append("lost" if lost else "aggregate")
    return _history(_named(p, t), history, outcomes)


def _stays(dropouts: Dropouts, clients: int) -> NDArray[np.bool_]:
    """V1 to V4 as flags."""
    here = [[client not in members for client in range(clients)] for members in dropouts.values()]
    return np.logical_and.accumulate(np.array(here))


def lost_by_rule(stays: NDArray[np.bool_], p: float, t: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """For many rounds at once, V1 to V4 by rounds by clients: is a client of V2 short of holders in V4?"""
    _, count, clients = stays.shape
    upper = np.triu(rng.random((count, clients, clients)) < p, 1)
    edges = (upper | upper.transpose(0, 2, 1)).astype(np.float32)
    v2, v4 = stays[1], stays[3]
    holders = (edges @ v4[:, :, None].astype(np.float32))[:, :, 0] + v4
    return np.asarray((v2 & (holders < t)).any(axis=1))


def lost_rate(clients: int, p: float, q_total: float, drawn: int, seed: int) -> float:
    """How often the paper's rule loses a round, from many drawn ones."""
    rng, lost = np.random.default_rng([seed, 4]), 0
    for _ in range(drawn // 1000):
        stays = np.logical_and.accumulate(rng.random((4, 1000, clients)) >= step_dropout(q_total))
        lost += int(lost_by_rule(stays, p, clients // 2 + 1, rng).sum())
    return lost / drawn


def lost_short(clients: int, series: Series, q_total: float, count: int, seed: int) -> dict[str, int]:
    """How real rounds of our server end, with vectors of one element."""
    one = words.zeros(1, WORD_BITS)
    ends: Counter[str] = Counter()
    for number in range(count):
        seeds = [seed, 5, number]
        config = rounds.configured(seeds, clients, 1, series.graph, series.threshold, WORD_BITS)
        gone = rounds.dropouts(q_total, clients, seeds)
        ends[rounds.ran(config, lambda _: one, gone, seeds).outcome] += 1
    return dict(ends)


def _history(name: str, accuracy: list[float], outcomes: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "accuracy": accuracy,
        "outcomes": outcomes,
        "lost": sum(outcome != "aggregate" for outcome in outcomes),
    }


def one_dropout(data: Federation, q_total: float, effort: Effort, seed: int) -> dict[str, Any]:
    """Everything at one q_total; all series meet the same dropouts."""
    gone = [rounds.dropouts(q_total, data.clients, [seed, 6, k]) for k in range(effort.rounds)]
    ours, paper = [], []
    for series in all_series(data.clients):
        found = by_our_server(data, series, gone, seed)
        found["short_rounds"] = lost_short(data.clients, series, q_total, effort.short_rounds, seed)
        ours.append(found)
        _say("ours ", q_total, found, f"{found['short_rounds']}")
    for p in CONNECTIONS:
        found = by_the_paper(data, p, gone, seed)
        found["lost_rate"] = lost_rate(data.clients, p, q_total, effort.drawn, seed)
        paper.append(found)
        _say("paper", q_total, found, f"{found['lost_rate']:.4f} of all rounds")
    return {"q_total": q_total, "ours": ours, "paper_rule": paper}


def _say(who: str, q_total: float, found: dict[str, Any], more: str) -> None:
    text = f"{who} q_total = {q_total:g}, {found['name']}: accuracy {found['accuracy'][-1]:.3f}"
    print(f"{text}, {found['lost']} of {len(found['outcomes'])} rounds lost; {more}", flush=True)


def smoothed(accuracy: list[float]) -> NDArray[np.float64]:
    """In percent, the mean of each round and the ones before it, five at most."""
    sums = np.concatenate([[0.0], np.cumsum(accuracy)])
    ends = np.arange(1, len(accuracy) + 1)
    starts = np.maximum(ends - SMOOTHED, 0)
    return np.asarray(100 * (sums[ends] - sums[starts]) / (ends - starts))


def _accuracies(panel: Any, case: dict[str, Any], view: str, chance: float) -> None:
    """Markers take turns, so that lines that lie upon each other can be told apart."""
    for number, series in enumerate(case[view]):
        label = f"{series['name']}: {series['lost']} of {len(series['outcomes'])} lost"
        heights = smoothed(series["accuracy"])
        look = chart.style(number) | {"ms": 5, "lw": 1.2, "zorder": 3 - number / 10}  # the first on top
        panel.plot(np.arange(1, len(heights) + 1), heights, label=label, markevery=(number, 7), **look)
    panel.axhline(100 * chance, color="black", lw=0.8, ls=(0, (1, 4)), label=f"chance, {chance:.1%}")
    panel.set(ylabel=f"test accuracy (%),\nmean of {SMOOTHED} rounds", ylim=(0, 100))
    panel.tick_params(labelbottom=False)
    title = "real rounds of our server" if view == "ours" else "the paper's rule, counted"
    chart.finish(panel, f"q_total = {case['q_total']:g}: {title}", loc="upper left")


def _losses(panel: Any, all_series: list[dict[str, Any]]) -> None:
    """A stroke for every lost round, a row for each series."""
    for number, series in enumerate(all_series):
        lost = [k for k, outcome in enumerate(series["outcomes"], 1) if outcome != "aggregate"]
        panel.plot(lost, [number] * len(lost), "|", color="black", ms=6)
    panel.set(xlabel="round", ylabel="lost", ylim=(len(all_series) - 0.4, -0.6))
    panel.set_yticks(range(len(all_series)), [series["name"] for series in all_series], fontsize=6)
    panel.grid(axis="x", color="0.9")


def picture(found: list[dict[str, Any]], clients: int) -> Figure:
    figure = Figure(figsize=(13, 11), layout="constrained")
    rows = figure.subplots(4, 2, sharex=True, height_ratios=[4, 1, 4, 1])
    for place, case in enumerate(found):
        for column, view in enumerate(("ours", "paper_rule")):
            _accuracies(rows[2 * place][column], case, view, 1 / clients)
            _losses(rows[2 * place + 1][column], case[view])
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "a few rounds on small images", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    effort = QUICK if wanted.quick else FULL
    data = softmax.federation(faces.whole(wanted.data, wanted.quick).smaller(effort.shrink), wanted.seed)
    found = [one_dropout(data, q_total, effort, wanted.seed) for q_total in DROPOUTS]
    picture(found, data.clients).savefig(wanted.output / "faces_reliability.png", dpi=150)
    result = {"clients": data.clients, "pixels": data.train.shape[2], "dropouts": found}
    save(wanted.output / "results.json", result, key, started=started)


if __name__ == "__main__":
    run(main)
