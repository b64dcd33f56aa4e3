"""The section on model inversion, with the AT&T faces."""

from typing import Any

from experiments.faces import SHOTS
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import between, ends, formatted, table, word

#: By the name of the scheme: what its row is called, and what the paper says of it.
ROWS = {
    "federated averaging": ("a client's model (federated averaging)", "face recognisable"),
    "SA": ("a masked model, SA", "nothing"),
    "CCESA": ("a masked model, CCESA, p = 0.7, t = 21", "nothing"),
    "planned": ("a masked model, planned circle", "—"),
    "the sum itself": ("the sum: the published model", "not examined"),
}
MASKED = ("SA", "CCESA", "planned")


def _scheme(found: Results, name: str) -> dict[str, Any]:
    scheme: dict[str, Any] = found["faces_inversion"]["schemes"][name]
    return scheme


def _settings(found: Results, *keys: str) -> list[str]:
    return [word(value) for value in found.settings("faces_inversion", *keys)]


def _table(found: Results) -> str:
    chance = formatted(_scheme(found, "SA")["chance"], ".1%")
    head = ["what the attacker has", "the paper", f"persons identified (chance {chance})", "… by seed", "similarity"]
    return table(head, [[*titles, *_cells(_scheme(found, name))] for name, titles in ROWS.items()], left=2)


def _cells(scheme: dict[str, Any]) -> list[str]:
    rate, similarity = scheme["rate"], scheme["similarity"]
    share = formatted(scheme["identified"] / scheme["attacks"], ".1%")
    return [
        f"{scheme['identified']:,} of {scheme['attacks']:,}: {share}",
        f"{100 * rate['lowest']:.1f} to {formatted(rate['highest'], '.1%')}",
        between([similarity[key] for key in ("mean", "lowest", "highest")], "z.3f"),
    ]


def _masked_rates(found: Results) -> list[float]:
    return [_scheme(found, name)["identified"] / _scheme(found, name)["attacks"] for name in MASKED]


def _chance(found: Results) -> list[float]:
    """Return chance, and two standard deviations of the fewest attacks on a masked scheme."""
    least = min((_scheme(found, name) for name in MASKED), key=lambda scheme: int(scheme["attacks"]))
    return [least["chance"], least["chance_two_sigma"]]


def _sum(found: Results) -> list[object]:
    scheme = _scheme(found, "the sum itself")
    return [scheme["identified"], scheme["attacks"]]


SECTION = Section(
    title="Model inversion on the AT&T faces",
    tables=[_table],
    said=[
        Said("after {} rounds of training", lambda found: _settings(found, "training_rounds")),
        Said(
            "{} persons, {} masked rounds with fresh keys per scheme, {} seeds",
            lambda found: [found["faces_inversion"]["clients"], *_settings(found, "repeats", "seeds")],
        ),
        Said("{:.1%} to {:.1%} identify the person", lambda found: ends(_masked_rates(found))),
        Said("where chance gives {:.1%} ± {:.1%}", _chance),
        Said("{} of {} attacks find the person", _sum),
    ],
    fixed=["information of zero", "two standard deviations", f"all {word(SHOTS)} photographs"],
)
