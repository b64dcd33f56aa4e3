"""``plan_helpers`` plans rounds with helpers, the guard ``assisted``: the minimum of members in a sum, and the price.

There is no graph to search for, and the promise has no probability. The one number to choose is ``min_survivors``: the
larger it is, the more honest members every sum covers, and the more rounds are lost because too few members answer.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from ccesa.agreement.config import CHARTER_BYTES, AssistedConfig
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs.assumptions import MAX_BITS, RELIABILITY_BITS, Assumptions
from ccesa.graphs.reliability import MIN_SUM, log_fewer
from ccesa.graphs.tails import log2_upwards
from ccesa.guards import ASSISTED
from ccesa.parts import check_range, check_type, whole_number
from ccesa.plan.noise import LOSSY_BITS, note_noise
from ccesa.plan.price import AssistedCost, AssistedShape, price_helpers
from ccesa.plan.result import Offer, Promise
from ccesa.plan.search import Option, in_words
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.protocol.steps import steps_under
from ccesa.values.fields import WORD_BITS

#: Helpers unless another number is asked for: three seldom fall out of use at once, and seldom plot together.
USUAL_HELPERS = 3


@dataclass(frozen=True, kw_only=True)
class AssistedPlan:
    """Helpers in place of a graph: what they promise, and what they cost.

    Attributes:
        assumptions: The number of members, and how many of them drop out and collude.
        helpers: The number of helpers, 2 to 16.
        helping_members: How many of the helpers are members.
        min_survivors: S: sums over fewer members are not opened.
        length: Words of a vector.
        bits: Bits of a word.
        agreement: How a member and a helper agree on a secret, ``x25519`` or ``x25519-mlkem768``.
        reliability_bits: The demand on reliability, as -log2 of a probability.
        mechanism: The noise of every vector, if it was asked for.
        notes: Remarks, such as differences between the plan and the request.
    """

    assumptions: Assumptions
    helpers: int
    helping_members: int
    min_survivors: int
    length: int
    bits: int
    agreement: str
    reliability_bits: float
    mechanism: Mechanism | None = None
    notes: tuple[str, ...] = ()

    @property
    def guard(self) -> str:
        """The guard of its rounds, ``assisted``."""
        return ASSISTED.name

    @property
    def clients(self) -> int:
        """The number of members."""
        return self.assumptions.clients

    @property
    def colluders(self) -> int:
        """How many members may work with the hub."""
        return self.assumptions.colluders

    @property
    def least_honest(self) -> int:
        """The honest members in every sum that can be opened, S - C, if one helper is honest."""
        return self.min_survivors - self.colluders

    @property
    def one_must_be_honest(self) -> bool:
        """Whether one helper is honest because at most ``colluders`` members are not: so many helpers are members."""
        return self.helping_members > self.colluders

    @cached_property
    def unreliable(self) -> float:
        """The log2 of a bound on P(a round is lost because fewer than ``min_survivors`` answer)."""
        return log2_upwards(log_fewer(self.assumptions, self.min_survivors))

    def promise(self, against: str) -> Promise:
        """Return how many honest members, whose noise counts, are in every sum that a server can open.

        Args:
            against: ``follows`` or ``lies``: the promise is the same.
        """
        return Promise(self.least_honest, -math.inf)

    @property
    def exchanges(self) -> dict[str, int]:
        """How many requests a member and a helper get in a single round, and how many exchanges a round of a series."""
        steps = steps_under(self.guard)
        helping = sum(step.by_helpers + (step.beside is not None) for step in steps)
        return {"member": sum(not step.by_helpers for step in steps), "helper": helping, "series": ASSISTED.stride}

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Denser graphs with less noise: none."""
        return ()

    @property
    def shape(self) -> AssistedShape:
        """The properties of a round that its cost depends on."""
        names = ("clients", "helpers", "length", "bits", "agreement")
        return AssistedShape(**{name: getattr(self, name) for name in names})

    @property
    def cost(self) -> AssistedCost:
        """The cost of a round in bytes and operations. ``price_helpers`` adds seconds."""
        return price_helpers(self.shape)


