"""A charter, from its file: refused, or one whose own text gives it back, with a digest for all it says."""

from ccesa.agreement.charter import Charter
from ccesa.errors import ConfigError
from fuzz.files import Holding


def one(data: bytes) -> None:
    with Holding(data) as path:
        try:
            found = Charter.load(path)
        except ConfigError:
            return
    again = Charter.parse(str(found))
    if again != found or again.digest != found.digest:
        raise AssertionError("a charter whose text is another charter")
    config = found.config(length=1)
    if found.decode(config.encode()) != config:
        raise AssertionError("a configuration that its own charter reads as another")
