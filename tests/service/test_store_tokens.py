"""``ccesa invite``: tokens that are shown once, kept as hashes, and made void."""

import re
import stat

import pytest

from ccesa.service.store import open_store
from ccesa.service.store.rows import TokenRow
from ccesa.service.tokens import hash_token, new_token
from rounds import charter
from test_audit_log import FEDERATION, run

TOKEN = re.compile(r"ccesa_[A-Za-z0-9_-]{43}")


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "federation.toml"
    made.write_text(FEDERATION)
    return made


@pytest.fixture
def store(tmp_path):
    """The hub's own store, open while commands run."""
    opened = open_store(f"sqlite:///{tmp_path}/federation.db", hub=True)
    yield opened
    opened.close()


def fails(done, says):
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_token_is_32_random_bytes():
    assert TOKEN.fullmatch(new_token())
    assert new_token() != new_token()
    assert len(hash_token(new_token())) == 32


def test_a_client_is_invited_beside_a_running_hub(path, store, tmp_path):
    done = run("invite", path, "--client", 3)
    assert (done.returncode, done.stderr) == (0, "")
    [token] = TOKEN.findall(done.stdout)
    assert done.stdout == f"{token}\n"  # so that a shell can keep it
    assert store.member_of(hash_token(token)) == 3
    assert not store.is_operator(hash_token(token))
    assert not any(token.encode() in file.read_bytes() for file in tmp_path.iterdir())
    assert run("invite", path).stdout == "client-3: client 3\n1 token(s)\n"


def test_an_operator_is_no_client(path, store):
    [token] = TOKEN.findall(run("invite", path, "--operator").stdout)
    assert store.is_operator(hash_token(token))
    assert store.member_of(hash_token(token)) is None
    assert run("invite", path, "--revoke", "operator").stdout == "operator: 1 token(s) revoked\n"
    assert not store.is_operator(hash_token(token))


def test_all_get_files_that_only_the_owner_can_read(path, store, tmp_path):
    folder = tmp_path / "tokens"
    [first] = TOKEN.findall(run("invite", path, "--client", 0).stdout)
    done = run("invite", path, "--all", "--to", folder)
    assert not TOKEN.search(done.stdout)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"client-{client}.token" for client in range(1, 5)]
    for client, file in enumerate(files, 1):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert store.member_of(hash_token(file.read_text().strip())) == client
    assert store.member_of(hash_token(first)) == 0
    assert "every client has a token" in run("invite", path, "--all").stdout
    assert run("invite", path, "--revoke", 2).stdout == "client-2: 1 token(s) revoked\n"
    assert store.member_of(hash_token(files[1].read_text().strip())) is None
    assert len(store.tokens()) == 4


def test_where_not_all_files_can_be_written_nobody_is_invited(path, store, tmp_path):
    folder = tmp_path / "tokens"
    folder.mkdir()
    (folder / "client-2.token").write_text("mine")
    fails(run("invite", path, "--all", "--to", folder), "already exists and will not be overwritten")
    assert [file.name for file in folder.iterdir()] == ["client-2.token"]
    assert store.tokens() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--client", 5], "there is no client 5: clients are 0 to 4"),
        (["--client", -1], "there is no client -1"),
        (["--revoke", 5], "there is no client 5"),
        (["--revoke", "all"], "number of a client, or operator"),
        (["--client", 1, "--operator"], "give one of"),
        (["--all", "--revoke", 1], "give one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(path, store, options, says):
    fails(run("invite", path, *options), says)
    assert store.tokens() == []


def test_tokens_belong_to_one_federation(path, store):
    store.check_federation("another", bytes(32))
    fails(run("invite", path, "--operator"), "does not belong to federation five hospitals")
    assert store.tokens() == []


def test_under_a_charter_only_operators_have_tokens(path, store):
    (path.parent / "charter.toml").write_text(str(charter(8)))
    path.write_text(FEDERATION.replace("[round]\nclients = 5", 'charter = "charter.toml"'))
    for options in (["--client", 3], ["--all"], ["--revoke", 3]):
        fails(run("invite", path, *options), "sign in with identities")
    assert run("invite", path, "--operator").returncode == 0
    assert store.tokens() == [TokenRow(client=None, label="operator")]
