"""The file of an identity: refused, or a seed that is saved and loaded again."""

from ccesa.agreement.identity import KEY_BYTES, Identity
from ccesa.errors import ConfigError
from fuzz.files import Holding


def one(data: bytes) -> None:
    with Holding(data) as path:
        try:
            found = Identity.load(path)
        except ConfigError:
            return
    if len(found.seed) != KEY_BYTES or len(found.public) != KEY_BYTES:
        raise AssertionError("an identity of the wrong size")
    if repr(found.seed)[2:-1] in repr(found):
        raise AssertionError("an identity that shows its seed")
    with Holding(b"") as path:
        path.unlink()
        found.save(path)
        if Identity.load(path) != found:
            raise AssertionError("an identity that does not come back")
