"""What the noise of a federation has spent: every round that asked for vectors counts, lost or not."""

from collections.abc import Iterable

from ccesa.privacy.mechanism import Mechanism
from ccesa.service.desk import PrivacyStatus
from ccesa.service.federation import Federation
from ccesa.service.store.rows import RoundRow


def spent(federation: Federation, rounds: Iterable[RoundRow]) -> PrivacyStatus | None:
    """Return what was spent, of which budget; None where there is no noise."""
    mechanism = getattr(federation.form, "privacy", None)
    if not isinstance(mechanism, Mechanism):
        return None
    vectors = sum(row.question is not None for row in rounds)
    return PrivacyStatus(
        epsilon=mechanism.release.times(vectors).epsilon(mechanism.delta) if vectors else 0.0,
        budget=mechanism.epsilon,
        delta=mechanism.delta,
        vectors=vectors,
        rounds=mechanism.rounds,
    )