def plan_helpers(
    clients: int,
    dropout: float = 0.1,
    collusion: float | None = None,
    helpers: int = USUAL_HELPERS,
    helping_members: int = 0,
    min_survivors: int | None = None,
    colluders: int | None = None,
    length: int = 1_000_000,
    bits: int = 32,
    reliability_bits: float | None = None,
    exact_dropout: bool = False,
    agreement: str = DEFAULT,
    privacy: DifferentialPrivacy | None = None,
    field_bits: int | None = None,
) -> AssistedPlan:
    """Return a plan with helpers in place of a graph, for rounds under the guard ``assisted``.

    Args:
        clients: How many members there are, 3 to 10^8.
        dropout: The probability in [0, 1) that a member does not send its vector. Only ``min_survivors`` depends on it.
        collusion: The fraction of members that work with the hub, in [0, 1); by default a tenth, and at least one.
        helpers: How many helpers there are, 2 to 16.
        helping_members: How many of the helpers are members. If they are more than the colluders, one is honest.
        min_survivors: The minimum of members in a sum. By default the largest number that ``reliability_bits`` allows,
            and at least two more than the colluders.
        colluders: In place of ``collusion``: the number of members that work with the hub, 0 or greater.
        length: Words of a vector; with ``privacy`` the parameters of a model, several of them in a word.
        bits: Bits of a word, 8, 16, 32 or 64; with ``privacy`` 64.
        reliability_bits: Too few members answer with probability 2^-reliability_bits at most; by default 20, or,
            with a note, what is possible.
        exact_dropout: Whether exactly a fraction ``dropout`` drops out, and not each member by chance.
        agreement: ``x25519``, or ``x25519-mlkem768``, which stays secret even if X25519 is broken.
        privacy: What all sums together may reveal about a member. The plan then has a ``mechanism``, the noise that
            every member adds.
        field_bits: Bits of a parameter in a sum with noise; by default the fewest that add hardly any noise.

    Raises:
        ImpossiblePlan: No ``min_survivors`` keeps ``reliability_bits``. Its ``options`` are changes that help.
        ConfigError: An argument is out of range, or sums could cover fewer than two honest members.
    """
    return HelpersRequest(**locals()).plan()


