"""Check what would be published, step by step: ``make release-check``. Nothing is published.

Archives and the bill of materials are left in build/release/dist. ``--quick`` only builds ccesa.
"""

import argparse
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from release import contents, versions
from release.environments import BUILD, Environment, environments, run

DIST, AGAIN, CLIENT = BUILD / "dist", BUILD / "again", contents.ROOT / "clients" / "typescript"
#: The distributions of Python: the folder of each.
FOLDERS = {"ccesa": contents.ROOT, "ccesa-native": contents.ROOT / "native"}


def main() -> None:
    """Run the steps in order; the first that fails says what to do and ends it."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only ccesa itself, and install nothing")
    parser.add_argument("--pythons", nargs="*", default=[], help="other Pythons to install the wheels with")
    given = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    step("versions agree", agree)
    if not given.quick:
        step("everything is committed", committed)
    for name in list(FOLDERS)[: 1 if given.quick else None]:
        step(f"build {name}: sdist, and a wheel of that", build, name)
    if not given.quick:
        step("pack the npm package", pack)
    step("contents", inspect)
    step("metadata, as an index would check it", metadata)
    if not given.quick:
        for name in FOLDERS:
            step(f"build {name} again, from the checkout", rebuild, name)
        for one in environments(present(given.pythons)):
            step(f"install and run: {one.name}", install, one)
        step("bill of materials", bill)
    step("what there is, with SHA-256", listing)


def step(title: str, work: Callable[..., str], *arguments: object) -> None:
    """Do one step and print how it went, and how long it took."""
    print(f"· {title} ... ", end="", flush=True)
    started = time.monotonic()
    said = work(*arguments)
    print(f"{said} ({time.monotonic() - started:.0f} s)", flush=True)


def refuse(lines: list[str], advice: str) -> None:
    """End the check if there is anything to complain about."""
    if lines:
        more = [f"and {len(lines) - 20} more"] if len(lines) > 20 else []
        sys.exit("\n".join(["failed", *lines[:20], *more, advice]))


def agree() -> str:
    """Compare the places that have a version."""
    advice = "`python -m release.versions VERSION` writes it everywhere but in CHANGELOG.md"
    refuse(versions.disagreements(), advice)
    return versions.current()


def committed() -> str:
    """Refuse to build what nobody else could. The time of the commit is that of all files."""
    refuse(run("git", "status", "--porcelain").splitlines(), "commit first, or remove what is not needed")
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    return run("git", "rev-parse", "--short", "HEAD").strip()


def build(name: str) -> str:
    """Build an sdist from the checkout, and a wheel from that sdist."""
    run(sys.executable, "-m", "build", "--outdir", DIST, FOLDERS[name])
    return " and ".join(archives()[f"{name} {kind}"].name for kind in ("sdist", "wheel"))


def pack() -> str:
    """Pack the client for browsers and Node, where there is npm."""
    if not shutil.which("npm"):
        return "left out: no npm here"
    run("npm", "pack", "--silent", "--pack-destination", DIST, folder=CLIENT)
    return archives()["npm package"].name


def inspect() -> str:
    """Compare what the archives hold with what belongs there."""
    held = {kind: contents.files(path) for kind, path in archives().items()}
    found = [line for kind, files in held.items() for line in contents.complaints(kind, files)]
    refuse(found, "see release/contents.py for what belongs there, pyproject.toml for what is taken")
    return ", ".join(f"{kind} {len(files)} files" for kind, files in held.items())


def metadata() -> str:
    """Let twine check the pages and abi3audit the compiled wheel, and look for links that lead nowhere."""
    built, tools = archives(), Path(sys.executable).parent
    python = [path for kind, path in built.items() if kind != "npm package"]
    run(tools / "twine", "check", "--strict", *python)
    if "ccesa-native wheel" in built:
        run(tools / "abi3audit", "--strict", built["ccesa-native wheel"])
    pages = {path.name: contents.described(contents.files(path)) for path in python}
    wrong = [f"{name}: {link}" for name, page in pages.items() for link in contents.relative_links(page)]
    refuse(wrong, "these lead nowhere on an index; the substitutions in pyproject.toml make them absolute")
    return "no complaints"


def rebuild(name: str) -> str:
    """Build the wheel once more, from the checkout, and compare it with the one that came from the sdist."""
    shutil.rmtree(AGAIN, ignore_errors=True)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", AGAIN, FOLDERS[name])
    once, again = archives()[f"{name} wheel"], next(AGAIN.glob("*.whl"))
    differ = contents.differences(contents.files(once), contents.files(again))
    refuse(differ, f"the sdist of {name} builds another wheel than the checkout: does it lack a file?")
    return "the same bytes" if once.read_bytes() == again.read_bytes() else "the same files"


def present(pythons: list[str]) -> list[str]:
    """Those of other Pythons that are on this machine; the others are named."""
    found = [python for python in pythons if _runs(python)]
    left_out = sorted(set(pythons) - set(found))
    print(f"· other Pythons: {', '.join(found) or 'none'}; not on this machine: {', '.join(left_out) or 'none'}")
    return found


def _runs(python: str) -> bool:
    try:
        run(python, "-c", "")
    except (OSError, SystemExit):
        return False
    return True


def install(one: Environment) -> str:
    """Make an empty environment, install the wheels there, and do some work."""
    one.make()
    one.install(archives()["ccesa wheel"], archives()["ccesa-native wheel"])
    return one.smoke()


def bill() -> str:
    """Write the bill of materials of the newest versions, twice: the same input gives the same bytes."""
    newest = next(one for one in environments([]) if one.name == "newest")
    file, again = DIST / "ccesa.cdx.json", AGAIN / "ccesa.cdx.json"
    newest.bill(file)
    newest.bill(again)
    refuse([] if file.read_bytes() == again.read_bytes() else [file.name], "two runs of cyclonedx-py differ")
    refuse(contents.local({file.name: file.read_bytes()}), "what is installed was not installed by name")
    return file.name


def listing() -> str:
    """Name every file that would be published, with its digest."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(DIST.iterdir())}
    return "".join(f"\n    {digest}  {name}" for name, digest in digests.items()) + "\n "


def archives() -> dict[str, Path]:
    """The archives that were built so far, by kind."""
    patterns = {
        "ccesa wheel": "ccesa-*.whl",
        "ccesa sdist": "ccesa-*.tar.gz",
        "ccesa-native wheel": "ccesa_native-*.whl",
        "ccesa-native sdist": "ccesa_native-*.tar.gz",
        "npm package": "ccesa-*.tgz",
    }
    return {kind: path for kind, pattern in patterns.items() for path in DIST.glob(pattern)}


if __name__ == "__main__":
    main()
