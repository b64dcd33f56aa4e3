"""A hub checks at start that the installed uvicorn has what its connections build on."""

import pytest

from ccesa.errors import ConfigError
from ccesa.service.http import Front, serving


def test_the_installed_release_fits():
    serving.check_uvicorn()


@pytest.mark.parametrize(
    ("owner", "method"), [(owner, name) for owner, (methods, _) in serving._USED.items() for name in methods.split()]
)
def test_a_release_without_a_method_is_refused_at_start(monkeypatch, owner, method):
    for base in owner.__mro__[:-1]:
        if method in vars(base):
            monkeypatch.delattr(base, method)
    with pytest.raises(ConfigError, match=f"does not fit: {owner.__name__} lacks {method}; install"):
        Front(None, "127.0.0.1:0")


def test_a_release_without_an_attribute_is_refused_at_start(monkeypatch):
    for owner, (methods, attributes) in serving._USED.items():
        monkeypatch.setitem(serving._USED, owner, (methods, f"{attributes} gone"))
        with pytest.raises(ConfigError, match=f"{owner.__name__} lacks gone"):
            Front(None, "127.0.0.1:0")
        monkeypatch.undo()


def test_a_release_whose_connections_are_made_otherwise_is_refused_at_start(monkeypatch):
    monkeypatch.setattr(serving.HttpToolsProtocol, "__init__", lambda self, config: None)
    monkeypatch.setitem(serving._USED, serving.HttpToolsProtocol, ("", ""))
    with pytest.raises(ConfigError, match="HttpToolsProtocol takes other arguments"):
        Front(None, "127.0.0.1:0")