@dataclass(frozen=True)
class HelpersRequest:
    """The arguments of ``plan_helpers``, whose docstring explains them."""

    clients: int
    dropout: float = 0.1
    collusion: float | None = None
    helpers: int = USUAL_HELPERS
    helping_members: int = 0
    min_survivors: int | None = None
    colluders: int | None = None
    length: int = 1_000_000
    bits: int = 32
    reliability_bits: float | None = None
    exact_dropout: bool = False
    agreement: str = DEFAULT
    privacy: DifferentialPrivacy | None = None
    field_bits: int | None = None

    def change(self, option: Option) -> "HelpersRequest":
        """Return the request changed by an option of ``advise``."""
        if "epsilon" in option and self.privacy is not None:
            return replace(self, privacy=msgspec.structs.replace(self.privacy, **option))
        return replace(self, **option)

    def plan(self) -> AssistedPlan:
        """Return the plan."""
        self._check()
        assumptions = self._assumptions
        made = AssistedPlan(
            assumptions=assumptions,
            helpers=self.helpers,
            helping_members=self.helping_members,
            min_survivors=_lowest(assumptions.colluders) if self.min_survivors is None else self.min_survivors,
            length=self.length,
            bits=self.bits,
            agreement=self.agreement,
            reliability_bits=RELIABILITY_BITS if self.reliability_bits is None else self.reliability_bits,
        )
        check_range("min_survivors", made.min_survivors, 2, self.clients)
        if made.least_honest < 2:
            raise ConfigError(
                f"a sum over min_survivors = {made.min_survivors} members, of whom {made.colluders} may work with the "
                f"hub, covers fewer than two honest members: take min_survivors = {made.colluders + 2} or more"
            )
        made = self._insist(made)
        return made if self.privacy is None else self._add_noise(made, self.privacy)

    def _check(self) -> None:
        terms = {name: getattr(self, name) for name in ("clients", "helpers", "length", "bits", "agreement")}
        AssistedConfig(**terms, charter=bytes(CHARTER_BYTES), min_survivors=2)  # refuses bad terms
        check_range("helping_members", self.helping_members, 0, min(self.helpers, self.clients))
        wanted = RELIABILITY_BITS if self.reliability_bits is None else self.reliability_bits
        if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not 0 < wanted <= MAX_BITS:
            raise ConfigError(f"reliability_bits must be above 0 and at most {MAX_BITS}, not {wanted!r}")
        if self.field_bits is not None and self.privacy is None:
            raise ConfigError("field_bits, the bits of a parameter in a sum with noise, needs privacy")
        if self.privacy is not None:
            check_type("privacy", self.privacy, DifferentialPrivacy)

    @property
    def _assumptions(self) -> Assumptions:
        """The members, their dropouts, and a fraction of colluders that is their number exactly."""
        given = ASSISTED.collusion if self.collusion is None else self.collusion
        assumed = Assumptions(clients=self.clients, dropout=self.dropout, collusion=given, exact=self.exact_dropout)
        many = max(assumed.colluders, ASSISTED.least_colluders)
        if self.colluders is not None:
            if self.collusion is not None:
                raise ConfigError("collusion and colluders say the same thing; give one of them")
            many = whole_number("colluders", self.colluders)
        if not 0 <= many <= self.clients - 2:
            raise ConfigError(
                f"{many} of {self.clients} members may work with the hub, but every sum has to cover two others: "
                f"plan for 0 to {self.clients - 2} colluders"
            )
        return replace(assumed, collusion=many / self.clients)

    def _insist(self, made: AssistedPlan) -> AssistedPlan:
        """Return the plan with the largest minimum that keeps the demand; note it if none does."""
        if self.min_survivors is None:
            made = replace(made, min_survivors=_largest_reliable(made))
        if made.unreliable <= -made.reliability_bits:
            return made
        problem = (
            f"reliability of {made.reliability_bits:g} bits is out of reach with {made.clients} members, dropout "
            f"{made.assumptions.dropout:.3g} and sums of at least {made.min_survivors}: it is {-made.unreliable:.1f}"
        )
        options = tuple(_changes(made))
        if self.reliability_bits is None:
            return replace(made, notes=(f"{problem}; {in_words(options)}" if self.min_survivors else problem,))
        raise ImpossiblePlan(f"{problem}; {in_words(options)}", options)

    def _add_noise(self, made: AssistedPlan, privacy: DifferentialPrivacy) -> AssistedPlan:
        def choose(made: AssistedPlan) -> Mechanism:
            sizes = {"clients": made.clients, "honest": made.least_honest, "dimension": self.length}
            return choose_mechanism(privacy, **sizes, field_bits=self.field_bits)

        def choose_lossy() -> Mechanism:
            bare = replace(self, privacy=None, field_bits=None)
            return choose(bare.change({"reliability_bits": LOSSY_BITS}).plan())

        mechanism = choose(made)
        # A minimum that was asked for stays, and the noise with it.
        lossy = choose_lossy if self.min_survivors is None else lambda: mechanism
        notes = note_noise(mechanism, made.assumptions, made.reliability_bits, lossy)
        noisy = replace(made, mechanism=mechanism, length=mechanism.length, bits=WORD_BITS)
        return replace(noisy, notes=(*made.notes, *notes))


def _largest_reliable(made: AssistedPlan) -> int:
    """Return the largest minimum that is reliable enough, or the smallest that is private."""
    low, high = _lowest(made.colluders), made.clients
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _is_reliable(made, middle) else (low, middle - 1)
    return low


def _changes(made: AssistedPlan) -> Iterator[Option]:
    """Yield changes with which the demand is kept."""
    if made.unreliable <= -1:
        yield {"reliability_bits": math.floor(-made.unreliable)}
    if _is_reliable(made, largest := _largest_reliable(made)):
        yield {"min_survivors": largest}


def _lowest(colluders: int) -> int:
    """Return the smallest minimum that a plan takes by itself."""
    return max(MIN_SUM, colluders + 2)


def _is_reliable(made: AssistedPlan, minimum: int) -> bool:
    return log2_upwards(log_fewer(made.assumptions, minimum)) <= -made.reliability_bits
