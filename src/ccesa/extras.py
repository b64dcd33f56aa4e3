"""Packages that only some parts need, and how to get them."""

from ccesa.errors import ConfigError


def missing(what: str, package: str, extra: str) -> ConfigError:
    """The error of a part whose package is not installed.

    ``ccesa`` is on no package index, where somebody else could take its name: the hint is for a checkout.
    """
    return ConfigError(f"{what} needs {package}: in a checkout of ccesa, pip install '.[{extra}]'")
