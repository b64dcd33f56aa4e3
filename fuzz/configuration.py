"""RoundConfig: refused, or the one encoding of a configuration that validates itself again."""

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, MalformedMessage


def one(data: bytes) -> None:
    try:
        config = RoundConfig.decode(data)
    except (MalformedMessage, ConfigError):
        return
    if config.encode() != data:
        raise AssertionError("a configuration with two encodings")
    if msgspec.structs.replace(config) != config:
        raise AssertionError("a configuration that decoding lets through and construction does not")
