"""``SecureGrid`` is a Flower grid through which a strategy sees the mean of all replies, and no single one."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from ccesa.agreement.charter import Charter
from ccesa.errors import ConfigError, RoundFailed, TooFewClients, VectorError
from ccesa.flower.both import log
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.packing import MeanReply, packing_for
from ccesa.flower.both.terms import ReplyTerms, model_of
from ccesa.flower.server.exchange import RoundTransport, StrategyTimeout, node_of
from ccesa.flower.server.report import log_evidence, log_result
from ccesa.flower.server.rounds import MINIMUM_NODES, Releases, check_policy, make_rounds
from ccesa.flower.server.series import Asked, Preparing
from ccesa.flower.server.strategy import LostRounds, RoundLost, Start, check_caller, find_start
from ccesa.policy import Policy
from ccesa.privacy.mechanism import DifferentialPrivacy
from ccesa.protocol.parties import check_executor


def check_alike(messages: list[Message]) -> None:
    """Refuse messages that differ, or two to a node: only replies to one model have a mean."""
    node, times = Counter(message.metadata.dst_node_id for message in messages).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"{times} messages to node {node} at once; secure aggregation sends one to each")
    first = messages[0].content
    for message in messages[1:]:
        if message.content is not first and dict(message.content) != dict(first):
            raise ConfigError("the strategy sends different arrays or settings to different nodes; send all the same")


def make_reply(asked: Message, terms: ReplyTerms, mean: MeanReply) -> Message:
    """Make the one reply for all nodes: mean and total weight, under the names of the apps' records."""
    arrays, metrics = mean.records
    content: dict[str, Any] = {metrics: MetricRecord({terms.weighted_by: mean.weight, **mean.metrics})}
    if terms.kind == "train":
        content[arrays] = ArrayRecord({name: Array(np.asarray(value)) for name, value in mean.arrays.items()})
    return Message(RecordDict(content), reply_to=asked)


