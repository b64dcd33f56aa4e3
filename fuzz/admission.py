"""The admission list: its file and its text give the same, and that list's own text gives it back."""

from collections.abc import Callable

from ccesa.agreement.identity import Admission, Member
from ccesa.errors import ConfigError
from fuzz.files import Holding


def one(data: bytes) -> None:
    with Holding(data) as path:
        members = _members(lambda: Admission.load(path))
    if members != _members(lambda: Admission.parse(data.decode())):
        raise AssertionError("a file and its text that are not the same list")
    if members is None:
        return
    found = Admission(members)
    if Admission.parse(str(found)).members != members:
        raise AssertionError("an admission list whose text is another list")
    if len({member.public for member in members}) != len(found):
        raise AssertionError("an admission list with one key twice")
    if [found.id_of(member.public) for member in members] != list(range(len(found))):
        raise AssertionError("a client id that is not the place in the list")


def _members(read: Callable[[], Admission]) -> tuple[Member, ...] | None:
    """Return the members, or None if the list is refused."""
    try:
        return read().members
    except (ConfigError, UnicodeDecodeError):
        return None
