"""The paper's reliability figure on the AT&T faces: accuracy by round, and the rounds that are lost.

Forty clients, one person each, softmax regression. Two views of the same dropouts. *Ours*: real rounds with
every byte of the protocol; before anything is masked, the server leaves out clients whose neighbours are too
few for t. *The paper's rule*: everyone stays in, so each client of V2 needs t live holders of its shares, its
own share counted if it stays to the end; rounds are only counted, not run. A lost round keeps the old model.

Over several seeds: each divides the photographs anew, and draws all dropouts and graphs. Writes results.json,
after each seed, and faces_reliability.png. The next call goes on with the seeds that are missing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments import chart, faces, rounds, seeds, softmax
from experiments.arguments import run
from experiments.faces_reliability.ours import by_our_server, quantizer
from experiments.faces_reliability.paper_rule import by_the_paper, lost_rate
from experiments.faces_reliability.picture import draw
from experiments.faces_reliability.series import CONNECTIONS, PLANNED_FOR, named
from experiments.faces_reliability.summary import LAST, rows
from experiments.record import Key
from experiments.seeds import Seeds
from experiments.softmax import Federation

HERE = Path(__file__).parent
DROPOUTS = (0.0, 0.1)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is run."""

    seeds: int
    rounds: int
    #: Rounds of the paper's rule that are only drawn.
    drawn: int
    shrink: int


FULL = Effort(seeds=8, rounds=50, drawn=20_000, shrink=1)
QUICK = Effort(seeds=2, rounds=4, drawn=1_000, shrink=4)


def settings(quick: bool) -> dict[str, Any]:
    return asdict(QUICK if quick else FULL) | {
        "dropouts": DROPOUTS,
        "connections": CONNECTIONS,
        "planned_for": PLANNED_FOR,
        "last_rounds": LAST,
        "epochs": softmax.EPOCHS,
        "learning_rate": softmax.RATE,
    }


def one_seed(data: Federation, count: int, seed: int) -> dict[str, Any]:
    """Everything with one seed; at each q_total all series meet the same dropouts."""
    return {"dropouts": [one_dropout(data, q_total, count, seed) for q_total in DROPOUTS]}


def one_dropout(data: Federation, q_total: float, count: int, seed: int) -> dict[str, Any]:
    gone = [rounds.dropouts(q_total, data.clients, [seed, 6, k]) for k in range(count)]
    ours, paper = by_our_server(data, gone, seed), by_the_paper(data, gone, seed)
    for view, some in (("ours", ours), ("paper", paper)):
        for one in some:
            end, lost = one["accuracy"][-1], len(one["lost"])
            print(f"{view:5} seed {seed}, q_total = {q_total:g}, {one['name']}: accuracy {end:.3f}, {lost} lost")
    return {"q_total": q_total, "ours": ours, "paper_rule": paper}


def drawn_rates(clients: int, drawn: int, seed: int) -> list[dict[str, Any]]:
    """How many rounds the paper's rule loses, from many that are only drawn, for each q_total and p."""
    return [
        {
            "q_total": q_total,
            "lost": {named(p, clients): lost_rate(clients, p, q_total, drawn, seed) for p in CONNECTIONS},
        }
        for q_total in DROPOUTS
    ]


def shared(data: Federation) -> dict[str, Any]:
    """What is the same for every seed."""
    made = quantizer(data)
    return {
        "clients": data.clients,
        "photographs": {"train": data.train.shape[1], "test": data.test.shape[1]},
        "pixels": data.train.shape[2],
        "parameters": made.layout.size,
        "error_bound": made.error_bound,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = seeds.parse(__doc__, HERE, "a few rounds on small images, two seeds", arguments)
    effort = QUICK if wanted.quick else FULL
    key = Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    known = faces.whole(wanted.data, wanted.quick).smaller(effort.shrink)
    first = softmax.federation(known, wanted.seed)
    about = shared(first) | {"drawn": drawn_rates(known.persons, effort.drawn, wanted.seed)}

    def one(seed: int) -> dict[str, Any]:
        return one_seed(softmax.federation(known, seed), effort.rounds, seed)

    def summary(found: Seeds) -> dict[str, Any]:
        return about | {"summary": rows(found)}

    result = seeds.run(wanted, key, effort.seeds, one, summary)
    chart.save(draw(result), wanted.output / "faces_reliability.png")


if __name__ == "__main__":
    run(main)
