"""Packages that only some parts need, and how to get them."""

from ccesa.errors import ConfigError


class MissingPackage(ConfigError, ImportError):
    """Raised by a part whose package is not installed."""


def missing(what: str, package: str, extra: str) -> MissingPackage:
    """Return the error of a part whose package is not installed.

    ``ccesa`` is on no package index, and somebody else could take its name there: the hint is for a checkout.
    """
    return MissingPackage(f"{what} needs {package}: in a checkout of ccesa, pip install '.[{extra}]'")
