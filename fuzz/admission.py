"""The admission list, from its file: refused, or a list that its own text gives back."""

from ccesa.errors import ConfigError
from ccesa.identity import Admission
from fuzz.files import Holding


def one(data: bytes) -> None:
    with Holding(data) as path:
        try:
            found = Admission.load(path)
        except ConfigError:
            return
    again = Admission.parse(str(found))
    if again.members != found.members:
        raise AssertionError("an admission list whose text is another list")
    if len({member.public for member in found.members}) != len(found):
        raise AssertionError("an admission list with one key twice")
    if [found.id_of(member.public) for member in found.members] != list(range(len(found))):
        raise AssertionError("a client id that is not the place in the list")
