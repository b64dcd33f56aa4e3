"""``ccesa identity`` as users have it: a process, its output, its files."""

import os
import stat
import subprocess

import pytest

import commands
from ccesa.agreement.identity import Admission, Identity, Member

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of files")


def run(*arguments, umask=0o022) -> subprocess.CompletedProcess:
    return commands.run("identity", *arguments, umask=umask)


def fails(done: subprocess.CompletedProcess, says: str, code: int) -> None:
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_new_identity_is_admitted_by_the_line_that_is_printed(tmp_path):
    path = tmp_path / "hospital-a.key"
    done = run("new", path, "--comment", "cardiology, since March")
    assert (done.returncode, done.stderr) == (0, "")
    identity = Identity.load(path)
    (member,) = Admission.parse(done.stdout).members
    assert member == Member("hospital-a", identity.public, "cardiology, since March")
    shown = run("show", path)
    assert shown.stdout == f"{Member('hospital-a', identity.public)}\n"
    assert identity.seed.hex() not in done.stdout + shown.stdout


def test_a_name_of_ones_own_stays_with_the_key(tmp_path):
    done = run("new", tmp_path / "key", "--name", "hôpital")
    assert done.stdout.startswith("hôpital ")
    (tmp_path / "key").rename(tmp_path / "moved")
    assert run("show", tmp_path / "moved").stdout == done.stdout
    assert run("show", tmp_path / "moved", "--name", "clinic").stdout.startswith("clinic ")


def test_a_key_without_a_name_is_called_by_its_file(tmp_path):
    Identity.new().save(tmp_path / "site-7.key")
    assert run("show", tmp_path / "site-7.key").stdout.startswith("site-7 ")


def test_lines_of_several_make_a_list(tmp_path):
    lines = [run("new", tmp_path / f"site-{k}.key").stdout for k in range(3)]
    admission = Admission.parse("".join(lines))
    for k in range(3):
        assert admission.id_of(Identity.load(tmp_path / f"site-{k}.key").public) == k
    assert len(set(lines)) == 3


@posix
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_owner_can_read_the_file_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "key"
    assert run("new", path, umask=umask).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o640, 0o602, 0o777])
def test_a_file_that_others_can_use_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    run("new", path)
    path.chmod(mode)
    fails(run("show", path), f"chmod 600 {path}", 2)
    path.chmod(0o600)
    assert run("show", path).returncode == 0


@pytest.mark.parametrize("content", [b"", b"something else\n"], ids=["empty", "full"])
def test_a_file_is_never_overwritten(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    fails(run("new", path), "will not be overwritten", 2)
    assert path.read_bytes() == content


def test_an_identity_is_never_overwritten(tmp_path):
    path = tmp_path / "key"
    run("new", path)
    before = path.read_bytes()
    fails(run("new", path), "will not be overwritten", 2)
    assert path.read_bytes() == before


@posix
def test_a_link_is_not_followed(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    fails(run("new", link), "will not be overwritten", 2)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", "two words", "#hidden", "a\u2028b", "x" * 129])
def test_a_name_that_would_not_read_back_leaves_no_file(tmp_path, name):
    fails(run("new", tmp_path / "key", "--name", name), "name", 2)
    assert not (tmp_path / "key").exists()


def test_a_comment_stays_in_its_line(tmp_path):
    done = run("new", tmp_path / "key", "--comment", "one\nevil AAAA\n two ")
    (member,) = Admission.parse(done.stdout).members
    assert member.comment == "one evil AAAA two"


@pytest.mark.parametrize(
    ("make", "says", "code"),
    [
        (lambda path: None, "No such file", 1),
        (lambda path: path.mkdir(mode=0o700), "directory", 1),
        (lambda path: path.write_text("no identity\n"), "is not an identity", 2),
        (lambda path: path.write_text("ccesa-identity-1 AAAA\n"), "32 bytes, got 3", 2),
    ],
    ids=["missing", "directory", "text", "short"],
)
def test_what_is_no_identity_cannot_be_shown(tmp_path, make, says, code):
    path = tmp_path / "key"
    make(path)
    if path.is_file():
        path.chmod(0o600)
    fails(run("show", path), says, code)


def test_another_file_is_no_identity_whoever_may_read_it(tmp_path):
    path = tmp_path / "charter.toml"
    path.write_text("version = 1\n")
    path.chmod(0o644)
    fails(run("show", path), "charter.toml is not an identity", 2)


def test_what_a_terminal_would_obey_is_not_printed(tmp_path):
    done = run("show", tmp_path / "a\x1b[2Jb\nc")
    fails(done, r"a\x1b[2Jb c", 1)
    assert "\x1b" not in done.stderr


def test_a_folder_that_is_not_there(tmp_path):
    fails(run("new", tmp_path / "no" / "key"), f"there is no folder {tmp_path / 'no'}", 2)


@pytest.mark.parametrize("arguments", [["new"], ["remove", "key"]])
def test_a_wrong_command_line_ends_in_one_line(arguments):
    fails(run(*arguments), "ccesa", 2)


@pytest.mark.parametrize("arguments", [[], ["new"], ["show"]])
def test_help_says_what_there_is(arguments):
    done = run(*arguments, "--help")
    assert done.returncode == 0
    assert "admission line" in " ".join(done.stdout.split())
