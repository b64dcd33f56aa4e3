"""What the archives hold: exactly the files that belong there, and nothing of the machine that built them."""

import re
import tarfile
import tempfile
import zipfile
from email import message_from_bytes, policy
from pathlib import Path

ROOT = Path(__file__).parent.parent
Files = dict[str, bytes]

#: Links and pictures that lead nowhere on a package index: neither an address nor in a block of code.
_RELATIVE = re.compile(r'(?:\]\(|\b(?:src|srcset|href)=")(?!https?:|mailto:)([^")\s]+)')
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def files(archive: Path) -> Files:
    """Read a wheel, an sdist or an npm package; the one folder of the latter two is left out of names."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        read = ((member.name, opened.extractfile(member)) for member in opened.getmembers())
        return {name.partition("/")[2]: file.read() for name, file in read if file is not None}


def files_in(folder: str) -> set[str]:
    """The files of a folder of the checkout, named from there, without what Python compiled."""
    top = ROOT / folder
    files = (path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())
    return {name for name in files if "__pycache__/" not in name}


def expected(kind: str) -> set[str]:
    """The names that an archive of this kind has to hold; a wheel's metadata without its folder."""
    source = {f"ccesa/{name}" for name in files_in("src/ccesa")}
    wheel = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}
    pages = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"}
    modules = (name.removesuffix(".ts") for name in files_in("clients/typescript/src"))
    return {
        "ccesa wheel": source | wheel | {"entry_points.txt"},
        "ccesa sdist": {f"src/{name}" for name in source} | pages | {"pyproject.toml", "PKG-INFO", ".gitignore"},
        "ccesa-native wheel": wheel | {"ccesa_native.abi3.so"},
        "ccesa-native sdist": files_in("native") | {"PKG-INFO"},
        "npm package": {f"dist/{name}{end}" for name in modules for end in (".js", ".js.map", ".d.ts")}
        | {"README.md", "LICENSE", "package.json"},
    }[kind]


def complaints(kind: str, held: Files) -> list[str]:
    """A line for every file that is missing, does not belong there, or names this machine."""
    due, names = expected(kind), {re.sub(r"^[^/]+\.dist-info/", "", name) for name in held}
    return [
        *(f"{kind}: {name} is missing" for name in sorted(due - names)),
        *(f"{kind}: {name} does not belong there" for name in sorted(names - due)),
        *(f"{kind}: {line}" for line in local(held)),
    ]


def local(held: Files) -> list[str]:
    """A line for every file that names the checkout, or a folder in which packages are built."""
    folders = [f"{ROOT}/{name}" for name in ("src", "native", "build", "clients")]
    folders += [f"{tempfile.gettempdir()}/{name}" for name in ("build-", "pip-")]
    return [
        f"{name} names a folder of this machine: {folder}"
        for name, content in sorted(held.items())
        for folder in folders
        if folder.encode() in content
    ]


def relative_links(page: str) -> list[str]:
    """What a page links to that only works beside its other files."""
    return _RELATIVE.findall(_CODE.sub("", page))


def described(held: Files) -> str:
    """The page that an index shows for a wheel or an sdist."""
    named = next(name for name in held if name.endswith(("/METADATA", "PKG-INFO")))
    return message_from_bytes(held[named], policy=policy.default).get_content()


def differences(one: Files, other: Files) -> list[str]:
    """The names that only one archive has, or that differ in content."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
