"""What the paper's rule and conventional secure aggregation would choose instead, and their price."""

from dataclasses import dataclass, replace

from ccesa.errors import ConfigError
from ccesa.plan import bounds
from ccesa.plan.calibration import calibrate
from ccesa.plan.cost import Cost, Shape, cost


@dataclass(frozen=True, kw_only=True)
class Paper:
    """p*, the mean degree and the common t it gives, and their cost; or why there is no p*."""

    p_star: float | None = None
    degree: float | None = None
    t: int | None = None
    cost: Cost | None = None
    reason: str = ""


def paper_rule(shape: Shape) -> Paper:
    """Remark 1 and the rule for t, with masks on every edge."""
    try:
        p = bounds.p_star(shape.clients, shape.dropout)
    except ConfigError as error:
        return Paper(reason=str(error))
    degree, t = p * (shape.clients - 1), bounds.threshold(shape.clients, p)
    priced = cost(replace(shape, degree=degree, mask_degree=degree, threshold=t), calibrate())
    return Paper(p_star=p, degree=degree, t=t, cost=priced)


def conventional(shape: Shape) -> Cost:
    """Conventional secure aggregation: everyone with everyone, masks on every edge, a majority of shares."""
    others = shape.clients - 1
    dense = replace(shape, degree=others, mask_degree=others, threshold=shape.clients // 2 + 1)
    return cost(dense, calibrate())
