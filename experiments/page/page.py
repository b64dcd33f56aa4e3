"""The page by its sections, and what is found wrong in each."""

import importlib
import itertools
import pkgutil
import re
from dataclasses import dataclass

from experiments import page
from experiments.page.held import EXPERIMENTS, Finding, Results, Section, Wanted, findings

PAGE = EXPERIMENTS.parent / "docs" / "reproduction.md"


@dataclass(frozen=True)
class Part:
    """A section as the page has it: its heading, its text with the heading, and where that begins."""

    title: str
    text: str
    start: int


def parts(text: str) -> list[Part]:
    """Return the page's sections in their order; the introduction comes first, without a title."""
    starts = [0, *(match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)), len(text)]
    cut = [(start, text[start:end]) for start, end in itertools.pairwise(starts)]
    return [Part(_title(text), text, start) for start, text in cut]


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("## ") if text.startswith("## ") else ""


def sections() -> dict[str, Section]:
    """Return what is known of each section, by its heading."""
    names = [module.name for module in pkgutil.iter_modules(page.__path__) if module.name != "__main__"]
    modules = [importlib.import_module(f"experiments.page.{name}") for name in names]
    return {module.SECTION.title: module.SECTION for module in modules if hasattr(module, "SECTION")}


def wanted(found: Results | None = None) -> dict[str, list[Wanted]]:
    """Return what each section must say, by its heading, from these results or from those in experiments/."""
    results = Results() if found is None else found
    return {title: section.wanted(results) for title, section in sections().items()}


def wrong(text: str, known: dict[str, list[Wanted]]) -> dict[str, list[Finding]]:
    """Return what is found in each section; a section that the page or this folder lacks is found, too."""
    here = {part.title: part for part in parts(text)}
    found = {title: [Finding(0, 0, "no such section on the page")] for title in known if title not in here}
    for title, part in here.items():
        if title not in known:
            found[title] = [Finding(part.start, part.start, "nothing holds this section to the results")]
            continue
        shift = part.start
        found[title] = [
            Finding(one.start + shift, one.end + shift, one.says, one.right)
            for one in findings(part.text, known[title])
        ]
    return {title: mine for title, mine in found.items() if mine}
