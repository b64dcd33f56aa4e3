"""Rounds with noise and without a charter: each is planned for the nodes that it asks, all for one demand."""

from collections.abc import Sequence
from typing import Any

import msgspec
from flwr.serverapp import Grid

from ccesa.agreement.agreement import RELEASES
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM
from ccesa.errors import ConfigError, quoted
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.metrics import slots_of
from ccesa.flower.both.model import Arrays, counters_of, real_numbers
from ccesa.flower.both.noisy import AnyPacking
from ccesa.flower.both.terms import DEFAULTS, Terms
from ccesa.flower.server.client_ids import ClientIds
from ccesa.flower.server.rounds import LEAST_NODES, Planning
from ccesa.graphs.assumptions import Assumptions
from ccesa.guards import CURIOUS
from ccesa.parts import check_type
from ccesa.plan.planner import plan
from ccesa.plan.result import Plan
from ccesa.privacy.mechanism import DifferentialPrivacy
from ccesa.protocol.server import Server


class NoisyRounds:
    """Rounds with noise and without a charter. The plan of each has the noise for as many nodes as it asks.

    Every plan is made for the same demand, so whatever the number of nodes is, no release spends more than
    the demand's share of one.
    """

    #: Nobody has agreed on how many of anyone's neighbours lie at most.
    around: None = None
    #: How often nodes without a ledger release shares for one model, if they do not say otherwise themselves.
    most_releases = RELEASES

    def __init__(
        self,
        *,
        privacy: DifferentialPrivacy,
        dropout: float = 0.1,
        collusion: float = CURIOUS.collusion,
        reliability_bits: float | None = None,
        metrics: Sequence[str] = (),
        metric_clip: float | None = None,
        post_quantum: bool = False,
        **others: Any,
    ) -> None:
        check_type("privacy", privacy, DifferentialPrivacy)
        if privacy.against != "follows":
            raise ConfigError("privacy against a server that lies needs a charter: SecureGrid(charter=...)")
        if others:
            raise ConfigError(
                f"{', '.join(others)} beside privacy: every node counts one, and one norm bounds all that it "
                "adds; leave it out"
            )
        if isinstance(metrics, str) or not all(isinstance(name, str) and name for name in metrics):
            raise ConfigError(f"metrics must be a list of names, not {quoted(metrics)}")
        if (metric_clip is None) == bool(metrics):
            raise ConfigError("metrics and metric_clip go together: with noise each has to have a bound")
        Assumptions(clients=LEAST_NODES, dropout=dropout, collusion=collusion)
        self.privacy, self.dropout, self._collusion = privacy, dropout, collusion
        self._reliability_bits = reliability_bits
        slots = slots_of(dict.fromkeys(metrics, 0.0))
        self._terms = Terms(
            message_type="train",
            clients=LEAST_NODES,
            metric_clip=DEFAULTS.metric_clip if metric_clip is None else metric_clip,
            metric_slots=len(slots),
            metrics=slots,
        )
        self._agreement = POST_QUANTUM if post_quantum else DEFAULT
        #: Names of the arrays that were whole numbers in a model which the strategy sent.
        self._counters: set[str] = set()
        self._planning = Planning()
        #: By number of nodes and of parameters.
        self._plans: dict[tuple[int, int], Plan] = {}

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask the nodes for: evaluations have metrics that are named."""
        return kind_of(message_type) == "train" or bool(self._terms.metrics)

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Return the terms for so many messages with this model; nothing is weighted."""
        self._counters |= counters_of(model)
        trains, counters = kind_of(message_type) == "train", sorted(self._counters)
        released = sum(value.size for value in real_numbers(model, counters).values())
        planned = self._planned(nodes, released if trains else self._terms.metric_slots)
        weighted_by = of_strategy or DEFAULTS.weighted_by
        if f"={weighted_by}" in (self._terms.metrics or ()):
            raise ConfigError(
                f"metric {weighted_by!r} is what the strategy weights by, and cannot be released: every node "
                "counts one"
            )
        return msgspec.structs.replace(
            self._terms,
            message_type=message_type,
            clients=nodes,
            weighted_by=weighted_by,
            counters=counters if trains else [],
            privacy=planned.mechanism or msgspec.UNSET,
        )

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        mechanism = packing.terms.mechanism
        planned = self._planned(packing.terms.clients, mechanism.dimension if mechanism else 0)
        return planned.config(accept=accept or planned.accept)

    def client_ids(self, grid: Grid) -> ClientIds:
        """Return which client each node is: nobody has agreed on that."""
        return ClientIds()

    def server(self, config: RoundConfig, **options: Any) -> Server:
        """Make the server of one round."""
        return Server(config, dropout=self.dropout, **options)

    def _planned(self, nodes: int, parameters: int) -> Plan:
        if (nodes, parameters) not in self._plans:
            planned = self._planning.of(nodes, lambda: self._plan(nodes, parameters))
            self._plans[nodes, parameters] = planned
        return self._plans[nodes, parameters]

    def _plan(self, nodes: int, parameters: int) -> Plan:
        return plan(
            nodes,
            self.dropout,
            self._collusion,
            length=parameters,
            reliability_bits=self._reliability_bits,
            agreement=self._agreement,
            privacy=self.privacy,
        )
