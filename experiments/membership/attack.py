"""Membership inference after Shokri et al.: shadow models show how a model answers on its own images.

For each class one small network learns, from the shadows' class probabilities alone, whether an image was a
member of the training set. It is then asked about the model under attack.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.cifar import CLASSES
from experiments.membership.setup import FALSE_ALARMS, ROC_AT, Places
from experiments.vgg import Images, Network, predictions

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch

HIDDEN, STEPS, RATE = 64, 300, 0.01
#: Logarithms of probabilities below this are all the same.
_LEAST = -20.0

Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """About some images: logarithms of the model's probabilities, the classes, and who is a member."""

    logs: Any
    classes: Any
    members: Any


def ask(network: Network, row: Any, images: Images, members: Places, others: Places) -> Answers:
    """The model's answers on as many members as others."""
    which = np.concatenate([members, others])
    logs = torch.nan_to_num(predictions(network, row, images, which), nan=_LEAST)
    device = images.y.device
    return Answers(
        logs=logs.clamp(_LEAST, 0.0).float() / -_LEAST,
        classes=images.y[torch.from_numpy(which).to(device)],
        members=(torch.arange(which.size, device=device) < members.size).float(),
    )


class Attack:
    """Ten small networks, one for each class."""

    def __init__(self, shadows: list[Answers], seed: int) -> None:
        torch.manual_seed(seed)
        logs = torch.cat([one.logs for one in shadows])
        classes = torch.cat([one.classes for one in shadows])
        members = torch.cat([one.members for one in shadows])
        self._judges = [_fitted(logs[classes == k], members[classes == k]) for k in range(CLASSES)]

    def judge(self, answers: Answers) -> dict[str, Any]:
        """How well members are told from others: by a yes or no, and by the order of the attack's odds."""
        odds = torch.zeros_like(answers.members, dtype=torch.float64)
        with torch.no_grad():
            for k, judge in enumerate(self._judges):
                own = answers.classes == k
                odds[own] = judge(answers.logs[own])[:, 0].double()
        members = answers.members.bool()
        return told_apart(odds.cpu().numpy(), members.cpu().numpy())


def told_apart(odds: NDArray[np.float64], members: NDArray[np.bool_]) -> dict[str, Any]:
    """Accuracy, precision and recall of "odds above one", and the curve of all thresholds.

    Precision is 0 where nothing is called a member. Where several images have the same odds, the curve is the
    straight line of a coin that is thrown for each of them.
    """
    called = odds > 0
    right = float((called & members).sum())
    hit, false = roc(odds, members)
    return {
        "accuracy": float((called == members).mean()),
        "precision": right / max(1.0, float(called.sum())),
        "recall": right / max(1.0, float(members.sum())),
        "auc": float(np.trapezoid(hit, false)),
        **{f"hits_at_{rate:g}": float(np.interp(rate, false, hit)) for rate in FALSE_ALARMS},
        "roc": [round(float(value), 5) for value in np.interp(ROC_AT, false, hit)],
    }


def roc(odds: NDArray[np.float64], members: NDArray[np.bool_]) -> tuple[Rates, Rates]:
    """For every threshold, from the strictest on, the share of members and of others that are called."""
    order = np.argsort(-odds, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(odds[order])), odds.size - 1)  # the last of each value
    hits, alarms = np.cumsum(members[order])[ends], np.cumsum(~members[order])[ends]
    return (
        np.concatenate([[0.0], hits / max(1, members.sum())]),
        np.concatenate([[0.0], alarms / max(1, (~members).sum())]),
    )


def _fitted(logs: Any, members: Any) -> Any:
    judge = torch.nn.Sequential(torch.nn.Linear(CLASSES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)).to(
        logs.device
    )
    if logs.shape[0] == 0:  # a class that no shadow has seen, in a quick run
        return judge
    optimizer = torch.optim.Adam(judge.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(judge(logs)[:, 0], members).backward()
        optimizer.step()
    return judge
