"""The recall that the paper's two membership tables imply, beside "recall is close to 1 for all schemes".

The attack is asked about 5,000 members and 5,000 others, so an accuracy of two decimals says exactly how many
of the 10,000 answers were right; the precision then leaves a few numbers of true positives, all counted here.
"""

from typing import Any

from experiments.membership.picture import PAPER

#: Members, and others, in the paper's test of the attack.
EACH = 5000


def possible(accuracy: float, precision: float) -> list[int]:
    """Every number of members found with which both percentages come out as printed."""
    right = round(accuracy / 100 * 2 * EACH)
    found = []
    for members in range(EACH + 1):
        wrong = members + EACH - right  # others taken for members: right = members + EACH - wrong
        if 0 <= wrong <= EACH and members + wrong and _rounds(100 * members / (members + wrong), precision):
            found.append(members)
    return found


def _rounds(value: float, printed: float) -> bool:
    return abs(value - printed) <= 0.005 + 1e-9


def find() -> dict[str, Any]:
    rows = []
    for scheme, sizes in PAPER.items():
        for n_train, (accuracy, precision) in sizes.items():
            members = possible(accuracy, precision)
            rows.append(
                {
                    "scheme": scheme,
                    "n_train": n_train,
                    "accuracy": accuracy,
                    "precision": precision,
                    "lowest": 100 * min(members) / EACH,
                    "highest": 100 * max(members) / EACH,
                    "ways": len(members),
                }
            )
    return {"rows": rows}


def verdict(found: dict[str, Any]) -> str:
    """Close to 1 would be nine tenths, in every row that says anything."""
    return "true" if all(row["highest"] > 90 for row in found["rows"]) else "false as printed"
