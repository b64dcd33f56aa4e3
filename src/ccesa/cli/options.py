"""Options that several commands have, each said once, and groups of options that a command takes as one."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from ccesa.crypto.keys import DEFAULT, POST_QUANTUM
from ccesa.crypto.primitives import GENERATORS
from ccesa.errors import ConfigError, quoted
from ccesa.graphs import NAMES
from ccesa.graphs.per_step import ORDER
from ccesa.guards import GUARDS
from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy.mechanism import Against
from ccesa.statistics import Schema

#: The dropout that rounds are planned for where none is given.
USUAL_DROPOUT = 0.1


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the dataclasses among its parameters."""
    taken: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            taken.append(parameter)
            continue
        groups[parameter.name] = kind
        annotated = inspect.get_annotations(kind, eval_str=True)
        taken.extend(
            inspect.Parameter(
                field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=annotated[field.name]
            )
            for field in fields(kind)
        )

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    signature = inspect.Signature([one.replace(kind=one.KEYWORD_ONLY) for one in taken])
    vars(called).update(__signature__=signature, __annotations__={})
    return called


def _one_of(names: Iterable[str], text: str) -> Any:
    """Make an option for a name out of a table of the package, which checks it."""
    known = list(names)
    return typer.Option(help=text, metavar=f"[{'|'.join(known)}]", autocompletion=lambda: known)


def described(text: str, *names: str, **settings: Any) -> Any:
    """Make an option that shows no default: its text says what holds without it."""
    return typer.Option(*names, help=text, show_default=False, **settings)


Clients = Annotated[int, typer.Option(help="Number of clients.")]
Length = Annotated[int, typer.Option(help="Elements of each vector.")]
Bits = Annotated[int, typer.Option(help="Bits of an element: 8, 16, 32 or 64.")]
Dropout = Annotated[
    float, typer.Option(help="Probability that a client drops out of a round, over all steps together.")
]
Degree = Annotated[int | None, typer.Option(help="Neighbours of a client, even (harary); planned by default.")]
GraphName = Annotated[str, _one_of(NAMES, "Assignment graph. The planner chooses what you leave open.")]
GuardName = Annotated[
    str, _one_of(GUARDS, "What the server may do: read everything it gets (curious), or also lie (active).")
]
GeneratorName = Annotated[str, _one_of(GENERATORS, "Mask generator.")]
PostQuantum = Annotated[
    bool,
    typer.Option(
        "--post-quantum",
        help=f"Agree by {POST_QUANTUM}: traffic recorded today stays secret even if X25519 is broken later.",
    ),
]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept", help="Clients say whose shares they could open before they mask, as they do in every series."
    ),
]
Threads = Annotated[int, typer.Option(min=0, help="Maximum of clients that work at the same time; 0: as many as help.")]
FederationFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The federation's file, TOML.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def agreement(post_quantum: bool) -> str:
    """Return the name of the agreement that was chosen."""
    return POST_QUANTUM if post_quantum else DEFAULT


@dataclass(frozen=True, kw_only=True)
class DropoutOptions:
    """Dropouts of the whole round or of each step."""

    dropout: Annotated[
        float | None, described("Fraction of the clients that drops out of a round; 0.1 by default.")
    ] = None
    dropout_per_step: Annotated[
        str | None,
        described(
            "Instead of --dropout: the probability that a client leaves in a step if it is still there. One "
            f"number for all steps, or numbers by name ({', '.join(ORDER)}); nobody leaves in other steps.",
            metavar="Q|STEP=Q,...",
        ),
    ] = None

    @property
    def fraction(self) -> float | None:
        """Return the fraction for the whole round; None where there are numbers per step."""
        if self.dropout_per_step is None:
            return USUAL_DROPOUT if self.dropout is None else self.dropout
        if self.dropout is not None:
            raise ConfigError("give either --dropout or --dropout-per-step")
        return None

    @property
    def per_step(self) -> float | dict[str, float] | None:
        """Return one number for every step, or numbers by the names of steps."""
        text = self.dropout_per_step
        if text is None or "=" not in text:
            return None if text is None else _number(text)
        pairs = [part.partition("=") for part in text.split(",")]
        named = {name.strip(): _number(value) for name, _, value in pairs}
        if len(named) < len(pairs):
            raise ConfigError(f"--dropout-per-step names a step twice: {quoted(text)}")
        return named


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--dropout-per-step takes 0.026 or share=0.01,mask=0.05, not {quoted(text)}") from None


@dataclass(frozen=True, kw_only=True)
class NoiseOptions:
    """The demand on the noise in the sum."""

    epsilon: Annotated[float | None, described("Noise: limits what all sums together reveal about a client.")] = None
    delta: Annotated[float | None, described("Noise: the probability that epsilon fails; below 1 / clients.")] = None
    rounds: Annotated[int | None, described("Noise: how many vectors a client may send.")] = None
    norm: Annotated[float | None, described("Noise: clip a client's vector to this L2 norm.")] = None
    against: Annotated[
        str | None, _one_of(get_args(Against), "Noise: for a server that follows the protocol, or for one that lies.")
    ] = None

    def privacy(self, field_bits: int | None = None) -> DifferentialPrivacy | None:
        """Return the demand on the noise; refuse an incomplete one."""
        whole = {name: getattr(self, name) for name in ("epsilon", "delta", "rounds", "norm")}
        missing = [f"--{name}" for name, value in whole.items() if value is None]
        if missing and len(missing) < len(whole) + ((self.against, field_bits) != (None, None)):
            raise ConfigError(f"noise takes --epsilon, --delta, --rounds and --norm; add {', '.join(missing)}")
        return None if missing else DifferentialPrivacy(**whole, against=self.against or "follows")  # type: ignore[arg-type]

    def about_records(self, schema: Schema, field_bits: int | None) -> DifferentialPrivacy | None:
        """Return the demand on the noise in statistics, whose norm follows from the schema."""
        if schema.privacy_unit == "none":
            if {*vars(self).values(), field_bits} != {None}:
                raise ConfigError("noise needs privacy_unit = record in the schema, and least_group = 1")
            return None
        if (self.norm, field_bits) != (None, None):
            raise ConfigError("with --statistics leave out --norm and --field-bits: the schema gives both")
        asked = NoiseOptions(**vars(self) | {"norm": schema.norm}).privacy()
        return None if asked is None else msgspec.structs.replace(asked, unit=schema.privacy_unit)
