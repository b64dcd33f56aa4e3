"""Options that several commands have, each said once."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

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


def _one_of(names: Iterable[str], text: str) -> Any:
    """Make an option for a name out of a table of the package, which checks it."""
    known = list(names)
    return typer.Option(help=text, metavar=f"[{'|'.join(known)}]", autocompletion=lambda: known)


Clients = Annotated[int, typer.Option(help="Number of clients.")]
Length = Annotated[int, typer.Option(help="Elements of each vector.")]
Bits = Annotated[int, typer.Option(help="Bits of an element: 8, 16, 32 or 64.")]
Dropout = Annotated[float, typer.Option(help="Probability to drop out of a round, over all steps together.")]
DropoutPerStep = Annotated[
    str | None,
    typer.Option(
        help="Instead of --dropout: the probability to leave in each step, if still there; or one for each "
        f"step by name ({', '.join(ORDER)}), where others lose nobody.",
        metavar="Q|STEP=Q,...",
        show_default=False,
    ),
]
Degree = Annotated[int | None, typer.Option(help="Neighbours of a client, even (harary); else planned.")]
GraphName = Annotated[str, _one_of(NAMES, "Assignment graph; the planner chooses what is left open.")]
GuardName = Annotated[str, _one_of(GUARDS, "What the server may do: look at everything, or also lie.")]
GeneratorName = Annotated[str, _one_of(GENERATORS, "Mask generator.")]
PostQuantum = Annotated[
    bool,
    typer.Option(
        "--post-quantum",
        help=f"Agree by {POST_QUANTUM}: what is recorded today stays secret when X25519 falls.",
    ),
]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept", help="Clients say whose shares they could open before they mask, as in every series."
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Noise: all sums together tell at most so much about a client.", show_default=False),
]
Delta = Annotated[
    float | None,
    typer.Option(help="Noise: except with this probability, below one over the clients.", show_default=False),
]
Releases = Annotated[
    int | None,
    typer.Option("--rounds", help="Noise: so many vectors of a client may leave.", show_default=False),
]
Norm = Annotated[
    float | None,
    typer.Option(help="Noise: a client's vector is clipped to this L2 norm.", show_default=False),
]
AgainstName = Annotated[
    str | None, _one_of(get_args(Against), "Noise: for a server that follows the protocol, or one that lies.")
]
FieldBits = Annotated[
    int | None, typer.Option(help="Noise: bits of a parameter; else as few as do.", show_default=False)
]
Threads = Annotated[
    int, typer.Option(min=0, help="Most clients that work at the same time; 0: as many as help.")
]
FederationFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The federation's file, TOML.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def agreement(post_quantum: bool) -> str:
    """Return the name of the agreement that was chosen."""
    return POST_QUANTUM if post_quantum else DEFAULT


def privacy(
    epsilon: float | None,
    delta: float | None,
    rounds: int | None,
    norm: float | None,
    against: str | None,
    field_bits: int | None = None,
) -> DifferentialPrivacy | None:
    """Return what was asked of the noise; refuse a part of it."""
    told = {"epsilon": epsilon, "delta": delta, "rounds": rounds, "norm": norm}
    missing = [f"--{name}" for name, value in told.items() if value is None]
    if missing and len(missing) < len(told) + ((against, field_bits) != (None, None)):
        raise ConfigError(
            f"noise takes --epsilon, --delta, --rounds and --norm; say {', '.join(missing)} too"
        )
    return None if missing else DifferentialPrivacy(**told, against=against or "follows")  # type: ignore[arg-type]


def about_records(
    schema: Schema,
    epsilon: float | None,
    delta: float | None,
    rounds: int | None,
    norm: float | None,
    against: str | None,
    field_bits: int | None,
) -> DifferentialPrivacy | None:
    """Return what was asked of the noise in statistics: its norm follows from the schema."""
    if schema.privacy_unit == "none":
        if {epsilon, delta, rounds, norm, against, field_bits} != {None}:
            raise ConfigError("noise goes with privacy_unit = record in the schema, and least_group = 1")
        return None
    if (norm, field_bits) != (None, None):
        raise ConfigError("with --statistics leave out --norm and --field-bits: they follow from the schema")
    asked = privacy(epsilon, delta, rounds, schema.norm, against)
    return None if asked is None else msgspec.structs.replace(asked, unit=schema.privacy_unit)


#: What a round is planned for where nothing is said.
USUAL_DROPOUT = 0.1


class Leaving(NamedTuple):
    """Who drops out, in the whole round or in each step."""

    dropout: float | None
    per_step: float | dict[str, float] | None


def leaving(dropout: float | None, per_step: str | None) -> Leaving:
    """Return what was said; refuse both at once."""
    if per_step is None:
        return Leaving(USUAL_DROPOUT if dropout is None else dropout, None)
    if dropout is not None:
        raise ConfigError("say either --dropout or --dropout-per-step")
    if "=" not in per_step:
        return Leaving(None, _number(per_step))
    pairs = [part.partition("=") for part in per_step.split(",")]
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise ConfigError(f"--dropout-per-step names a step twice: {quoted(per_step)}")
    return Leaving(None, {name.strip(): _number(value) for name, _, value in pairs})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"--dropout-per-step takes 0.026 or share=0.01,mask=0.05, not {quoted(text)}"
        ) from None
