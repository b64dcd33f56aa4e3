"""Options of several commands, groups of options that a command takes as one, and functions of the user."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from typer import Argument, Option

from ccesa.crypto.keys import DEFAULT, POST_QUANTUM
from ccesa.crypto.primitives import GENERATORS
from ccesa.errors import ConfigError, quoted, shown
from ccesa.graphs import NAMES
from ccesa.graphs.per_step import ORDER
from ccesa.guards import GUARDS
from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy.mechanism import Against
from ccesa.simulate.models import USUAL_DROPOUT
from ccesa.statistics import Schema


def group_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the dataclasses among its parameters."""
    options: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            options += inspect.signature(kind, eval_str=True).parameters.values()
        else:
            options.append(parameter)

    @wraps(command)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    vars(call).update(__signature__=inspect.Signature(options), __annotations__={})
    return call


def import_function(name: str) -> Callable[..., Any]:
    """Return a function of the user by module and name, also from a module in the current folder."""
    module, _, function = name.partition(":")
    if not (module and function):
        raise ConfigError(f"--run takes MODULE:FUNCTION, as in my_module:contribute, not {quoted(name)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise ConfigError(f"--run: cannot import {quoted(module)}: {shown(str(error), 200)}") from error
    except SyntaxError as error:
        raise ConfigError(f"--run: {error.filename}, line {error.lineno}: {error.msg}") from error
    except SystemExit as error:
        raise ConfigError(f"--run: {quoted(module)} ends the process when it is imported") from error
    if not callable(found):
        raise ConfigError(f"--run: {quoted(module)} has no function {quoted(function)}")
    return found


def _one_of(names: Iterable[str], text: str) -> Any:
    """Make an option for one of these names. The package checks it."""
    known = list(names)
    return Option(help=text, metavar=f"[{'|'.join(known)}]", autocompletion=lambda: known)


Clients = Annotated[int, Option(help="Number of clients.")]
Length = Annotated[int, Option(help="Elements of each vector.")]
Bits = Annotated[int, Option(help="Bits of an element: 8, 16, 32 or 64.")]
Dropout = Annotated[float, Option(help="Probability that a client drops out of a round, in any of its steps.")]
Degree = Annotated[int | None, Option(help="Neighbours of a client, even (harary); planned by default.")]
GraphName = Annotated[str, _one_of(NAMES, "Assignment graph. The planner chooses its parameters that you leave out.")]
_GUARDS = (
    "Against a server that only reads (curious), or that also lies, along a graph (active) or with helpers (assisted)."
)
GuardName = Annotated[str, _one_of(GUARDS, _GUARDS)]
#: The guard of the charter before, if there is one, or curious, unless another one is given.
AnyGuardName = Annotated[str | None, _one_of(GUARDS, f"{_GUARDS} By default curious, or as in --replaces.")]
GeneratorName = Annotated[str, _one_of(GENERATORS, "Mask generator.")]
PostQuantum = Annotated[
    bool, Option("--post-quantum", help=f"Agree on keys by {POST_QUANTUM}: safe even if X25519 is broken later.")
]
Accept = Annotated[
    bool, Option("--accept", help="Clients report whose shares they could open before they mask, as in a series.")
]
Threads = Annotated[int, Option(min=0, help="Maximum of clients that work at the same time; 0: as many as help.")]
FederationFile = Annotated[Path, Argument(metavar="FILE", help="The federation's TOML file.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object on standard output.")]


def agreement(post_quantum: bool) -> str:
    return POST_QUANTUM if post_quantum else DEFAULT


@dataclass(frozen=True, kw_only=True)
class DropoutOptions:
    """Dropouts of the whole round or of each step."""

    dropout: Annotated[float | None, Option(help="Fraction of the clients that drop out of a round (0.1).")] = None
    dropout_per_step: Annotated[
        str | None,
        Option(
            metavar="Q|STEP=Q,...",
            help="Instead of --dropout: the probability that a client that is still there leaves in a step, for "
            f"all steps or by name ({', '.join(ORDER)}). Nobody leaves in other steps.",
        ),
    ] = None

    @property
    def fraction(self) -> float | None:
        """The fraction for the whole round; None if there are numbers per step."""
        if self.dropout_per_step is None:
            return USUAL_DROPOUT if self.dropout is None else self.dropout
        if self.dropout is not None:
            raise ConfigError("give either --dropout or --dropout-per-step")
        return None

    @property
    def per_step(self) -> float | dict[str, float] | None:
        """One number for every step, or numbers by the names of steps."""
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

    epsilon: Annotated[float | None, Option(help="Noise: the limit on what all sums reveal about a client.")] = None
    delta: Annotated[float | None, Option(help="Noise: probability that epsilon fails, below 1 / clients.")] = None
    rounds: Annotated[int | None, Option(help="Noise: how many vectors a client may send.")] = None
    norm: Annotated[float | None, Option(help="Noise: clip a client's vector to this L2 norm.")] = None
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
            raise ConfigError("with --statistics leave out --norm and --field-bits: both follow from the schema")
        asked = NoiseOptions(**vars(self) | {"norm": schema.norm}).privacy()
        return None if asked is None else msgspec.structs.replace(asked, unit=schema.privacy_unit)