class SecureGrid(Grid):  # type: ignore[misc]  # flwr is not typed for us
    """Wraps a grid: ``strategy.start(grid=SecureGrid(grid), ...)``.

    Train and evaluate messages go through a round of secure aggregation and come back as one reply: the
    weighted mean of all arrays and metrics, and the total weight. A lost round gives no reply, and the
    strategy keeps its model. All other messages pass through.

    While the same nodes are asked again, a round sets up the one after it, and takes two exchanges in place
    of four (three in place of five with a charter). With helpers every node is asked once in a round.

    Args:
        grid: The grid that Flower gives to the ServerApp.
        charter: The agreement of the federation, for the guards ``active`` and ``assisted``. It replaces the
            settings from ``privacy`` to ``post_quantum``.
        privacy: The limit on what all rounds together reveal about a node (none). Every node counts one.
        metrics: With ``privacy``, the metrics that evaluations release; no others are sent (none).
        reliability_bits: With ``privacy``, a round is lost with probability 2^-``reliability_bits`` at most (20).
        dropout: The fraction of nodes that rounds are planned to lose (0.1).
        collusion: The fraction of nodes that may work with the server (0).
        clip: The bound on the change of a single parameter (2.0).
        metric_clip: The bound on a metric (1e6).
        bits: Bits of one node's value, 2 to 53 (as many as fit into 32 bits on the wire).
        precision: In place of ``bits``: by how much rounding may change a parameter of the mean, if every
            node has ``max_weight`` examples.
        max_weight: The maximum number of examples of a node (65,536).
        weighted_by: The metric that weights replies; by default the strategy's, or ``num-examples``.
        metric_slots: The maximum number of metrics of a reply (16).
        post_quantum: Whether recorded traffic stays secret when X25519 is broken (no).
        policy: How long each step waits, within the strategy's timeout (for all nodes).
        retries: How often a lost round is repeated.
        give_up_after: How many lost rounds in a row end the training; by default it goes on.
        secure_evaluate: Whether evaluate messages go through secure rounds, too.
        executor: Its workers remove masks from large sums, as for a ``Server`` (none).

    Attributes:
        error_bound: By how much rounding can have moved any value of the last model; None before the first,
            and with ``privacy``.
        noise: The standard deviation of the noise in every parameter of the last model; None before the
            first, and without ``privacy``.

    Raises:
        ConfigError: A setting is out of range or not allowed beside a charter, or the charter has expired.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        charter: Charter | None = None,
        privacy: DifferentialPrivacy | None = None,
        metrics: Sequence[str] | None = None,
        reliability_bits: float | None = None,
        dropout: float | None = None,
        collusion: float | None = None,
        clip: float | None = None,
        metric_clip: float | None = None,
        bits: int | None = None,
        precision: float | None = None,
        max_weight: float | None = None,
        weighted_by: str | None = None,
        metric_slots: int | None = None,
        post_quantum: bool | None = None,
        policy: Policy | None = None,
        retries: int = 0,
        give_up_after: int | None = None,
        secure_evaluate: bool = True,
        executor: Executor | None = None,
    ) -> None:
        noise = {"privacy": privacy, "metrics": metrics, "reliability_bits": reliability_bits}
        assumed = {"dropout": dropout, "collusion": collusion}
        values = {"clip": clip, "metric_clip": metric_clip, "bits": bits, "precision": precision}
        weights = {"max_weight": max_weight, "weighted_by": weighted_by, "metric_slots": metric_slots}
        settings = {**noise, **assumed, **values, **weights, "post_quantum": post_quantum}
        if type(retries) is not int or retries < 0:
            raise ConfigError(f"retries must be 0 or greater, not {retries!r}")
        check_executor(executor)
        self._rounds = make_rounds(charter, settings, secure_evaluate)
        if policy is not None:
            check_policy(policy, self._rounds.dropout)
        self._grid, self._policy, self._executor = grid, policy, executor
        self._client_ids, self._secure_evaluate = self._rounds.client_ids(grid), secure_evaluate
        self._retries, self._lost_rounds = retries, LostRounds(give_up_after)
        self._releases = Releases(self._rounds.privacy)
        #: Types of messages to which some node has answered as ``secure_mod`` does.
        self._mod_seen: set[str] = set()
        #: By type of message.
        self._preparing: dict[str, Preparing] = {}
        self.error_bound: float | None = None
        self.noise: float | None = None

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send train and evaluate messages through secure rounds, all others through the wrapped grid.

        Args:
            messages: One per node, all with the same content.
            timeout: Seconds for all steps of a round together; None: no limit.

        Returns:
            One reply per secure round, the mean; none for a lost round.

        Raises:
            RoundsLost: All rounds of a strategy were lost, or ``give_up_after`` rounds in a row.
            AttemptsSpent: Nodes no longer contribute to this model, or have used up their privacy budget.
            BudgetSpent: With ``privacy``, a node would be asked for more vectors than the noise is made for.
            ConfigError: No node has ``secure_mod``, the strategy needs single updates, or messages differ.
        """
        by_type: dict[str, list[Message]] = {}
        for message in messages:
            by_type.setdefault(str(message.metadata.message_type), []).append(message)
        replies: list[Message] = []
        start, asked = find_start(), {kind_of(message_type) for message_type in by_type}
        self._lost_rounds.enter(start)
        with ExitStack() as unless_done:
            unless_done.callback(self.stop)  # an exception ends the training
            for message_type, some in by_type.items():
                kind = kind_of(message_type)
                if kind == "train" or (kind == "evaluate" and self._secure_evaluate):
                    replies += self._secure(message_type, some, timeout, start)
                else:
                    replies += self._grid.send_and_receive(some, timeout=timeout)
            self._lost_rounds.check(start, asked)
            unless_done.pop_all()
        if start is not None and start.left <= 1:
            for message_type, preparing in self._preparing.items():
                if kind_of(message_type) in asked or not asked:  # the strategy may still evaluate
                    preparing.stop(wait=True)
        return replies

    def stop(self) -> None:
        """End all series: nodes drop the keys of rounds that were prepared, and have five seconds for it.

        Call it after a loop of your own, whose end a grid cannot know. ``Strategy.start`` does not need it.
        """
        for preparing in self._preparing.values():
            preparing.stop(wait=True)

    def _secure(
        self, message_type: str, messages: list[Message], timeout: float | None, start: Start | None
    ) -> list[Message]:
        """Return one reply, or none if the round is lost, or has nothing to release."""
        check_alike(messages)
        kind = kind_of(message_type)
        if kind == "evaluate" and not self._rounds.evaluates:
            log.info_once(f"no {message_type} messages are sent: with noise, name the metrics first")
            return []
        if message_type not in self._preparing:
            self._preparing[message_type] = Preparing(self._grid, self._rounds, self._executor, message_type)
        preparing, model = self._preparing[message_type], model_of(messages[0].content)
        try:
            terms = self._rounds.terms(message_type, len(messages), model, check_caller())
            log.info_once(terms.fields.in_words)
            if kind == "train" and start is not None:
                self._releases.check_ahead(
                    start.left,
                    evaluates=self._rounds.evaluates,
                    everyone=lambda: len(messages) == len(list(self.get_node_ids())),
                )
            mean = preparing.attempts.enter(terms, messages)
            if mean is None:
                asked = Asked(frozenset(map(node_of, messages)), terms, packing_for(terms, model).length)
                preparing.enter(asked, None if start is None else start.left)
                clock = StrategyTimeout(timeout)
                mean = self._repeat(partial(self._round, preparing, asked, messages, clock), clock)
                preparing.attempts.note_mean(mean)
        except RoundLost as lost:
            log.warn(f"the {kind} round with {len(messages)} nodes is lost: {lost}")
            self._lost_rounds.note_loss(kind, str(lost))
            return []
        self._lost_rounds.note_success(kind)
        return [make_reply(messages[0], terms, mean)]

    def _repeat(self, one_round: Callable[[], MeanReply], timeout: StrategyTimeout) -> MeanReply:
        """Return the mean of the first round that is not lost; each has keys of its own."""
        for _ in range(self._retries):
            try:
                return one_round()
            except RoundLost as lost:
                if not lost.repeatable or not timeout.left:
                    raise
                log.warn(f"a round is lost, and repeated: {lost}")
        return one_round()

    def _round(self, preparing: Preparing, asked: Asked, given: list[Message], timeout: StrategyTimeout) -> MeanReply:
        terms, attempts = asked.terms, preparing.attempts
        messages = attempts.messages(given, terms)
        content = messages[0].content
        task = terms.round_task(content)
        self._releases.check(asked.nodes, terms.mechanism)
        by_client = self._client_ids.assign(messages, self._policy, timeout)
        running = preparing.next_round(asked, by_client, task)
        transport = RoundTransport(
            self._grid,
            config=running.config,
            terms=terms,
            messages=by_client,
            timeout=timeout,
            policy=self._policy,
            mod_seen=self._mod_seen,
            around=self._rounds.around,
            holding=running.holding,
            helpers=self._rounds.helpers,
        )
        lost = True
        try:
            aggregate = running.run(transport, task)
            survivors = len(aggregate.survivors)
            mean = packing_for(terms, model_of(content), running.context).unpack(aggregate.vector, survivors)
            if survivors - mean.nothing < MINIMUM_NODES:  # a server that lies has opened it by now
                raise TooFewClients(
                    f"{mean.nothing} of {survivors} nodes contributed nothing, and the mean of fewer than "
                    f"{MINIMUM_NODES} reveals too much; read their logs"
                )
            lost = False
        except (RoundFailed, VectorError) as failure:  # other errors are mistakes in code
            raise transport.explain(failure, given_up=attempts.give_up) from failure
        finally:
            attempts.note(running, transport, lost=lost)
            self._releases.add(transport.asked_for_vectors, terms.mechanism)
            transport.report()
            running.end(lost=lost)
        if terms.kind == "train":
            self.error_bound, self.noise = mean.bound, mean.noise
        log_result(terms, survivors, mean, len(messages), running.config)
        log_evidence(aggregate.evidence, transport.nodes, self._rounds.around, self._rounds.helpers)
        return mean

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *arguments: Any, **others: Any) -> Message:
        return self._grid.create_message(*arguments, **others)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that can be asked to train; nodes that only help are left out once they are known."""
        only_help = self._client_ids.only_help
        return [node for node in self._grid.get_node_ids() if node not in only_help]

    def get_nodes(self) -> Iterable[Any]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages as they are, neither aggregated nor protected.

        Args:
            messages: For the wrapped grid.

        Returns:
            The ids that the wrapped grid gave to the messages.
        """
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)
