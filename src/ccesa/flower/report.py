"""What the server's log says about a round."""

from collections.abc import Mapping
from logging import INFO, WARNING

from flwr.common import log

from ccesa.flower.terms import Average, Terms
from ccesa.flower.wording import shown, translated
from ccesa.plan.planner import Plan
from ccesa.protocol.server import Aggregate

#: Pairs of nodes that a line shows at most.
_PAIRS = 8


def log_result(
    planned: Plan, terms: Terms, aggregate: Aggregate, average: Average, nodes: Mapping[int, int], asked: int
) -> None:
    """How many nodes are in the sum, how exact it is, and what was left out. ``nodes`` has ids by client."""
    log(
        INFO,
        "secure aggregation: %s, %d of %d nodes in the sum, %.4g neighbours each; rounding moves no value by "
        "more than %.2g%s",
        terms.kind,
        len(aggregate.survivors),
        asked,
        planned.degree,
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
    for name in average.unusable:
        log(
            WARNING,
            "secure aggregation: metric '%s' is left out: on some node it is no finite number, or beyond %g",
            shown(name),
            terms.metric_clip,
        )
    _log_wrong_shares(aggregate, nodes)


def _log_wrong_shares(aggregate: Aggregate, nodes: Mapping[int, int]) -> None:
    """Of each pair one lied, and nothing tells which."""
    pairs = sorted(aggregate.wrong_shares)
    if pairs:
        each = [f"client {one.sender} sent what client {one.dealer} had dealt" for one in pairs[:_PAIRS]]
        rest = f"; and {len(pairs) - _PAIRS} more" if len(pairs) > _PAIRS else ""
        log(WARNING, "secure aggregation: wrong shares: %s", translated("; ".join(each) + rest, nodes))
