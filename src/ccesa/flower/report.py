"""What operators read about rounds: node ids in place of the protocol's client numbers, equal reasons in one
line, and text from others cut and escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping
from logging import INFO, WARNING

from flwr.common import log

from ccesa.errors import CcesaError, Disconnected, FaultyClient, RoundFailed, shown
from ccesa.evidence import Evidence
from ccesa.flower.average import Average
from ccesa.flower.terms import Terms
from ccesa.protocol.server import Aggregate

#: Ids and reasons that a line or a step shows at most.
_IDS, _REASONS = 16, 5
#: Characters of an error of the protocol.
_MOST = 1000
#: ``client 3``, ``clients 3, 5`` and ``client(s): 3, 5``.
_NUMBERED = re.compile(r"\bclient(s|\(s\):)? ([0-9]{1,10}(?:, [0-9]{1,10})*)\b")


def named(nodes: Iterable[int]) -> str:
    """``node 17``, or how many nodes and their ids."""
    every = sorted(nodes)
    if len(every) == 1:
        return f"node {every[0]}"
    rest = f", and {len(every) - _IDS} more" if len(every) > _IDS else ""
    return f"{len(every)} nodes ({', '.join(map(str, every[:_IDS]))}{rest})"


def translated(text: str, nodes: Mapping[int, int]) -> str:
    """Text of the protocol with the ids of these nodes in place of client numbers.

    It is cut and escaped, as the protocol quotes what clients send.
    """

    def replace(found: re.Match[str]) -> str:
        clients = [int(number) for number in found[2].split(", ")]
        if not all(client in nodes for client in clients):
            return found[0]
        return f"node{found[1] or ''} {', '.join(str(nodes[client]) for client in clients)}"

    return _NUMBERED.sub(replace, shown(text, _MOST)).replace("client(s)", "node(s)")


def in_nodes(error: CcesaError, nodes: Mapping[int, int], around: int | None = None) -> str:
    """What an error of the protocol says, in terms of nodes. Who sent what is refused is said beside it.

    ``around`` is the number of lying neighbours that a charter stands; see ``suspected``.
    """
    text = translated(str(error), nodes)
    if isinstance(error, FaultyClient):
        return text.removeprefix(f"node {nodes.get(error.client)}: ")
    if isinstance(error, Disconnected):
        text += f"; apart: {named(nodes[client] for client in error.component if client in nodes)}"
    return text + (suspected(error.evidence, nodes, around) if isinstance(error, RoundFailed) else "")


def suspected(evidence: Evidence, nodes: Mapping[int, int], around: int | None) -> str:
    """What follows a list of pairs, where it is known how many neighbours of an honest node lie at most."""
    found = evidence.suspects(around) if around is not None else ()
    if not found:
        return ""
    who = named(nodes.get(client, client) for client in found)
    stand = "stands" if len(found) == 1 else "stand"
    return f"; of these, {who} {stand} in more pairs than {around} liars can make"


class Tally:
    """Reasons, and the nodes that each of them is true of."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[int]] = {}

    def add(self, reason: str, node: int) -> None:
        self._nodes.setdefault(reason, []).append(node)

    def lines(self) -> Iterator[str]:
        """A line per reason, the most frequent first; what is left over shares the last one."""
        ranked = sorted(self._nodes.items(), key=lambda item: -len(item[1]))
        for reason, nodes in ranked[:_REASONS]:
            yield f"{named(nodes)}: {reason}"
        rest = [node for _, nodes in ranked[_REASONS:] for node in nodes]
        if rest:
            yield f"{named(rest)}: other reasons"


class Once:
    """Lines that a log has once, however often they are true."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            log(INFO, "secure aggregation: %s", line)


def log_result(
    terms: Terms, aggregate: Aggregate, average: Average, asked: int, neighbours: float, once: Once
) -> None:
    """How many nodes are in the sum, how exact it is, and what was left out."""
    log(
        INFO,
        "secure aggregation: %s, %d of %d nodes in the sum, %.4g neighbours each; rounding moves no value by "
        "more than %.2g%s",
        terms.kind,
        len(aggregate.survivors),
        asked,
        neighbours,
        average.error,
        f", no counter by {average.counter_error:.2g}" if average.counter_error else "",
    )
    if average.capped:
        log(
            WARNING,
            "secure aggregation: %d nodes have more than max_weight = %g of %r and count as that many",
            average.capped,
            terms.max_weight,
            terms.weighted_by,
        )
    if average.nothing:
        log(
            WARNING,
            "secure aggregation: %d of %d nodes had nothing to contribute; their own logs say why",
            average.nothing,
            len(aggregate.survivors),
        )
    if not average.alike:
        log(WARNING, "secure aggregation: nodes report different metrics; they are left out")
    for name in average.absent:
        once.say(f"no node has '{shown(name)}' as a number in a {terms.kind} round")
    for name in average.unusable:
        log(
            WARNING,
            "secure aggregation: metric '%s' is left out: on some node it is no finite number, or beyond %g",
            shown(name),
            terms.metric_clip,
        )


def log_evidence(evidence: Evidence, nodes: Mapping[int, int], around: int | None) -> None:
    """Of each pair one lied, and nothing tells which. ``nodes`` has ids by client."""
    if evidence:
        line = translated(str(evidence), nodes) + suspected(evidence, nodes, around)
        log(WARNING, "secure aggregation: of each of these pairs one lied: %s", line)
