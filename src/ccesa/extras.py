"""Packages that only some parts need, and how to get them."""

from ccesa.errors import ConfigError


class MissingPackage(ConfigError, ImportError):
    """Raised by a part whose package is not installed."""


def missing(what: str, package: str, extra: str) -> MissingPackage:
    """Return the error, with a hint for a checkout: anybody could take the name ``ccesa`` on the package index."""
    return MissingPackage(f"{what} needs {package}: in a checkout of ccesa, pip install '.[{extra}]'")
