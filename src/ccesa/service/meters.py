"""Metrics for Prometheus: counters of the hub and its HTTP side, and figures from the status.

Labels have few values: a value that is in no table here counts as "other", so clients cannot add labels.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from ccesa.service.desk import MemberState, State, Status
from ccesa.service.problems import KINDS

STEPS = ("key", "advertise", "share", "accept", "mask", "confirm", "unmask")
STATES, MEMBERS = get_args(State), get_args(MemberState)
#: Why a round was lost: names of errors.
LOST = (
    "TooFewClients",
    "Unreliable",
    "Disconnected",
    "CorruptShares",
    "CorruptSeeds",
    "StaleLog",
    "AttemptsSpent",
    "HelpersMissing",
    "CorruptSum",
    "RoundFailed",
    "VectorError",
    "TaskLost",
    "Abandoned",
)
REFUSED = tuple(KINDS)  # why a request was refused: names of problems
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600)
_CLIENTS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)


def _known(value: str, table: Iterable[str]) -> str:
    return value if value in table else "other"


class Meters:
    """The metrics of one hub process, for any thread. Those without a method here have ``inc`` or ``set``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"namespace": "ccesa", "registry": self.registry}
        self._rounds = Counter("rounds", "Rounds that are over.", ["outcome", "reason"], **own)
        self._accusations = Counter("accusations", "Pairs of clients, one of whom lied.", **own)
        dropped = "Clients that were asked and dropped out of a round."
        self._drops = Counter("drops", dropped, ["step", "reason"], **own)
        self._refusals = Counter("refusals", "Requests that were refused.", ["reason"], **own)
        self.received = Counter("received_bytes", "Bytes of request bodies received.", **own)
        self.sent = Counter("sent_bytes", "Bytes of tasks and requests sent.", **own)
        self.store_away = Counter("store_unavailable", "Times the store could not be reached.", **own)
        self._actions = Counter("actions", "Actions of operators.", ["action"], **own)
        self._seconds = Histogram("step_seconds", "How long steps were open.", ["step"], buckets=_SECONDS, **own)
        answered = "How many clients answered a step."
        self._clients = Histogram("step_clients", answered, ["step"], buckets=_CLIENTS, **own)
        self.leads = Gauge("hub_leads", "1 if this process leads the federation's hubs.", **own)
        self.polls = Gauge("long_polls", "Long polls that wait now.", **own)
        self.connections = Gauge("connections", "Connections that are open now.", **own)
        self.viewers = Gauge("viewers", "Operator pages that are open now.", **own)
        self._status: Callable[[], Status] | None = None
        self.registry.register(self)

    def count_refusal(self, reason: str) -> None:
        self._refusals.labels(_known(reason, REFUSED)).inc()

    def count_step(self, step: str, seconds: float, asked: int, dropped: int, faulty: int = 0) -> None:
        """Count a closed step: of ``asked`` clients, ``dropped`` did not answer; ``faulty`` of these sent nonsense."""
        step = _known(step, STEPS)
        self._seconds.labels(step).observe(seconds)
        self._clients.labels(step).observe(asked - dropped)
        self._drops.labels(step, "silent").inc(dropped - faulty)
        self._drops.labels(step, "faulty").inc(faulty)

    def count_round(self, outcome: str, pairs: int = 0) -> None:
        """Count a round that is over, with the number of accusations; the leader calls this once for each."""
        lost = outcome != "sum"
        self._rounds.labels("lost" if lost else "sum", _known(outcome, LOST) if lost else "").inc()
        self._accusations.inc(pairs)

    def count_action(self, action: str) -> None:
        self._actions.labels(action).inc()

    def follow(self, status: Callable[[], Status]) -> None:
        """Add figures of the newest status to the metrics."""
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield figures of the status, for the registry. An unknown figure has no sample, not a zero."""
        if self._status is None:
            return
        status = self._status()
        for name, words, value in _figures(status):
            yield GaugeMetricFamily(f"ccesa_{name}", words, value=value)  # without a sample for None
        yield _by_state("members", "Members by state.", MEMBERS, [one.state for one in status.members])
        helpers = GaugeMetricFamily("ccesa_helper_present", "1 for a helper that was heard from.", labels=["helper"])
        for one in status.helpers:
            helpers.add_metric([one.name], one.state == "present")
        yield helpers
        yield _by_state("state", "1 for the federation's state.", STATES, [status.state])

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their media type, for an ``Accept`` header."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type


def _figures(status: Status) -> list[tuple[str, str, float | None]]:
    privacy = status.privacy
    return [
        ("series", "The number of the series.", status.series),
        ("exchange", "The number of the open exchange in its series; -1 for none.", status.exchange),
        ("questions", "Sums wanted in all.", status.questions),
        ("questions_answered", "Sums done.", status.answered),
        ("asked", "Clients that the open exchange asks.", max((s.asked for s in status.steps), default=0)),
        ("hubs", "Hub processes that are alive.", len(status.hubs)),
        ("privacy_bits", "-log2 of the certified chance that privacy fails.", status.privacy_bits),
        ("epsilon_spent", "Epsilon spent by all releases so far.", privacy.epsilon if privacy else None),
        ("epsilon_budget", "Epsilon budget.", privacy.budget if privacy else None),
        ("delta", "Delta for which epsilon holds.", privacy.delta if privacy else None),
    ]


def _by_state(name: str, words: str, states: tuple[str, ...], found: list[str]) -> Metric:
    family = GaugeMetricFamily(f"ccesa_{name}", words, labels=["state"])
    for state in states:
        family.add_metric([state], found.count(state))
    return family
