"""Reports about rounds name nodes by Flower's node ids, not by the protocol's client ids.

Equal reasons share a line. Text from nodes is cut and escaped.
"""

from collections.abc import Iterable, Iterator, Mapping

from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError, FaultyClient, RoundFailed, shown
from ccesa.evidence import Evidence, Naming, by_id, counted
from ccesa.flower.both import log
from ccesa.flower.both.packing import MeanReply
from ccesa.flower.both.terms import ReplyTerms

#: The maximum of reasons that have a line of their own, and of characters of an error of the protocol.
_REASONS, _CHARACTERS = 5, 1000


def nodes_text(nodes: Iterable[int]) -> str:
    """Return ``node 17``, or the number of nodes and their ids."""
    return counted("node", nodes)


#: The names of helpers by their ids in a round.
HelperNames = Mapping[int, str]
NO_HELPERS: HelperNames = {}


def as_nodes(nodes: Mapping[int, int], helpers: HelperNames = NO_HELPERS) -> Naming:
    """Name clients by the ids of their nodes, or as clients if one of them has no node; helpers by their names."""

    def name(clients: Iterable[int]) -> str:
        every = list(clients)
        named = [
            f"helper {helpers[one]}" + f" (node {nodes.get(one)})" * (one in nodes) for one in every if one in helpers
        ]
        others = [one for one in every if one not in helpers]
        if others:
            known = all(client in nodes for client in others)
            named.append(nodes_text(nodes[client] for client in others) if known else by_id(others))
        return ", ".join(named)

    return name


def in_nodes(
    error: CcesaError, nodes: Mapping[int, int], around: int | None = None, helpers: HelperNames = NO_HELPERS
) -> str:
    """Return the text of an error with node ids, cut and escaped: the protocol quotes messages of clients."""
    naming = as_nodes(nodes, helpers)
    if isinstance(error, FaultyClient):
        return shown(error.reason(naming), _CHARACTERS)
    text = shown(error.described(naming), _CHARACTERS)
    return text + (suspect(error.evidence, nodes, around) if isinstance(error, RoundFailed) else "")


def suspect(evidence: Evidence, nodes: Mapping[int, int], around: int | None) -> str:
    """Return the nodes that must have lied, if a charter says how many neighbours ``around`` a node may lie."""
    suspects = evidence.suspects(around) if around is not None else ()
    if not suspects:
        return ""
    stand = "stands" if len(suspects) == 1 else "stand"
    return f"; of these, {as_nodes(nodes)(suspects)} {stand} in more pairs than {around} liars can make"


class Reasons:
    """Reasons, each with its nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[int]] = {}

    def add(self, reason: str, node: int) -> None:
        self._nodes.setdefault(reason, []).append(node)

    def lines(self) -> Iterator[str]:
        """Yield one line per reason, the most frequent first; rare reasons share the last line."""
        ranked = sorted(self._nodes.items(), key=lambda item: -len(item[1]))
        for reason, nodes in ranked[:_REASONS]:
            yield f"{nodes_text(nodes)}: {reason}"
        rest = [node for _, nodes in ranked[_REASONS:] for node in nodes]
        if rest:
            yield f"{nodes_text(rest)}: other reasons"


def log_result(terms: ReplyTerms, survivors: int, mean: MeanReply, asked: int, config: RoundConfig) -> None:
    """Log how many nodes are in the sum, how exact or noisy it is, and what is missing."""
    helpers, neighbours = len(config.helper_ids), config.graph.mean_degree(asked)
    beside = f"{helpers} helpers" if helpers else f"{neighbours:.4g} neighbours each"
    count = f"{terms.kind}, {survivors} of {asked} nodes in the sum, {beside}"
    if mean.noise is not None:
        what = "every parameter" if terms.kind == "train" else "every metric"
        log.info(f"{count}; {what} of the mean has noise with a standard deviation of {mean.noise:.2g}")
        return
    counters = f", no counter by {mean.counter_error:.2g}" if mean.counter_error else ""
    cut = "; clipping moves some by more, see the next line" if mean.clipped else ""
    log.info(f"{count}; rounding moves no value by more than {mean.error:.2g}{counters}{cut}")
    if mean.clipped:
        log.warn(
            f"{mean.clipped} of {survivors} nodes changed values by more than clip = {terms.clip:g}: "
            f"{mean.clipped_values} values were cut to it, so the mean is wrong. Use a larger clip, or a "
            "smaller learning rate"
        )
    if mean.capped:
        log.warn(
            f"{mean.capped} nodes have more than max_weight = {terms.max_weight:g} of {terms.weighted_by!r}, and "
            "count as max_weight"
        )
    if mean.nothing:
        log.warn(f"{mean.nothing} of {survivors} nodes contributed nothing; read their logs")
    if not mean.alike:
        log.warn("nodes report different metrics, so the mean has none")
    for name in mean.absent:
        log.info_once(f"no node reports '{shown(name)}' as a number in a {terms.kind} round")
    for name in mean.unusable:
        log.warn(f"metric '{shown(name)}' is left out: on some node it is not finite, or beyond {terms.metric_clip:g}")


def log_evidence(
    evidence: Evidence, nodes: Mapping[int, int], around: int | None, helpers: HelperNames = NO_HELPERS
) -> None:
    """Log the pairs of nodes of which one lied, or the network between them did."""
    if evidence:
        pairs = evidence.described(as_nodes(nodes, helpers)) + suspect(evidence, nodes, around)
        log.warn(f"in each of these pairs one node lied, or the network did: {pairs}")
